"""
Aliyun CronHorizontalPodAutoscaler (autoscaling.alibabacloud.com/v1beta1), as of its last commit in 2023.

Its jobs set a count; on an HPA they set its bounds (see jobs). A job does not change the HPA's minReplicas if there are
more replicas than its size, so its effect depends on the load of that second. The window always has the effect.

Cron texts begin with seconds. Five fields are seconds to month, without a weekday: `0 9 * * 1-5` is minute 9 of every
hour, January to May (ringtail/go-cron, as robfig/cron v1, where the weekday alone is optional).
"""

from __future__ import annotations

import re
from datetime import datetime

from cronhpa.core.schedules import cron
from cronhpa.migration.documents import job_windows, jobs
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json, Unconvertible
from cronhpa.migration.documents.job_windows import DaysOff, Job
from cronhpa.migration.documents.jobs import BY_HAND

DEFAULT_ZONE = "Asia/Shanghai"
"""The controller's TZ, as its chart sets it."""

_DATE = re.compile(r"^@date\s+(\d{4}-\d{2}-\d{2})\s+(\d{2}:\d{2}:\d{2})$")
_DONE = {"Succeed", "Failed"}
_WITHOUT_WEEKDAY = 5


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    spec = document.mapping("spec")
    zone = jobs.zone_of(spec, "jobs", context, DEFAULT_ZONE, "the chart's default")
    wall = context.wall(zone)
    read = _jobs(document, spec, wall)
    off = _days_off(spec, read, wall)
    windows = jobs.windows_of(spec, "jobs", read, zone, wall, off)
    return jobs.scheduled(document, windows, zone, "jobs[{}].targetSize", context)


def _jobs(document: FieldReader, spec: FieldReader, wall: datetime) -> list[Job]:
    conditions = document.mapping("status").mappings("conditions")
    done = {condition.text("name") for condition in conditions if condition.text("state") in _DONE}
    out = []
    for job in spec.mappings("jobs"):
        name, schedule, size = job.text("name"), job.text("schedule").strip(), job.integer("targetSize")
        if size is None:
            raise job.unconvertible("targetSize", "there is no targetSize", "say how many replicas it sets")
        runs_once = bool(job.raw("runOnce")) or schedule.startswith("@date")
        if runs_once and name in done:
            job.remark("", f'"{name}" has run', "left out: it will not run again")
            continue
        read = _dated(job, name, size, wall) if schedule.startswith("@date") else _recurring(job, name, size)
        if read is not None and runs_once and read.cron is not None:
            read = Job(name, size, once=job_windows.next_time(read.cron, wall))
        if read is not None:
            out.append(read)
    return out


def _recurring(job: FieldReader, name: str, size: int) -> Job:
    """The job. Raises Unconvertible for an unreadable text: without this job the ends of the other jobs are unknown."""
    schedule = job.text("schedule").strip()
    if schedule.startswith("@"):
        text, seconds = schedule, "0"
    else:
        text, seconds = job_windows.without_seconds(schedule)
    problem = cron.problem(text)
    if problem:
        raise job.unconvertible("schedule", problem, BY_HAND)
    fields = text.split()
    if not schedule.startswith("@") and fields[2].startswith("*/") and fields[4] != "*":
        raise job.unconvertible(
            "schedule",
            f'found "{schedule}", a step of days beside a weekday',
            f"the source means days that are both, a cron text here either: {BY_HAND}",
        )
    if job_windows.names_weekday_7(text):
        job.remark("schedule", f'found "{schedule}"', "7 is Sunday here; the controller cannot read it")
    if len(schedule.split()) == _WITHOUT_WEEKDAY:
        job.remark(
            "schedule",
            f'found "{schedule}", five fields: the controller reads the first as seconds and no weekday',
            f'so the window begins at the times of "{text}"; if "{schedule}" was meant as in crontab, write it so',
        )
    # `*` and `*/n` begin at second 0, and setting a count again changes nothing.
    elif seconds != "0" and not seconds.startswith(("*", "0")):
        job.remark("schedule", f"found second {seconds}", "the window begins at the full minute before it")
    return Job(name, size, cron=text, order=_last_second(seconds))


def _last_second(field: str) -> int:
    """The last second of a minute that a field names: of two jobs in one minute the later one's count lasts."""
    as_minutes = f"{field} 0 * * *"
    return 0 if cron.problem(as_minutes) else max(cron.minutes(as_minutes))


def _dated(job: FieldReader, name: str, size: int, wall: datetime) -> Job | None:
    schedule = job.text("schedule").strip()
    match = _DATE.match(schedule)
    try:
        at = datetime.fromisoformat(f"{match[1]}T{match[2]}") if match else None
    except ValueError:
        at = None
    if at is None:
        raise Unconvertible(job.path, f'found "{schedule}"', "a date is written @date 2026-11-27 08:00:00")
    if at < wall:
        job.remark("schedule", f'found "{schedule}"', "left out: it is past")
        return None
    if at.second:
        job.remark("schedule", f"found second {at.second}", "the window begins at the full minute before it")
    return Job(name, size, once=at.replace(second=0))


# --- days off ----------------------------------------------------------------------------------------------------


def _days_off(spec: FieldReader, read: list[Job], wall: datetime) -> DaysOff:
    """
    excludeDates: cron texts of six fields whose first three are `*`, such as `* * * 15 11 *` and `* * * * * 5`.

    The controller compares month and hour of the text's next time with those of now (IsTodayOff in
    pkg/controller/cronjob.go has the layout "11-15-1990"), so jobs from 0:00 to 0:59 do not run on other days of that
    month either.
    """
    weekdays: set[int] = set()
    dates: list[str] = []
    for index, text in enumerate(map(str, spec.items("excludeDates"))):
        key = f"excludeDates[{index}]"
        fields = job_windows.five_fields(text).split()
        if len(fields) == _WITHOUT_WEEKDAY:
            fields.append("*")
        days = " ".join(["0", "0", *fields[3:]])
        problem = cron.problem(days)
        if problem or len(fields) != _WITHOUT_WEEKDAY + 1 or fields[:3] != ["*", "*", "*"]:
            spec.remark(
                key,
                f'found "{text}"',
                "left out: days are read of six fields that begin with * * *; name them in exclude of the schedules",
            )
            continue
        if fields[3:5] == ["*", "*"]:
            weekdays |= {at.isoweekday() % 7 for at in _week(days, wall)}
        else:
            dates.append(days)
            spec.remark(
                key,
                f'found "{text}"',
                f"written out as dates until {wall.year + 2}: name those of later years by then",
            )
        if any(job.cron and 0 in _hours(job.cron) for job in read):
            spec.remark(
                key,
                "a job runs between 0:00 and 0:59",
                "the controller compares month and hour alone, and skips that job on other days of the month, too; "
                "here it is the day that counts",
            )
    return DaysOff(frozenset(weekdays), tuple(dates))


def _week(days: str, wall: datetime) -> list[datetime]:
    return [at for at, _ in zip(cron.forwards(days, wall), range(7), strict=False)]


def _hours(text: str) -> set[int]:
    return {minute // 60 for minute in cron.minutes(text)}
