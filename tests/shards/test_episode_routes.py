"""Which shard an episode goes to."""

from shard_cases import chunk

from rllib_per_acc.shards.episode_routes import MAX_EPISODES_KNOWN, EpisodeRoutes


def route(routes, one, among):
    """Deals a chunk out, and notes that it was sent."""
    dealt, _ = routes.dealt([one], among)
    routes.sent([one], dealt)
    (shard,) = dealt
    return shard


def test_an_episode_stays_where_it_began():
    routes = EpisodeRoutes([100, 100, 100])
    first = {i: route(routes, chunk(i, 3), range(3)) for i in range(9)}
    for t in (3, 6):
        assert {i: route(routes, chunk(i, 3, t), range(3)) for i in range(9)} == first
    assert sorted(first.values()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_new_episodes_go_to_the_least_filled():
    routes = EpisodeRoutes([100, 100])
    route(routes, chunk(0, 50), range(2))
    assert [route(routes, chunk(i, 10), range(2)) for i in range(1, 6)] == [1] * 5
    routes = EpisodeRoutes([30, 10])
    shards = [route(routes, chunk(i, 1), range(2)) for i in range(40)]
    assert shards.count(0) == 30


def test_full_shards_go_on_getting_their_share():
    """None is left to grow old because another is a few steps less full."""
    routes = EpisodeRoutes([100, 100])
    shards = [route(routes, chunk(i, 7 + i % 5), range(2)) for i in range(2000)]
    late = shards[-200:]
    assert 80 < late.count(0) < 120


def test_an_empty_shard_is_filled_first_and_not_for_longer():
    routes = EpisodeRoutes([100, 100])
    for i in range(200):
        route(routes, chunk(i, 10), range(2))
    routes.forget(1)
    shards = [route(routes, chunk(1000 + i, 10), range(2)) for i in range(40)]
    assert shards[:9] == [1] * 9
    assert 10 < shards[10:].count(0) < 20


def test_episodes_of_a_lost_shard_go_on_elsewhere():
    routes = EpisodeRoutes([100, 100])
    at = route(routes, chunk(1, 5, done=False), range(2))
    other = 1 - at
    assert route(routes, chunk(1, 5, 5), [other]) == other
    assert route(routes, chunk(1, 5, 10), range(2)) == other


def test_it_does_not_grow_without_end():
    routes = EpisodeRoutes([10, 10])
    for i in range(MAX_EPISODES_KNOWN + 1000):
        route(routes, chunk(i, 1), range(2))
    assert len(routes._routes) == MAX_EPISODES_KNOWN


def test_a_first_episode_goes_to_the_first_shard_whatever_their_capacities():
    assert route(EpisodeRoutes([10, 30]), chunk(0, 1), range(2)) == 0


def test_the_episode_that_was_added_to_longest_ago_is_forgotten():
    routes = EpisodeRoutes([10, 10])
    old, used = chunk(0, 1).episode_id, chunk(1, 1).episode_id
    known = {f"episode {i}": 0 for i in range(MAX_EPISODES_KNOWN - 2)}
    routes.restart({used: 1, old: 1} | known, [0, 9])
    assert route(routes, chunk(1, 1), range(2)) == 1
    assert route(routes, chunk(2, 1), range(2)) == 0  # for this one `old` is forgotten
    assert route(routes, chunk(1, 1), [1]) == 1
    assert route(routes, chunk(0, 1), range(2)) == 0


def test_by_how_much_all_are_too_full_does_not_count():
    routes = EpisodeRoutes([10, 100])
    routes.restart({}, [11, 100])
    route(routes, chunk(0, 1), [1])
    assert route(routes, chunk(1, 1), range(2)) == 0


def test_a_lost_shard_is_empty_and_the_episodes_of_others_stay():
    routes = EpisodeRoutes([100, 100])
    stays, goes = chunk(0, 1).episode_id, chunk(1, 1).episode_id
    routes.restart({stays: 1, goes: 0}, [5, 0])
    routes.forget(0)
    assert route(routes, chunk(2, 1), range(2)) == 0  # of two empty ones
    routes.restart({stays: 1, goes: 0}, [5, 50])
    routes.forget(0)
    assert route(routes, chunk(0, 1), range(2)) == 1
    routes.restart({goes: 1}, [0, 5])
    routes.forget(1)
    assert route(routes, chunk(1, 1), range(2)) == 0


def test_what_does_not_go_on_where_it_left_off_is_in_doubt():
    routes = EpisodeRoutes([100])

    def doubt(*chunks):
        return routes.dealt(chunks, [0])[1]

    begun = chunk(1, 5, done=False)
    assert not doubt(begun, chunk(1, 5, 5), chunk(2, 5))
    assert doubt(begun, chunk(1, 5, 6), chunk(2, 5))  # whatever comes after it
    assert doubt(chunk(1, 5, done=True), chunk(1, 5, 5))
    routes.restart({begun.episode_id: 0}, [5])
    assert not doubt(chunk(1, 5, 7))  # where it left off is not known
    routes.sent([begun], {0: [0]})
    assert not doubt(chunk(1, 5, 5))
    assert doubt(chunk(1, 5, 4))
