"""
d-kuro ScheduledPodAutoscaler with its Schedules (autoscaling.d-kuro.github.io/v1).

Within a Schedule the HPA has the Schedule's bounds, else those of horizontalPodAutoscalerSpec. Weekly means a window on
each of the days (ContainsWeekly in apis/autoscaling/v1/contains.go), not from the first day's start to the last one's
end.
"""

from __future__ import annotations

from datetime import datetime

from cronhpa.migration.dialects import hpa
from cronhpa.migration.documents.clock_changes import remark_clock_changes
from cronhpa.migration.documents.context import ConversionContext, ObjectKey, key_of
from cronhpa.migration.documents.day_windows import DAY_MINUTES, on_weekdays
from cronhpa.migration.documents.document import FieldReader, Json, Unconvertible
from cronhpa.migration.documents.manifest import cron_hpa, largest_first, metadata_of, unique_names, zone_problem

GROUP = "autoscaling.d-kuro.github.io"
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_LAST_MINUTE = 59


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    spec = document.mapping("spec")
    nested = spec.mapping("horizontalPodAutoscalerSpec")
    out = hpa.spec_of(FieldReader({"apiVersion": "autoscaling/v2", "spec": nested.body}, spec.path, []))
    spec.ignore("horizontalPodAutoscalerSpec")
    schedules = []
    for schedule_object in context.objects.get((GROUP, "Schedule"), ()):
        try:
            window = _window(schedule_object, context) if _parent(schedule_object) == key_of(document) else None
        except Unconvertible as refusal:
            schedule_object.ignore("spec")
            schedule_object.remark("spec", f"{refusal.path}: {refusal.finding}", f"left out: {refusal.meaning}")
            continue
        if window is not None:
            schedules.append(window)
    highest = {schedule["maxReplicas"] for schedule in schedules if "maxReplicas" in schedule}
    if len(highest) > 1:
        spec.remark(
            "schedules",
            f"found the maxReplicas {', '.join(map(str, sorted(highest)))}",
            "where two overlap the source takes the larger one, here the smaller one may hold: see that they do not",
        )
    return cron_hpa(metadata_of(document), out | {"schedules": unique_names(largest_first(schedules)) or None})


def schedule_alone(document: FieldReader, context: ConversionContext) -> list[Json]:
    """No manifest if the Schedule's ScheduledPodAutoscaler is in the input: its conversion has the Schedule."""
    parents = {key_of(autoscaler) for autoscaler in context.objects.get((GROUP, "ScheduledPodAutoscaler"), ())}
    if _parent(document) not in parents:
        raise document.unconvertible(
            "spec.scaleTargetRef",
            f"found {_parent(document)[1]}, which is not in the input",
            "convert it together with its ScheduledPodAutoscaler",
        )
    document.ignore("apiVersion", "kind", "metadata", "status")
    return []


def _parent(schedule: FieldReader) -> ObjectKey:
    ref = schedule.mapping("spec").mapping("scaleTargetRef")
    ref.ignore("apiVersion", "kind")
    return schedule.mapping("metadata").text("namespace"), ref.text("name")


def _window(schedule: FieldReader, context: ConversionContext) -> Json | None:
    spec = schedule.mapping("spec")
    spec.ignore("description")
    zone = spec.text("timeZone") or "UTC"
    problem = zone_problem(zone)
    if problem:
        raise spec.unconvertible("timeZone", problem, "name the zone that is meant")
    bounds = {key: value for key in ("minReplicas", "maxReplicas") if (value := spec.integer(key)) is not None}
    times = _times(spec, zone, context)
    if times is None:
        return None
    suspended = {"suspend": True} if spec.raw("suspend") else {}
    return {"name": schedule.mapping("metadata").text("name")} | times | {"timeZone": zone} | bounds | suspended


def _times(spec: FieldReader, zone: str, context: ConversionContext) -> Json | None:
    kind = spec.text("type")
    if kind == "OneShot":
        start, end = (_moment(spec, key, "%Y-%m-%dT%H:%M") for key in ("startTime", "endTime"))
        if end <= context.wall(zone):
            spec.remark("endTime", f"found {spec.text('endTime')}", "left out: it is past")
            return None
        return {"from": f"{start:%Y-%m-%dT%H:%M}", "to": f"{end:%Y-%m-%dT%H:%M}"}
    if kind not in {"Daily", "Weekly"}:
        raise spec.unconvertible("type", f'found "{kind}"', "Daily, Weekly and OneShot are read")
    start, end = (_moment(spec, key, "%H:%M") for key in ("startTime", "endTime"))
    first, last = (_day(spec, key) for key in ("startDayOfWeek", "endDayOfWeek")) if kind == "Weekly" else (0, 6)
    days = [(first + number) % 7 for number in range((last - first) % 7 + 1)]
    after = 0
    if end < start:
        after = DAY_MINUTES
        if end.minute != _LAST_MINUTE:
            spec.remark(
                "endTime",
                f"from {start:%H:%M} to {end:%H:%M} is past midnight",
                "the controller compares hours and minutes each for itself and closes the window after minute "
                f"{end.minute} of each hour after midnight; here it is open until {end:%H:%M}",
            )
    elif start == end:
        raise spec.unconvertible("endTime", "start and end are the same", "it is never within")
    opens, closes = (at.hour * 60 + at.minute for at in (start, end))
    texts = on_weekdays(opens, closes + after, days)
    remark_clock_changes(spec, "startTime", texts.values(), zone, context.wall(zone))
    return texts


def _moment(spec: FieldReader, key: str, form: str) -> datetime:
    text = spec.text(key)
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007 - a wall time; the zone stands beside it
    except ValueError:
        raise spec.unconvertible(key, f'found "{text}"', f"a time of the form {form} belongs here") from None


def _day(spec: FieldReader, key: str) -> int:
    text = spec.text(key)
    if text not in _DAYS:
        raise spec.unconvertible(key, f'found "{text}"', f"accepted are {', '.join(_DAYS)}")
    return _DAYS.index(text)
