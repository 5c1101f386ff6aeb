"""`spec.schedules`: windows of time, the days that they leave out, and the bounds that hold while they are open."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from cronhpa.api.resource.cel import FORBIDDEN, REQUIRED, Json, rule, rules
from cronhpa.api.resource.fields import Cron, Date, LocalTime, Model, Name, Replicas, TimeZone

MAX_SCHEDULES = 50
MAX_DATE_RANGES = 40
MAX_HOLIDAY_CALENDARS = 10
MAX_CALENDARS = 10
MAX_SOURCES = 10


class DateRangeModel(Model):
    """Local dates, both inclusive."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.from <= self.to",
                "from must not be after to; of one day both are the same",
                finding=("found from %s and to %s", "self.from", "self.to"),
                at=".to",
            )
        )
    )

    from_: Date = Field(alias="from", description='The first date, such as "2026-12-27".')
    to: Date = Field(description='The last date, such as "2026-12-31".')


class HolidayCalendar(Model):
    """The public holidays of a country, or of a part of it."""

    country: str = Field(
        max_length=64,
        description="ISO 3166 code of the country, such as DE.",
        json_schema_extra=rules(
            rule(
                "self.matches('^[A-Z]{2}$')",
                "write the two capital letters of ISO 3166, such as DE",
                finding=('found "%s"', "self"),
            )
        ),
    )
    subdivision: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Code of the part of the country, such as BY. Absent, the holidays of the whole country.",
    )


class DaysModel(Model):
    """A set of local dates."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(has(self.dates) && size(self.dates) > 0) || (has(self.holidays) && size(self.holidays) > 0) "
                "|| (has(self.calendars) && size(self.calendars) > 0)",
                "name dates, holidays or calendars, at least one",
                reason=REQUIRED,
            )
        )
    )

    dates: list[DateRangeModel] | None = Field(
        default=None,
        max_length=MAX_DATE_RANGES,
        description="Dates, as ranges.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    holidays: list[HolidayCalendar] | None = Field(
        default=None,
        max_length=MAX_HOLIDAY_CALENDARS,
        description="Public holidays, including the days on which they are observed.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    calendars: list[Name] | None = Field(
        default=None,
        max_length=MAX_CALENDARS,
        description="Names of calendars in the operator's settings: the days that their events cover whole.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


# Of two bounds in counts, as a schedule and an override state them.
BOUND_RULES = (
    rule(
        "!has(self.replicas) || !(has(self.minReplicas) || has(self.maxReplicas))",
        "replicas is both bounds at once: leave out minReplicas and maxReplicas, or replicas",
        at=".replicas",
        reason=FORBIDDEN,
    ),
    rule(
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "maxReplicas must not be below minReplicas",
        finding=("found minReplicas %s and maxReplicas %s", "self.minReplicas", "self.maxReplicas"),
        at=".maxReplicas",
    ),
)
# Of a window and its bounds.
RULES = (
    rule(
        "has(self.start) || has(self.from) || has(self.to)",
        "say when it opens: start with end or durationMinutes to recur, from and to for one event",
        at=".start",
        reason=REQUIRED,
    ),
    rule(
        "!has(self.start) || !(has(self.from) || has(self.to))",
        "found start beside from or to: start recurs, from and to are one event; make two schedules of it",
        at=".start",
        reason=FORBIDDEN,
    ),
    rule(
        "!has(self.start) || has(self.from) || has(self.to) || has(self.end) || has(self.durationMinutes)",
        "say when it closes: end (a cron text) or durationMinutes",
        at=".end",
        reason=REQUIRED,
    ),
    rule(
        "!has(self.end) || !has(self.durationMinutes)",
        "found end and durationMinutes: keep one of them",
        at=".end",
        reason=FORBIDDEN,
    ),
    rule(
        "has(self.start) || !(has(self.from) || has(self.to)) || !(has(self.end) || has(self.durationMinutes))",
        "end and durationMinutes close what a start opens: an event ends at to",
        at=".end",
        reason=FORBIDDEN,
    ),
    rule("!has(self.to) || has(self.from)", "to needs from, its beginning", at=".from", reason=REQUIRED),
    rule("!has(self.from) || has(self.to)", "from needs to, its end", at=".to", reason=REQUIRED),
    rule(
        "!has(self.from) || !has(self.to) || self.from < self.to",
        "to must be after from",
        finding=("found from %s and to %s", "self.from", "self.to"),
        at=".to",
    ),
    *(
        rule(
            f"has(self.start) || !has(self.{days})",
            f"{days} chooses among the days of a start: an event from one time to another has none",
            at=f".{days}",
            reason=FORBIDDEN,
        )
        for days in ("exclude", "only")
    ),
    *BOUND_RULES,
)


def states(*fields: str) -> Json:
    """The rule that a schedule asks for something: for one of these fields at least."""
    *some, last = fields
    return rule(
        " || ".join(f"has(self.{field})" for field in fields),
        f"say what it asks for: {', '.join(some)} or {last}",
        at=".minReplicas",
        reason=REQUIRED,
    )


class ScheduleModel(Model):
    """
    A window of time and the bounds that hold while it is open. It recurs (start with end or durationMinutes) or
    happens once (from and to).
    """

    model_config = ConfigDict(
        json_schema_extra=rules(*RULES, states("minReplicas", "maxReplicas", "replicas", "headroomPercent"))
    )

    name: Name = Field(
        description="Name of the schedule in status and events, unique in this object.",
        json_schema_extra=rules(
            rule(
                "!self.startsWith('Event/') && !self.startsWith('Calendar/')",
                "names that begin with Event/ or Calendar/ are those of planned events and calendars",
                reason=FORBIDDEN,
            )
        ),
    )
    start: Cron | None = Field(
        default=None, description='Cron text of the times at which the window opens, such as "0 8 * * mon-fri".'
    )
    end: Cron | None = Field(
        default=None, description='Cron text of the times at which the window closes, such as "0 18 * * *".'
    )
    duration_minutes: int | None = Field(
        default=None,
        ge=1,
        le=527_040,
        description="Instead of end: how long the window stays open, in elapsed minutes.",
    )
    from_: LocalTime | None = Field(
        default=None,
        alias="from",
        description='For one event: local time of its beginning, such as "2026-11-27T00:00".',
    )
    to: LocalTime | None = Field(
        default=None, description='For one event: local time of its end, such as "2026-11-28T02:00".'
    )
    time_zone: TimeZone | None = Field(
        default=None, description="IANA time zone of the times above. Absent, the timeZone of the spec."
    )
    min_replicas: Replicas | None = Field(default=None, description="Lower bound while the window is open.")
    max_replicas: Replicas | None = Field(default=None, description="Upper bound while the window is open.")
    replicas: Replicas | None = Field(
        default=None,
        description="Both bounds at once: exactly this many replicas while the window is open. 0 is allowed.",
    )
    headroom_percent: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Percent that is added to measured and forecast load while the window is open: with 50, a load "
        "counts 1.5 times.",
    )
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Of open schedules that set the same bound the highest priority wins; of equal priority an event "
        "wins, else the largest minReplicas and the smallest maxReplicas.",
    )
    lead_time_seconds: int | None = Field(
        default=None,
        ge=0,
        le=86_400,
        description="How long before its start the window leads, so that its pods are Ready when it opens: a raised "
        "lower bound and headroomPercent apply then; all else from the start on. maxReplicas of schedules of no higher "
        "priority that close by the start are raised meanwhile. Absent: podStartupSeconds (60 until measured; "
        "podStartupWithNodeSeconds if that is more) + syncPeriodSeconds + the time that behavior takes from the lower "
        "bound before + up to 120 for the crowd of objects that start then. 0: the window does not lead.",
    )
    exclude: DaysModel | None = Field(
        default=None,
        description="Days on which the window does not open: starts on these days are dropped. A window that is still "
        "open from an earlier day closes at its end, or at the first dropped start.",
    )
    only: DaysModel | None = Field(
        default=None,
        description="The only days on which the window opens: starts on other days are dropped. With exclude, the "
        "window opens on the days of only that are not days of exclude.",
    )
    ends_at_once: bool = Field(
        default=False,
        description="Whether the pods of its lower bound go when the window closes. By default the stabilization "
        "window of scaleDown, 300 s, keeps them. What metrics asked for within that window is kept in any case.",
    )
    suspend: bool = Field(default=False, description="Whether the schedule is ignored for now.")


class ScheduleSourceModel(Model):
    """A schedule for each event of a calendar, while it lasts; of whole days in the time zone of the spec."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *BOUND_RULES, states("minReplicas", "maxReplicas", "replicas", "headroomPercent", "boundsFromEvent")
        )
    )

    calendar: Name = Field(description="Name of a calendar in the operator's settings.")
    matching: str = Field(
        default="*",
        min_length=1,
        max_length=128,
        description='Titles of the events that count, with * and ?, such as "Sale*".',
    )
    min_replicas: Replicas | None = Field(default=None, description="As of a schedule.")
    max_replicas: Replicas | None = Field(default=None, description="As of a schedule.")
    replicas: Replicas | None = Field(default=None, description="As of a schedule.")
    headroom_percent: int | None = Field(default=None, ge=1, le=1000, description="As of a schedule.")
    bounds_from_event: bool = Field(
        default=False,
        description="Whether lines of an event's description such as minReplicas: 20 or headroomPercent: 50 count, "
        "where they ask for more; minReplicas up to maxReplicas of the spec.",
    )
    priority: int = Field(default=0, ge=-1000, le=1000, description="As of a schedule.")
    lead_time_seconds: int | None = Field(default=None, ge=0, le=86_400, description="As of a schedule.")
    suspend: bool = Field(default=False, description="Whether it is ignored for now.")


class PlaceholdersModel(Model):
    """
    Holds room on nodes for the pods that the next rise of a floor adds, so that new nodes are ready before the pods
    are: by a CapacityBuffer, or by a Deployment of low priority. The operator's setting CRONHPA_PLACEHOLDERS allows it.
    """

    max_replicas: int = Field(
        ge=0,
        le=10_000,
        description="The most placeholders at once, each as large as a pod; 0: none at all.",
    )
    node_startup_seconds: int = Field(
        default=300,
        ge=15,
        le=3600,
        description="How long a new node takes until pods can start on it.",
    )
