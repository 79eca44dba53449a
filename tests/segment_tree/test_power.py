"""`power` gives the bits of Python's ``float ** float``."""

import math

import numpy as np
import pytest

from rllib_per_acc.segment_tree import power


def bits(values: object) -> list[int]:
    return np.asarray(values, dtype=np.float64).view(np.int64).tolist()


@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.5, 0.6, 1.0, 1.7, 2.0, -0.4])
def test_random_values_have_pythons_bits(exponent: float) -> None:
    rng = np.random.default_rng(7)
    values = 10.0 ** rng.uniform(-300, 300, size=20_000)
    values = np.concatenate([values, rng.random(20_000), [5e-324, 1e-310, 1.7e308, 1.0]])
    with np.errstate(all="ignore"):
        expected = [_python_power(x, exponent) for x in values.tolist()]
    assert bits(power(values, exponent)) == bits(expected)


def _python_power(x: float, exponent: float) -> float:
    try:
        return x**exponent
    except OverflowError:  # Python raises where C's pow gives inf
        return math.inf


def test_special_values_are_those_of_c() -> None:
    values = [0.0, -0.0, math.inf, -math.inf, -8.0]
    assert bits(power(values, 3.0)) == bits([x**3.0 for x in values])
    assert bits(power(values, 0.0)) == bits([1.0] * 5)
    assert power([0.0, -0.0], -1.0).tolist() == [math.inf, -math.inf]
    assert np.isnan(power([math.nan, -1.0], 0.5)).all()
    assert bits(power([math.nan], 0.0)) == bits([1.0])


def test_shapes_and_dtypes() -> None:
    assert power(np.empty(0), 0.5).shape == (0,)
    assert power(np.array([4, 9]), 0.5).tolist() == [2.0, 3.0]
    assert power(np.arange(6.0)[::2], 2.0).tolist() == [0.0, 4.0, 16.0]
    assert isinstance(power(4.0, 0.5), float)
    with pytest.raises(ValueError, match="values has shape"):
        power(np.ones((2, 2)), 0.5)
    with pytest.raises(TypeError, match="values has dtype"):
        power(np.array(["a"]), 0.5)
