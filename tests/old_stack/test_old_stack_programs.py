"""Programs of operations on both buffers, for every storage unit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from old_stack_oracle import MAKERS, Pair

PRIORITIES = st.floats(1e-6, 1e6)
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 20), st.none() | PRIORITIES),
    st.tuples(st.just("sample"), st.integers(2, 9), st.floats(0, 1)),
    st.tuples(st.just("singles"), st.integers(1, 6), st.sampled_from([0.0, 0.4, 1.0])),
    st.tuples(st.just("update"), st.integers(1, 9), st.lists(PRIORITIES, min_size=9, max_size=9)),
)


@pytest.mark.parametrize("unit", MAKERS)
@settings(max_examples=15)
@given(capacity=st.integers(1, 40), program=st.lists(OPERATIONS, max_size=20), data=st.data())
def test_the_same_as_rllibs(unit: str, capacity: int, program: list, data: st.DataObject) -> None:
    pair = Pair(capacity, unit)
    for name, n, argument in program:
        if name == "add":
            pair.add(n, argument)
        elif not len(pair.ours):
            with pytest.raises(ValueError, match="empty"):
                pair.ours.sample(n)
        elif name == "update":
            indexes = st.lists(st.integers(0, len(pair.ours) - 1), min_size=n, max_size=n)
            pair.update(data.draw(indexes), argument[:n])
        elif name == "sample":
            pair.sample(n, argument)
        else:
            for _ in range(n):
                pair.sample(1, argument)
    pair.check()
    pair.check_items()
    pair.check_windows()
