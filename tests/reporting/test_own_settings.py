"""What a report says of forecasts and schedules that an object has already."""

import pytest

from cronhpa.core.model.instant import DAY
from cronhpa.core.model.spec import Span
from cronhpa.reporting.suggestions import judge
from reporting.made_targets import MONDAY, cron_hpa, points, rush, target

DAYS = 5


def judged(load, **spec):
    """The last of five days, of a CronHPA with these fields."""
    end = MONDAY + DAYS * DAY
    return judge(target(load, cron_hpa(**spec)), Span(end - DAY, end), ("UTC",))


def window(start, end, replicas, **more):
    return {"name": "rush", "start": start, "end": end, "timeZone": "UTC", "minReplicas": replicas, **more}


def changes(found):
    return [one.change for one in found.suggestions]


@pytest.mark.slow
def test_a_window_that_no_minute_needs_is_named_with_its_pods():
    """30 pods in the evening, where 3 are enough: 27 pods for two hours, and their lead."""
    found = judged(points(DAYS, rush), schedules=[window("0 20 * * *", "0 22 * * *", 30)])

    (without,) = (one for one in found.suggestions if one.change == "no minReplicas in schedule rush")
    assert "avoided 0 minutes" in without.why
    assert 54 <= found.today.pod_hours - without.score.pod_hours <= 60
    assert "schedules" not in without.spec or [] == without.spec["schedules"]


@pytest.mark.slow
def test_a_window_that_is_too_low_is_raised_to_what_its_minutes_needed():
    """12 cores at 0.6 a pod are 20 pods; 5 are stated."""
    found = judged(points(DAYS, rush), schedules=[window("0 8 * * *", "0 10 * * *", 5)])

    assert "minReplicas 20 instead of 5 in schedule rush" in changes(found)


@pytest.mark.slow
def test_a_lead_of_nothing_is_too_short_for_pods_that_take_a_minute():
    found = judged(points(DAYS, rush), schedules=[window("0 8 * * *", "0 10 * * *", 20, leadTimeSeconds=0)])

    assert "a measured lead of schedule rush instead of leadTimeSeconds 0" in changes(found)


def test_a_window_that_is_needed_stays_and_what_it_did_is_told():
    found = judged(points(DAYS, rush), schedules=[window("0 8 * * *", "0 10 * * *", 20)])

    assert not any("schedule rush" in change for change in changes(found))
    (told,) = found.findings
    assert told.startswith("schedule rush: its minReplicas 20 avoided ")
    assert not told.startswith("schedule rush: its minReplicas 20 avoided 0 ")


@pytest.mark.slow
def test_a_forecast_says_what_it_avoided():
    found = judged(points(DAYS, rush), forecast={"budgetPercent": 5})

    (told,) = (text for text in found.findings if text.startswith("its forecast, budgetPercent 5, avoided "))
    assert told.endswith(" pod-hours")
    assert not any("a forecast with" in change and "instead of" not in change for change in changes(found))


@pytest.mark.slow
def test_a_forecast_in_preview_asks_for_no_pod_of_the_week_as_it_is():
    """Found: what it would have avoided was told as avoided, and the week as one without a minute short."""
    plain, preview = judged(points(DAYS, rush)), judged(points(DAYS, rush), forecast={"mode": "Preview"})

    assert plain.today == preview.today
    (on,) = (one for one in preview.suggestions if one.change == "its forecast in mode Active")
    assert "would have avoided " in on.why
    assert on.score.under_provisioned_minutes < preview.today.under_provisioned_minutes
    assert "Active" == on.spec["forecast"]["mode"]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["exclude", "only"])
def test_a_calendar_that_the_report_does_not_know_blocks_no_scale_down_of_its_replays(key):
    """Found: 312 pod-hours in place of 111, and the schedule that named it was to blame."""
    days = {"exclude": [window("0 7 * * *", "0 9 * * *", 10)], "only": []}[key]
    named = window("0 7 * * *", "0 9 * * *", 10, **{key: {"calendars": ["company"]}})

    known, unknown = judged(points(DAYS, rush), schedules=days), judged(points(DAYS, rush), schedules=[named])

    assert known.today.pod_hours == pytest.approx(unknown.today.pod_hours, rel=0.01)
    assert any("calendars are known to the operator alone" in doubt for doubt in unknown.doubts)


def test_an_autoscaler_in_preview_is_judged_by_what_it_would_do():
    found = judged(points(DAYS, lambda _: 6.0), mode="Preview")

    assert any("it is in mode Preview and scales nothing" in doubt for doubt in found.doubts)


def test_a_forecast_that_nothing_needs_costs_nothing_and_is_kept():
    found = judged(points(DAYS, lambda _: 6.0), forecast={})

    assert ["its forecast, budgetPercent 5, avoided 0 of 0 minutes for +0.0 pod-hours"] == [
        text for text in found.findings if "forecast" in text
    ]


@pytest.mark.slow
def test_all_changes_at_once_leave_out_what_one_of_them_leaves_out():
    """The load rises each day but the last: what the forecast adds is in vain, and 3 pods suffice where 6 run."""
    end = MONDAY + DAYS * DAY
    load = points(DAYS, lambda at: rush(at) if at < end - DAY else 1.5)

    together = judged(load, minReplicas=6, forecast={"budgetPercent": 10}).together

    assert {"minReplicas 3 instead of 6", "no forecast"} <= set(together.change.split("; "))
    assert 3 == together.spec["minReplicas"]
    assert "forecast" not in together.spec
