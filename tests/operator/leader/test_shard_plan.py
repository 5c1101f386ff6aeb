"""cronhpa.operator.leader.shard_plan: shares of shards, move by move."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cronhpa.operator.leader.election import UNKNOWN
from cronhpa.operator.leader.shard_plan import ShardPlan, plan

REPLICAS = st.lists(
    st.sampled_from([f"replica-{number}" for number in range(20)]), min_size=1, max_size=18, unique=True
)


def test_the_first_replica_takes_all_shards():
    assert ShardPlan(take=(0, 1, 2, 3)) == plan([""] * 4, ["a"], "a")


def test_a_second_one_waits_for_what_the_first_gives_up():
    holders = ["a"] * 4

    assert ShardPlan(give=(2, 3)) == plan(holders, ["a", "b"], "a")
    assert ShardPlan() == plan(holders, ["a", "b"], "b")
    assert ShardPlan(take=(2, 3)) == plan(["a", "a", "", ""], ["a", "b"], "b")


def test_a_shard_whose_holder_is_not_known_is_nobodys_and_no_replica():
    assert ShardPlan(take=(1, 2, 3)) == plan([UNKNOWN, "", "", ""], ["a", UNKNOWN], "a")


def test_what_is_being_given_up_is_given_up_once():
    assert ShardPlan() == plan(["a"] * 4, ["a", "b"], "a", leaving={2, 3})


def test_of_four_replicas_with_four_shards_each_one_keeps_the_fourth_for_a_fifth():
    """16 = 4 + 3 + 3 + 3 + 3: a, the first by name of those with four, keeps them."""
    holders = [name for name in "abcd" for _ in range(4)]

    given_up = {name: plan(holders, "abcde", name).give for name in "abcde"}

    assert {"a": (), "b": (7,), "c": (11,), "d": (15,), "e": ()} == given_up


def test_more_replicas_than_shards_leave_some_without():
    assert ShardPlan() == plan(["a", "b"], ["a", "b", "c"], "c")


@given(st.integers(1, 16), REPLICAS, st.data())
def test_moves_end_in_shares_that_differ_by_one_at_most(shards, live, data):
    """From any state, in any order, and with gifts that free a shard a move later."""
    holders = data.draw(st.lists(st.sampled_from(["", *live]), min_size=shards, max_size=shards))
    moves = 0
    while True:
        moved = False
        for me in data.draw(st.permutations(live)):
            move = plan(holders, live, me)
            for shard in move.take:
                assert holders[shard] == ""
                holders[shard] = me
            for shard in move.give:
                assert holders[shard] == me
                holders[shard] = ""
            moved |= move != ShardPlan()
        if not moved:
            break
        moves += 1
        assert moves < 20
    held = Counter(dict.fromkeys(live, 0))
    held.update(holders)

    assert "" not in holders
    assert max(held.values()) - min(held.values()) <= 1


@given(st.integers(1, 16), REPLICAS)
def test_replicas_with_fair_shares_move_nothing(shards, live):
    holders = [live[shard % len(live)] for shard in range(shards)]

    assert {ShardPlan()} == {plan(holders, live, me) for me in live}
