"""cronhpa.history.past.decisions: what is kept of decisions, for how long, and in how much space."""

import json
import random
import sqlite3
import tempfile
from itertools import pairwise
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.past.decisions import DecisionHistory, KeptDecision
from cronhpa.history.past.past_decision import PastDecision, unpack
from cronhpa.history.past.points import POINT_STEP, Point
from cronhpa.history.store import Store
from history.samples import raw

NOW = parse_instant("2026-11-23T00:00:00Z")
SHOP = ("prod", "shop")


def decided(at, replicas, *, filler=""):
    body = {"status": {"desiredReplicas": replicas, "filler": filler}}
    return PastDecision(at, Raw(json.dumps(body).encode()), Raw(b'{"now":%d}' % at), "0.1.0")


def kept(at, replicas, *, of=SHOP, digest=None, filler=""):
    return KeptDecision(*of, str(at) if digest is None else digest, decided(at, replicas, filler=filler))  # type: ignore[call-arg]  # the star gives namespace and name


def point(at, replicas=4):
    return (*SHOP, Point(at, replicas, replicas, 1.5, 2, 9, None))


def tidy_all(store, now):
    """Tidies in every minute of the six hours up to `now`: a call covers at most ten minutes since the previous one."""
    for minute in range(now - 6 * HOUR, now + MINUTE, 10 * MINUTE):
        assert store.decisions.tidy(minute) is None


def test_the_decision_of_an_instant_is_the_last_one_at_or_before_it(store):
    store.decisions.record([kept(NOW, 4), kept(NOW + HOUR, 9)])
    at = lambda instant: store.decisions.at(*SHOP, instant)  # noqa: E731 - four questions

    assert [None, decided(NOW, 4), decided(NOW, 4), decided(NOW + HOUR, 9)] == [
        at(NOW - 1), at(NOW), at(NOW + HOUR - 1), at(NOW + 2 * HOUR),
    ]  # fmt: skip
    assert decided(NOW + HOUR, 9) == store.decisions.after(*SHOP, NOW)
    assert store.decisions.after(*SHOP, NOW + HOUR) is None
    assert NOW == store.decisions.first(*SHOP)


def test_another_object_has_another_past(store):
    store.decisions.record([kept(NOW, 4), kept(NOW, 7, of=("prod", "cart")), kept(NOW, 8, of=("test", "shop"))])

    assert decided(NOW, 7) == store.decisions.at("prod", "cart", NOW)
    assert store.decisions.at("prod", "absent", NOW) is None
    assert [] == store.decisions.points("prod", "absent", 0, NOW)


def test_a_decision_is_not_written_again_after_a_restart(tmp_path):
    """Only the digest of the newest decision is compared: a return to an older decision is a change again."""
    path = tmp_path / "history.db"
    first = Store(path)
    first.decisions.record([kept(NOW, 4, digest="four"), kept(NOW + HOUR, 9, digest="nine")])
    first.close()

    again = Store(path)
    again.decisions.record([kept(NOW + 2 * HOUR, 9, digest="nine"), kept(NOW + 3 * HOUR, 4, digest="four")])

    decisions = again.decisions.between(*SHOP, 0, NOW + DAY, 10)
    assert [NOW, NOW + HOUR, NOW + 3 * HOUR] == [decision.at for decision in decisions]
    again.close()


def blocks(address):
    """(first, last, decisions) of each block of the first object, in order."""
    rows = raw(address, "SELECT first, last, packed FROM decided WHERE object = 1 ORDER BY first")
    return [(first, last, [decision.at for decision in unpack(bytes(packed))]) for first, last, packed in rows]


def test_a_block_ends_with_its_utc_day(store, address):
    """A block is forgotten as a whole: so no decision is kept for longer than eight days."""
    instants = [NOW, NOW + HOUR, NOW + DAY - 1, NOW + DAY, NOW + DAY + HOUR]
    for at in instants:
        store.decisions.record([kept(at, 4)])

    assert [
        (NOW, NOW + DAY - 1, instants[:3]),
        (NOW + DAY, NOW + DAY + HOUR, instants[3:]),
    ] == blocks(address)


def test_a_full_block_is_followed_by_another(store, address):
    """A block is full at 128 kiB of JSON: with four decisions of some 40 kB."""
    instants = [NOW + number * MINUTE for number in range(9)]
    store.decisions.record([kept(at, 4, filler="x" * 40_000) for at in instants])

    assert [instants[:4], instants[4:8], instants[8:]] == [within for _, _, within in blocks(address)]
    assert instants == [decision.at for decision in store.decisions.between(*SHOP, 0, NOW + DAY, 10)]


def test_tidying_changes_no_answer(store):
    instants = range(NOW, NOW + 2 * DAY, 20 * MINUTE)
    store.decisions.record([kept(at, at // HOUR % 7) for at in instants])
    store.decisions.record_points(point(at, at // HOUR % 7) for at in range(NOW, NOW + 2 * DAY, POINT_STEP))
    decisions = store.decisions.between(*SHOP, 0, NOW + 9 * DAY, 1000)
    points = store.decisions.points(*SHOP, NOW + HOUR, NOW + 30 * HOUR)

    tidy_all(store, NOW + 2 * DAY)

    assert len(instants) == len(decisions) == 144
    assert decisions == store.decisions.between(*SHOP, 0, NOW + 9 * DAY, 1000)
    assert points == store.decisions.points(*SHOP, NOW + HOUR, NOW + 30 * HOUR)
    assert 29 * 12 == len(points)
    for at in (NOW, NOW + 7 * HOUR + 1, NOW + DAY - 1):
        assert [decision for decision in decisions if decision.at <= at][-1] == store.decisions.at(*SHOP, at)
        assert next(decision for decision in decisions if decision.at > at) == store.decisions.after(*SHOP, at)


def test_a_span_gives_its_first_decisions_up_to_the_limit(store):
    store.decisions.record([kept(NOW + hour * HOUR, hour) for hour in range(10)])

    assert [2, 3, 4] == [
        (decision.at - NOW) // HOUR for decision in store.decisions.between(*SHOP, NOW + 2 * HOUR, NOW * 2, 3)
    ]


def test_the_first_point_of_a_step_is_kept(store):
    """A restarted process records one, too."""
    store.decisions.record_points([point(NOW, 4)])
    store.decisions.record_points([point(NOW + MINUTE, 9), point(NOW + POINT_STEP, 5)])

    assert [4, 5] == [recorded_point.replicas for recorded_point in store.decisions.points(*SHOP, NOW, NOW + HOUR)]


@pytest.mark.slow
def test_decisions_are_kept_for_a_week_and_points_thinned_to_hours_for_90_days(store):
    for day in range(100):
        begin = NOW + day * DAY
        store.decisions.record([kept(begin + hour * HOUR, hour) for hour in range(0, 24, 6)])
        store.decisions.record_points(point(at) for at in range(begin, begin + DAY, POINT_STEP))
        tidy_all(store, begin + DAY)
    end = NOW + 100 * DAY

    decisions = store.decisions.between(*SHOP, 0, end, 10**6)
    points = store.decisions.points(*SHOP, 0, end)

    # The block of a day goes as a whole, once the last of its decisions is a week old.
    assert end - 8 * DAY <= decisions[0].at <= end - 7 * DAY
    assert end - 91 * DAY <= points[0].at <= end - 90 * DAY
    week = [recorded_point for recorded_point in points if recorded_point.at >= end - 7 * DAY]
    older = [recorded_point for recorded_point in points if recorded_point.at < end - 8 * DAY]
    assert 7 * 288 == len(week)
    assert {HOUR} == {later.at - earlier.at for earlier, later in pairwise(older)}


def test_the_decisions_of_a_deleted_object_go_a_week_after_its_last_reconciliation(store):
    store.decisions.record([kept(NOW, 4)])
    store.decisions.record_points([point(NOW), point(NOW + HOUR)])

    tidy_all(store, NOW + 7 * DAY)
    assert decided(NOW, 4) == store.decisions.at(*SHOP, NOW)
    tidy_all(store, NOW + 9 * DAY)

    assert store.decisions.at(*SHOP, NOW) is None
    assert [] == store.decisions.points(*SHOP, 0, NOW + DAY)


def test_the_decision_of_an_object_that_does_not_change_is_kept_while_it_is_in_force(store):
    """Found: a week after its last change nothing was known of how an object is decided, while it was each period."""
    store.decisions.record([kept(NOW, 4), kept(NOW + DAY, 9)])
    for day in range(20):
        store.decisions.record_points([point(NOW + day * DAY)])
    tidy_all(store, NOW + 20 * DAY)

    assert decided(NOW + DAY, 9) == store.decisions.at(*SHOP, NOW + 20 * DAY)
    assert NOW + DAY == store.decisions.first(*SHOP)

    store.decisions.record([kept(NOW + 21 * DAY, 2)])
    store.decisions.record_points([point(NOW + 29 * DAY)])
    tidy_all(store, NOW + 29 * DAY)

    assert NOW + 21 * DAY == store.decisions.first(*SHOP)


def test_an_operator_that_was_away_for_a_month_forgets_no_hours(store):
    """
    The week after which an object is forgotten is that since its last reconciliation; its first reconciliation is
    written first.
    """
    store.decisions.record_points(point(at) for at in range(NOW, NOW + 2 * DAY, POINT_STEP))
    tidy_all(store, NOW + 2 * DAY)
    back = NOW + 30 * DAY
    store.decisions.record_points([point(back)])

    tidy_all(store, back + 6 * HOUR)

    assert 2 * 24 + 1 == len(store.decisions.points(*SHOP, 0, back + DAY))


def test_beyond_the_limit_the_objects_with_most_decisions_lose_their_oldest(tmp_path):
    """A noisy object shortens its own past: 300 decisions of a kilobyte beside ten, where 100 kB are allowed."""
    from cronhpa.history.database.sqlite import SqliteDatabase

    database = SqliteDatabase.open(tmp_path / "history.db")
    history = DecisionHistory(database, bytes_max=100_000)
    noise = random.Random(7)
    history.record([kept(NOW + 10 * number, number, filler=noise.randbytes(500).hex()) for number in range(300)])
    history.record([kept(NOW + number, number, of=("prod", "quiet")) for number in range(10)])

    for minute in range(NOW, NOW + 6 * HOUR, MINUTE):
        assert history.tidy(minute) is None

    noisy = history.between(*SHOP, 0, NOW + DAY, 1000)
    assert 10 == len(history.between("prod", "quiet", 0, NOW + DAY, 1000))
    assert 0 < len(noisy) < 300
    assert NOW + 2990 == noisy[-1].at
    database.close()
    connection = sqlite3.connect(tmp_path / "history.db")
    assert connection.execute("SELECT sum(length(packed)) FROM decided").fetchone()[0] <= 100_000
    connection.close()


def test_very_many_small_objects_of_a_tenant_take_nothing_of_the_large_ones_of_others(store):
    """
    Found: the objects of others were the largest, and lost all. Here 100 kB are allowed: two objects of others have 18
    kB each, a tenant's 200 objects 0.7 kB each. 64 kB are left to the tenant, which are 90 of its objects.
    """
    history = DecisionHistory(store.database, bytes_max=100_000)
    noise = random.Random(7)
    others = ("web", "api")
    for name in others:
        history.record(
            [kept(NOW + hour, hour, of=("prod", name), filler=noise.randbytes(500).hex()) for hour in range(30)]
        )
    one_each = [kept(NOW, 1, of=("tenant", f"x{number}"), filler=noise.randbytes(500).hex()) for number in range(200)]
    history.record(one_each)

    assert history.tidy(NOW) is None

    assert [30, 30] == [len(history.between("prod", name, 0, NOW + DAY, 100)) for name in others]
    of_tenant = sum(len(history.between("tenant", f"x{number}", 0, NOW + DAY, 100)) for number in range(200))
    assert 88 <= of_tenant <= 92


def test_any_span_is_answered(store):
    store.decisions.record([kept(NOW, 4)])
    store.decisions.record_points([point(NOW)])

    assert 1 == len(store.decisions.between(*SHOP, 0, 2**63 - 1, 10))
    assert 1 == len(store.decisions.points(*SHOP, 0, 2**63 - 1))
    assert [] == store.decisions.points(*SHOP, NOW + DAY, NOW)


def test_a_clock_that_stepped_back_loses_nothing_and_stops_nothing(store):
    store.decisions.record([kept(NOW, 4), kept(NOW + HOUR, 5)])
    assert store.decisions.tidy(NOW + DAY) is None
    store.decisions.record([kept(NOW + MINUTE, 6)])
    assert store.decisions.tidy(NOW + 2 * MINUTE) is None

    decisions = store.decisions.between(*SHOP, 0, NOW + DAY, 10)
    assert [4, 6, 5] == [json.loads(bytes(decision.body))["status"]["desiredReplicas"] for decision in decisions]
    assert decisions == [store.decisions.at(*SHOP, at) for at in (NOW + MINUTE - 1, NOW + HOUR - 1, NOW + HOUR)]


@pytest.mark.parametrize("wrong", ["1970-01-02T00:00:00Z", "2261-01-01T00:00:00Z"])
def test_a_row_of_a_wrong_clock_makes_no_tidying_look_through_centuries(store, wrong):
    """Found: of a row in the year 2200 each object's tidying took ten seconds, in which nobody else could write."""
    store.decisions.record_points(
        [point(parse_instant(wrong)), *(point(NOW + back * POINT_STEP) for back in range(24))]
    )

    begun = monotonic()
    tidy_all(store, NOW + 6 * HOUR)

    assert monotonic() - begun < 3
    assert 24 == len(store.decisions.points(*SHOP, NOW, NOW + DAY))


def test_a_clock_that_stepped_back_into_a_full_block_divides_it(store, address):
    """Blocks do not overlap, so that the last decision at an instant is in the last block that begins before it."""
    store.decisions.record([kept(NOW + number * HOUR, number, filler="x" * 40_000) for number in range(5)])
    store.decisions.record([kept(NOW + MINUTE, 7)])

    assert [
        (NOW, NOW + MINUTE, [NOW, NOW + MINUTE]),
        (NOW + HOUR, NOW + 3 * HOUR, [NOW + HOUR, NOW + 2 * HOUR, NOW + 3 * HOUR]),
        (NOW + 4 * HOUR, NOW + 4 * HOUR, [NOW + 4 * HOUR]),
    ] == blocks(address)
    assert NOW + MINUTE == store.decisions.at(*SHOP, NOW + HOUR - 1).at


def test_after_a_clock_that_was_ahead_for_hours_blocks_stay_small_and_all_is_read(store, address):
    """Found: all that came until the clock was right again went into one block, which was then too long to be read."""
    ahead = [NOW + 10 * HOUR + number * MINUTE for number in range(4)]
    right = [NOW + number * MINUTE for number in range(60)]
    store.decisions.record([kept(NOW - HOUR, 3), kept(NOW, 4, digest="once", filler="x" * 40_000)])
    for at in (*ahead, *right[1:]):
        store.decisions.record([kept(at, 4, filler="x" * 300_000)])

    assert [NOW - HOUR, *right, *ahead] == [
        decision.at for decision in store.decisions.between(*SHOP, 0, NOW + DAY, 100)
    ]
    assert [*right, *ahead] == [store.decisions.at(*SHOP, at).at for at in (*right, *ahead)]
    assert right[1:] == [store.decisions.after(*SHOP, at).at for at in right[:-1]]
    assert max(len(within) for _, _, within in blocks(address)) <= 4
    assert all(
        within == sorted(within) and (first, last) == (within[0], within[-1]) for first, last, within in blocks(address)
    )


@given(st.data())
@settings(max_examples=25)
def test_however_the_clock_was_set_each_instant_has_the_last_decision_at_or_before_it(data):
    """A clock that goes on by minutes, and is set by up to ten hours in either direction; it is tidied all the time."""
    clock, written = NOW, []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "history.db")
        for number in range(data.draw(st.integers(1, 40))):
            clock += data.draw(st.sampled_from([1, 1, 1, 30, -30, 600, -600])) * MINUTE + number
            one = kept(clock, number, filler="x" * data.draw(st.sampled_from([0, 40_000])))
            assert store.decisions.record([one]) is None
            assert store.decisions.tidy(clock) is None
            written.append(one.decision)
        instants = sorted(decision.at for decision in written)
        asked = [at + beside for at in instants for beside in (-1, 0, 1)]
        found = [store.decisions.at(*SHOP, at) for at in asked]
        following = [store.decisions.after(*SHOP, at) for at in asked]
        between = store.decisions.between(*SHOP, 0, instants[-1] + 1, 100)
        store.close()

    assert sorted(written, key=lambda decision: decision.at) == between
    assert [max((one for one in instants if one <= at), default=None) for at in asked] == [
        None if one is None else one.at for one in found
    ]
    assert [min((one for one in instants if one > at), default=None) for at in asked] == [
        None if one is None else one.at for one in following
    ]


def test_a_decision_that_is_repeated_after_the_clock_was_set_back_is_in_force_from_then_on(tmp_path):
    """Found: of an hour in which 9 pods were decided it was said that 4 were, until the wrong clock's time came."""
    path = tmp_path / "history.db"
    first = Store(path)
    first.decisions.record([kept(NOW, 4, digest="four"), kept(NOW + 3 * HOUR, 9, digest="nine")])
    first.close()

    again = Store(path)
    again.decisions.record([kept(NOW + HOUR, 9, digest="nine"), kept(NOW + 4 * HOUR, 9, digest="nine")])

    assert NOW + HOUR == again.decisions.at(*SHOP, NOW + 2 * HOUR).at
    assert NOW + 3 * HOUR == again.decisions.at(*SHOP, NOW + 5 * HOUR).at
    again.close()


def test_a_damaged_blob_is_a_fault_or_a_store_error_and_no_other_object_suffers(tmp_path):
    path = tmp_path / "history.db"
    store = Store(path)
    store.decisions.record([kept(NOW, 4), kept(NOW, 7, of=("prod", "cart"))])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE decided SET packed = x'0100' WHERE object = 1")
    connection.commit()
    connection.close()

    with pytest.raises(StoreError, match="decisions are"):
        store.decisions.at(*SHOP, NOW)
    assert decided(NOW, 7) == store.decisions.at("prod", "cart", NOW)
    assert store.decisions.record([kept(NOW + HOUR, 5)]) is None
    assert decided(NOW + HOUR, 5) == store.decisions.at(*SHOP, NOW + HOUR)
    store.close()


def test_an_unwritable_store_is_a_fault(tmp_path):
    path = tmp_path / "history.db"
    filled = Store(path)
    filled.decisions.record([kept(NOW + number, number) for number in range(10)])
    filled.close()
    store = Store.open_to_read(path)

    # The minute of a round in which the first object is due.
    for fault in (
        store.decisions.record([kept(NOW, 4)]),
        store.decisions.record_points([point(NOW)]),
        store.decisions.tidy(NOW + DAY + MINUTE),
    ):
        assert isinstance(fault, Fault)
        assert "nothing was recorded" in fault.message
    store.close()
