"""Draws from a replay in several parts are draws from one replay with all their rows."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.draws import NothingToSampleError
from rllib_per_acc.joined_columns import join
from rllib_per_acc.replay_options import LONGEST, SequenceShape
from rllib_per_acc.replay_part import GatherOptions, ReplayPart
from rllib_per_acc.replay_union import UnionRequest, draw_from_parts


def chunk(number, length, done=True):
    observations = {"n": np.full(length + 1, number), "t": np.arange(length + 1)}
    return EpisodeChunk(
        f"e{number}", observations, np.zeros(length), np.arange(length) + 0.5, terminated=done
    )


def make_parts():
    """Parts of total mass about 1 : 9 : 0 whose episodes are of very different lengths."""
    rng = np.random.default_rng(5)
    parts = [ReplayPart(1000, alpha=1.0) for _ in range(3)]
    lengths = [5, 4]
    parts[0].add([chunk(i, n) for i, n in enumerate(lengths)], weight=rng.random(9) * 0.25)
    lengths = [2, 2, 3, 1, 6, 2]
    parts[1].add([chunk(10 + i, n) for i, n in enumerate(lengths)], weight=rng.random(16))
    return parts


def draw(parts, rng, num_items, n_step=(1, 1), acceptance=1.0, **options):
    """The draw, and how many rounds of calls it took."""
    kwargs = {"beta": 0.4, "stratified": False, "by_batch": False, "shorten": False} | options
    least = 1 if kwargs.pop("shorten") else LONGEST
    sequences = kwargs.pop("sequences", None)
    if sequences is not None:
        n_step, least = (sequences.length, sequences.length), sequences.least
    gather = GatherOptions(1.0, least, infos=False, extras=False, sequences=sequences)
    request = UnionRequest(num_items, n_step, gather=gather, metrics_window=10, **kwargs)
    steps = draw_from_parts(range(len(parts)), request, rng, acceptance)
    calls, rounds = next(steps), 1
    while True:
        replies = {
            i: (getattr(parts[i], method)(*arguments), parts[i].status())
            for i, (method, arguments) in calls.items()
        }
        try:
            calls = steps.send(replies)
        except StopIteration as end:
            return end.value, rounds
        rounds += 1


def weights_of_steps(parts, low, high, shorten):
    """The probability of each (episode, t, n), but for a factor."""
    expected = Counter()
    for part in parts:
        held = part.get_priorities()
        lengths = Counter(held["episode_id"])
        for id_, t, mass in zip(held["episode_id"], held["t"], held["mass"], strict=True):
            left = lengths[id_] - t
            for n in range(low, high + 1):
                if n <= left or shorten:
                    expected[id_, int(t), int(min(n, left))] += mass
    return expected


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize(
    ("n_step", "shorten"),
    [((1, 1), False), ((3, 3), False), ((1, 3), False), ((5, 5), False), ((2, 6), True)],
)
def test_frequencies_are_those_of_the_union(n_step, shorten, stratified):
    """n = 5: one step of nine in one part and two of sixteen in the other can serve at all."""
    parts, rng = make_parts(), np.random.default_rng(1)
    expected = weights_of_steps(parts, *n_step, shorten)
    counts, acceptance = Counter(), 1.0
    for _ in range(60):
        drawn, _ = draw(parts, rng, 250, n_step, acceptance, shorten=shorten, stratified=stratified)
        acceptance = drawn.acceptance
        columns = drawn.columns
        numbers = columns["observations"]["n"].tolist(), columns["t"], columns["n_step"]
        counts.update((f"e{i}", int(t), int(n)) for i, t, n in zip(*numbers, strict=True))
    assert counts.total() == 60 * 250
    assert counts.keys() <= expected.keys()
    total = sum(expected.values())
    keys = list(expected)
    f_exp = np.array([expected[key] / total * counts.total() for key in keys])
    assert chisquare([counts[key] for key in keys], f_exp).pvalue > 1e-3


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("least", [1, 3, 5])
def test_frequencies_of_sequences_are_those_of_the_union(least, stratified):
    """A sequence of up to 4 (or 6) steps begins by the mass of its first, if `least` are left."""
    parts, rng = make_parts(), np.random.default_rng(3)
    shape = SequenceShape(max(4, least + 1), 1, least)
    expected = weights_of_steps(parts, shape.length, shape.length, shorten=True)
    expected = {key: weight for key, weight in expected.items() if key[2] >= least}
    counts, acceptance = Counter(), 1.0
    for _ in range(40):
        options = {"stratified": stratified, "sequences": shape}
        drawn, _ = draw(parts, rng, 250, acceptance=acceptance, **options)
        acceptance, columns = drawn.acceptance, drawn.columns
        assert columns["rewards"].shape == (250, 1 + shape.length)
        numbers = columns["observations"]["n"][:, 1].tolist(), columns["t"], columns["length"]
        counts.update((f"e{i}", int(t), int(n)) for i, t, n in zip(*numbers, strict=True))
        assert drawn.activity.counts.steps_sampled == int(columns["length"].sum())
    assert counts.keys() <= expected.keys()
    f_exp = np.array(list(expected.values())) / sum(expected.values()) * counts.total()
    assert chisquare([counts[key] for key in expected], f_exp).pvalue > 1e-3


def test_one_round_of_draws_is_enough_when_most_can_be_used():
    parts = [ReplayPart(10_000, alpha=1.0) for _ in range(2)]
    for i in range(40):
        parts[i % 2].add([chunk(i, 100)])
    rng, rounds, acceptance = np.random.default_rng(0), [], 1.0
    for _ in range(50):
        drawn, n = draw(parts, rng, 512, (3, 3), acceptance)
        acceptance = drawn.acceptance
        rounds.append(n)
        assert len(drawn.columns["t"]) == 512
    assert np.mean(rounds[1:]) < 2.1


@pytest.mark.parametrize("by_batch", [False, True])
def test_weights_are_those_of_one_replay(by_batch):
    parts = make_parts()
    whole = PrioritizedReplay(
        1000, alpha=1.0, weight_normalization="batch" if by_batch else "buffer"
    )
    for part in parts:
        held = part.get_priorities()
        whole.add(part.get_chunks(0, part.status().episodes), held["mass"])
    drawn, _ = draw(parts, np.random.default_rng(2), 400, by_batch=by_batch)
    batch = whole.sample(400, beta=0.4)
    mine = zip(drawn.columns["observations"]["n"], drawn.columns["t"], strict=True)
    weights = dict(zip(mine, drawn.columns["weights"], strict=True))
    theirs = zip(batch.observations["n"], batch.t, strict=True)
    expected = dict(zip(theirs, batch.weights, strict=True))
    both = weights.keys() & expected.keys()
    assert len(both) > 15
    if by_batch:  # the same but for the batch's own maximum
        assert max(weights.values()) == max(expected.values()) == 1.0
        ratios = [weights[key] / expected[key] for key in both]
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-12)
    else:
        np.testing.assert_allclose(
            [weights[key] for key in both], [expected[key] for key in both], rtol=1e-12
        )


def test_a_beta_schedule_counts_the_steps_of_all_parts():
    parts = make_parts()
    schedule = [[0, 0.0], [50, 1.0]]
    drawn, _ = draw(parts, np.random.default_rng(2), 50, beta=schedule)
    masses = np.concatenate([part.get_priorities()["mass"] for part in parts])
    by_step = {}
    for part in parts:
        held = part.get_priorities()
        by_step |= dict(zip(zip(held["episode_id"], held["t"], strict=True), held["mass"],
                            strict=True))  # fmt: skip
    columns = drawn.columns
    own = [by_step[f"e{n}", t] for n, t in zip(columns["observations"]["n"], columns["t"],
                                               strict=True)]  # fmt: skip
    expected = (np.array(own) / masses.min()) ** -0.5  # 25 of 50 steps were added
    np.testing.assert_allclose(columns["weights"], expected, rtol=1e-12)


def test_rows_that_end_an_episode_come_last_and_handles_name_them():
    parts = make_parts()
    drawn, _ = draw(parts, np.random.default_rng(3), 200)
    columns = drawn.columns
    assert (np.diff(columns["terminateds"].astype(int)) >= 0).all()
    assert columns["terminateds"].any()
    seen = np.concatenate([handle.positions for handle in drawn.handles])
    assert sorted(seen) == list(range(200))
    for handle in drawn.handles:
        part = parts[handle.part]
        assert handle.rows.incarnation == part.incarnation
        stored = part._store.columns.observations.take(handle.rows.rows)
        for name in ("n", "t"):
            np.testing.assert_array_equal(
                stored[name], columns["observations"][name][handle.positions]
            )


def test_the_sample_is_counted_once():
    parts = make_parts()
    drawn, _ = draw(parts, np.random.default_rng(3), 200)
    counts = drawn.activity.counts
    columns = drawn.columns
    steps = set(zip(columns["observations"]["n"], columns["t"], strict=True))
    assert (counts.num_samples, counts.steps_sampled) == (1, 200)
    assert counts.distinct_steps == len(steps)
    assert counts.distinct_episodes == len({n for n, _ in steps})
    assert (counts.steps_added, counts.episodes_added) == (25, 8)
    assert list(drawn.activity.utilization) == [len(steps) / 200]


def test_resampled_draws_are_counted():
    parts, rng = make_parts(), np.random.default_rng(4)
    total, resampled = 0, 0
    for _ in range(50):
        drawn, _ = draw(parts, rng, 100, (1, 3), acceptance=0.7)
        resampled += drawn.activity.counts.resampled
        total += 100
    masses = weights_of_steps(parts, 1, 3, shorten=False)
    fitting = sum(masses.values()) / (3 * sum(part.status().total for part in parts))
    assert resampled / (total + resampled) == pytest.approx(1 - fitting, abs=0.02)


def test_nothing_to_draw_from():
    empty = [ReplayPart(10), ReplayPart(10)]
    with pytest.raises(NothingToSampleError, match="empty"):
        draw(empty, np.random.default_rng(0), 4)
    with pytest.raises(NothingToSampleError, match=r"n_step: got 7.*6 steps"):
        draw(make_parts(), np.random.default_rng(0), 4, (7, 8))


def test_join_keeps_nesting_types_and_order():
    def columns(values):
        values = np.asarray(values)
        return {
            "observations": ({"a": values.astype(np.uint8)}, np.stack([values, -values], 1)),
            "terminateds": values % 5 == 0,
            "truncateds": values % 7 == 0,
            "infos": np.array([{"v": int(v)} for v in values], object),
        }

    pieces = [
        (columns([1, 5, 2, 3]), np.array([1, 2, 0])),
        (columns([7, 8]), np.array([0, 1])),
        (columns([11]), np.array([0])),
    ]
    joined, positions = join(pieces)
    order = [2, 1, 8, 11, 5, 7]
    assert joined["observations"][0]["a"].tolist() == order
    assert joined["observations"][0]["a"].dtype == np.uint8
    assert joined["observations"][1].tolist() == [[v, -v] for v in order]
    assert joined["infos"].tolist() == [{"v": v} for v in order]
    assert [p.tolist() for p in positions] == [[4, 0, 1], [5, 2], [3]]
