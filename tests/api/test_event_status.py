"""api/event_status.py: the plan of an event beforehand, and the report afterwards."""

from msgspec.structs import replace

from cronhpa.api.event_status import EventLook, EventSums, ObjectPart, event_status, status_events
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.planned_event import EventSchedule, PlannedEvent
from cronhpa.core.model.spec import CronWindow, OnceWindow, Schedule
from cronhpa.core.schedules.events import phase

DOORS = Schedule("doors", OnceWindow("2026-11-27T18:00", "2026-11-27T20:00", "UTC"), floor=10)
SALE = PlannedEvent("sale", "prod", schedules=(EventSchedule(DOORS),), reason="Black Friday")
DAILY = CronWindow("0 18 * * *", "UTC", end="0 20 * * *")
CLUSTER = PlannedEvent("sale", schedules=(EventSchedule(DOORS),), reason="Black Friday")
START = parse_instant("2026-11-27T18:00:00Z")
SHOP = ObjectPart("prod", "shop", pods=10, pods_now=4, short=0, is_ready=False)
NONE = EventSums()
CART = ObjectPart("prod", "cart", pods=6, pods_now=6, short=4, is_ready=True)


def look(now, *parts, event=SALE, elapsed=0):
    return EventLook(event, 1, phase(event, now), parts, now, elapsed)


def condition(status, kind):
    return next(one for one in status["conditions"] if one["type"] == kind)


def test_beforehand_it_adds_up_what_the_event_asks_for_and_what_is_kept_from_it():
    status = event_status(look(START - HOUR, SHOP, CART), {}, NONE)

    assert ("Upcoming", 2, 16, 10, 4) == tuple(status[key] for key in ("state", "objects", "pods", "podsNow", "short"))
    assert {"time": "2026-11-27T18:00:00Z", "schedule": "doors", "state": "Open"} == status["nextEdge"]
    assert "prod/cart" in condition(status, "Fits")["message"]
    assert "report" not in status


def test_beforehand_it_says_what_the_added_pods_request():
    """Six pods are missing in the shop, of half a core and 128 MiB each: 3 cores, 768 MiB. The cart has its own."""
    shop = replace(SHOP, requests={"cpu": 500, "memory": 128 * 2**20 * 1000})

    status = event_status(look(START - HOUR, shop, replace(CART, requests={"cpu": 1000})), {}, NONE)

    assert {"cpu": "3", "memory": "768Mi"} == status["addedRequests"]


def test_while_pods_are_asked_for_ahead_it_is_leading():
    assert "Leading" == event_status(look(START - MINUTE, replace(SHOP, is_leading=True)), {}, NONE)["state"]


def test_while_it_is_active_it_counts_who_is_ready():
    status = event_status(look(START, SHOP, CART), {}, NONE)

    assert ("Active", 1) == (status["state"], status["ready"])
    assert 1 == status["report"]["readyAtStart"]


def test_the_report_adds_up_minutes_and_remembers_the_peak():
    """Four looks 15 s apart, at the maximum all the time: one minute. Two pods too many: two pod-minutes."""
    status, sums = {}, EventSums()
    for step in range(5):
        part = replace(SHOP, pods_now=10 - step, is_at_max=True, unneeded=2)
        seen = look(START + step * 15 * SECOND, part, elapsed=15 * SECOND if step else 0)
        sums.add(seen)
        status = event_status(seen, status, sums)
        sums.take_whole()

    report = status["report"]
    assert (10, 1, 2) == tuple(report[key] for key in ("peakPods", "minutesAtMax", "unneededPodMinutes"))


def test_what_a_status_that_was_not_written_would_have_added_is_not_lost():
    """90 s at the maximum, of which the write fails, and 30 s more: two minutes."""
    sums = EventSums()
    opened = event_status(look(START, SHOP), {}, sums)
    for seconds in (90, 30):
        seen = look(START + 2 * MINUTE, replace(SHOP, is_at_max=True), elapsed=seconds * SECOND)
        sums.add(seen)
    assert 2 == event_status(seen, opened, sums)["report"]["minutesAtMax"]


def test_two_replicas_add_to_one_report():
    """Each adds the minutes of its own objects to what the status says: 3 and 4 are 7."""
    status = event_status(look(START, SHOP), {}, EventSums())
    for minutes in (3, 4):
        status = event_status(look(START + 5 * MINUTE, SHOP), status, EventSums(minutes_short=minutes))

    assert 7 == status["report"]["minutesShort"]


def test_the_report_stays_after_the_end_and_begins_anew_with_the_next_window():
    running = event_status(look(START, SHOP), {}, NONE)
    ended = event_status(look(START + 3 * HOUR, SHOP), running, NONE)

    assert ("Ended", "2026-11-27T20:00:00Z") == (ended["state"], ended["report"]["closed"])
    assert "closed" not in event_status(look(START, SHOP), ended, NONE)["report"]


def test_a_suspended_event_reports_nothing_and_ends_a_report_that_runs():
    suspended = replace(SALE, suspend=True)
    running = event_status(look(START, SHOP), {}, NONE)

    status = event_status(look(START + HOUR, SHOP, event=suspended), {}, NONE)
    stopped = event_status(look(START + HOUR, SHOP, event=suspended), running, NONE)

    assert ("Suspended", False, False) == (status["state"], "report" in status, "ready" in status)
    assert "2026-11-27T19:00:00Z" == stopped["report"]["closed"]


def test_an_unknown_usual_load_is_told_with_the_objects():
    big = PlannedEvent("sale", "prod", schedules=(EventSchedule(DOORS, expected_load_percent=250),))

    status = event_status(look(START - HOUR, replace(SHOP, is_load_unknown=True), CART, event=big), {}, NONE)
    known = event_status(look(START - HOUR, SHOP, CART, event=big), {}, NONE)

    over = event_status(look(START + 3 * HOUR, replace(SHOP, is_load_unknown=True), event=big), {}, NONE)

    assert "LoadKnown" not in {one["type"] for one in over["conditions"]}
    assert "the usual load of prod/shop is not known" in condition(status, "LoadKnown")["message"]
    assert "True" == condition(known, "LoadKnown")["status"]
    assert condition(known, "LoadKnown")["message"].endswith("is known")


def test_the_usual_load_of_a_suspended_schedule_is_not_asked_for():
    paused = EventSchedule(replace(DOORS, name="paused", suspend=True), expected_load_percent=250)
    event = PlannedEvent("sale", "prod", schedules=(EventSchedule(DOORS), paused))

    status = event_status(look(START - HOUR, SHOP, event=event), {}, NONE)

    assert "LoadKnown" not in {one["type"] for one in status["conditions"]}


def test_an_event_of_each_week_says_that_its_usual_load_is_that_of_other_weekdays():
    doors = replace(DOORS, window=CronWindow("0 18 * * 5", "UTC", end="0 20 * * 5"))
    weekly = PlannedEvent("sale", "prod", schedules=(EventSchedule(doors, expected_load_percent=250),))
    unknown = replace(SHOP, is_load_unknown=True)

    known, not_known = (
        condition(event_status(look(START - HOUR, part, event=weekly), {}, NONE), "LoadKnown")["message"]
        for part in (SHOP, unknown)
    )

    assert "for doors that of other weekdays, because fewer than two of its own are usual" in known
    assert "two days of the last four weeks without the event are needed" in not_known


def test_an_event_for_nobody_says_how_to_find_the_labels():
    status = event_status(look(START), {}, NONE)

    assert "Empty" == status["state"]
    assert "--show-labels" in condition(status, "Matched")["message"]


def test_an_event_that_cannot_be_read_is_refused_with_its_problems():
    broken = PlannedEvent("sale", "prod", problems=("spec.schedules: a list belongs here",))

    status = event_status(look(START, event=broken), {}, NONE)

    assert "Refused" == status["state"]
    assert "a list belongs here" in condition(status, "Accepted")["message"]


def test_operators_of_some_namespaces_have_a_row_each_which_goes_with_an_edit_if_its_operator_is_gone():
    def by(row, part, previous, generation=1):
        at = START - HOUR
        parts = (replace(part, shard=row),)
        aside = f"the operator acts in {part.namespace} alone"
        seen = EventLook(CLUSTER, generation, phase(CLUSTER, at), parts, at, 0, 0, frozenset({row}), aside)
        return event_status(seen, previous, NONE)

    both = by(8, replace(CART, namespace="other"), by(7, SHOP, {}))

    assert (2, 16, 4) == tuple(both[key] for key in ("objects", "pods", "short"))
    assert "the operator acts in other alone" in condition(both, "Matched")["message"]
    assert 10 == by(7, SHOP, both, generation=2)["pods"]


def test_a_status_that_somebody_forged_costs_no_report():
    for forged in ("text", {"opened": 5}, {"opened": "yesterday", "peakPods": "many"}, []):
        assert 4 == event_status(look(START, SHOP), {"report": forged}, NONE)["report"]["peakPods"]


def test_a_condition_keeps_the_time_of_its_last_change():
    before = event_status(look(START - HOUR, SHOP), {}, NONE)
    after = event_status(look(START, SHOP), before, NONE)

    assert "2026-11-27T17:00:00Z" == condition(after, "Fits")["lastTransitionTime"]


def told(previous, status):
    return [(one.reason, one.message) for one in status_events(previous, status)]


def test_people_are_told_the_start_with_who_is_ready_and_the_end_with_the_report():
    before = event_status(look(START - HOUR, SHOP, CART), {}, NONE)
    running = event_status(look(START, SHOP, CART), before, NONE)
    ended = event_status(look(START + 3 * HOUR, SHOP, CART), running, EventSums(minutes_short=7))

    ready = "1 of 2 objects are Ready at their count; it asks for 16 pods in all"
    report = "10 pods at the peak, 0 minutes at the maximum, 7 minutes short, 0 pod-minutes that no metric asked for"
    assert [("EventStarted", ready)] == told(before, running)
    assert [("EventEnded", report)] == told(running, ended)
    assert [] == told(running, event_status(look(START + HOUR, SHOP, CART), running, NONE))


def test_people_are_told_once_of_a_condition_that_becomes_false():
    before = event_status(look(START - HOUR, SHOP), {}, NONE)
    short = event_status(look(START - HOUR, SHOP, CART), before, NONE)

    assert ["AboveMaximum"] == [reason for reason, _ in told(before, short)]
    assert [] == told(short, event_status(look(START - HOUR, SHOP, CART), short, NONE))


def daily(count):
    """The status after so many days of an event from six to eight in the evening."""
    event = PlannedEvent("sale", "prod", schedules=(EventSchedule(replace(DOORS, window=DAILY)),))
    status = {}
    for day in range(count):
        status = event_status(look(START + day * DAY, replace(SHOP, pods_now=day), event=event), status, NONE)
        status = event_status(look(START + day * DAY + 3 * HOUR, SHOP, event=event), status, NONE)
    return status


def test_the_reports_of_the_last_sixty_windows_are_kept():
    status = daily(62)

    assert 61 == status["report"]["peakPods"]
    assert list(range(60, 0, -1)) == [report["peakPods"] for report in status["pastReports"]]


def test_a_window_that_passed_while_no_operator_ran_ends_by_its_own_time_and_the_next_has_a_report_of_its_own():
    """The operator is killed in the window of one day and comes back in that of the next."""
    event = PlannedEvent("sale", "prod", schedules=(EventSchedule(replace(DOORS, window=DAILY)),))
    before = event_status(look(START, replace(SHOP, pods_now=30), event=event), {}, NONE)

    after = event_status(look(START + DAY + HOUR, SHOP, event=event), before, NONE)

    assert ("2026-11-27T20:00:00Z", 30) == tuple(after["pastReports"][0][key] for key in ("closed", "peakPods"))
    assert ("2026-11-28T18:00:00Z", 4) == tuple(after["report"][key] for key in ("opened", "peakPods"))
    assert "readyAtStart" not in after["report"]
    assert ["EventEnded", "EventStarted"] == [reason for reason, _ in told(before, after)]


def test_an_event_that_is_suspended_for_a_while_goes_on_in_its_report():
    running = event_status(look(START, replace(SHOP, pods_now=30)), {}, NONE)
    stopped = event_status(look(START + HOUR, SHOP, event=replace(SALE, suspend=True)), running, NONE)

    again = event_status(look(START + 90 * MINUTE, SHOP), stopped, NONE)

    assert (30, False, False) == (again["report"]["peakPods"], "closed" in again["report"], "pastReports" in again)
    assert ["EventStarted"] == [reason for reason, _ in told(stopped, again)]


def test_an_event_of_the_past_says_what_to_do_and_one_that_ran_to_its_end_warns_nobody():
    past = event_status(look(START + 3 * HOUR, SHOP), {}, NONE)
    ended = event_status(look(START + 3 * HOUR, SHOP), event_status(look(START, SHOP), {}, NONE), NONE)

    assert ("False", "NoWindow") == tuple(condition(past, "Scheduled")[key] for key in ("status", "reason"))
    assert ["NoWindow"] == [reason for reason, _ in told({}, past)]
    assert "NoWindow" == condition(ended, "Scheduled")["reason"]
    assert [] == told(ended, ended)


def test_what_an_event_cannot_mean_for_an_object_is_told_with_its_name():
    none = event_status(look(START - HOUR, replace(SHOP, is_percent_of_nothing=True)), {}, NONE)
    many = event_status(look(START - HOUR, replace(SHOP, is_left_out=True)), {}, NONE)

    assert "PercentOfNothing" == condition(none, "Fits")["reason"]
    assert "TooManyEvents" == condition(many, "Matched")["reason"]
    assert all("prod/shop" in condition(*one)["message"] for one in ((none, "Fits"), (many, "Matched")))


def test_objects_that_are_not_scaled_here_are_named():
    preview, other = replace(SHOP, is_preview=True), replace(CART, is_elsewhere=True)
    unreadable = replace(CART, name="till", is_unreadable=True)

    told = condition(event_status(look(START - HOUR, preview, other, unreadable), {}, NONE), "Matched")

    assert "1 of them are in mode Preview and are not scaled: prod/shop" in told["message"]
    assert "1 of them are served by another installation, which may not read the event: prod/cart" in told["message"]
    assert "1 of them cannot be read and are not scaled (see their SpecAccepted): prod/till" in told["message"]


def test_with_shards_each_replica_knows_what_the_others_told_and_none_undoes_it():
    """
    Replica A has shard 0 with a shop in 150 namespaces, replica B shard 1 with the cart, which is short of 4. Totals
    count all namespaces, conditions all shards, and once both have told there is nothing more to write.
    """
    many = [replace(SHOP, namespace=f"team-{number:03}") for number in range(150)]
    cart = replace(CART, shard=1, is_leading=True)

    def by(shard, parts, previous, shards=2):
        seen = EventLook(
            CLUSTER, 1, phase(CLUSTER, START - HOUR), tuple(parts), START - HOUR, 0, shards, frozenset({shard})
        )
        told = {row["namespace"]: row for row in previous.get("namespaces", ())}
        mine = {part.namespace for part in parts}
        return event_status(seen, previous, NONE, [row for name, row in told.items() if name not in mine])

    a = by(0, many, {})
    b = by(1, [cart], a)
    again = by(0, many, b)

    assert (151, 1506, 4) == tuple(b[key] for key in ("objects", "pods", "short"))
    assert ("Leading", "False") == (b["state"], condition(b, "Fits")["status"])
    assert "prod/cart" in condition(again, "Fits")["message"]
    assert 100 == len(b["namespaces"])
    assert again == b == by(1, [cart], again)
    assert 1 == by(1, [cart], a, shards=4)["objects"]
