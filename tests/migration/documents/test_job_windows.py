"""Windows against what the others do at each minute, worked out from their rules alone."""

from datetime import UTC, date, datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronhpa.core.model.instant import from_datetime
from cronhpa.core.model.spec import CronWindow, DateRange, Days, OnceWindow
from cronhpa.core.schedules import cron
from cronhpa.core.schedules.windows import state
from cronhpa.migration.documents import job_windows
from cronhpa.migration.documents.job_windows import DaysOff, Job, NoWindows
from migration.originals import last_job

WALL = datetime.fromisoformat("2026-10-01T12:17")
INSTANTS = [WALL + timedelta(days=15, minutes=173 * step) for step in range(60)]  # a week

WEEK = timedelta(days=8)  # every job of these tests fires within it

hours = st.sampled_from(["0", "6", "8", "12", "18", "22", "23", "6,20", "8-17"])
weekdays = st.sampled_from(["*", "1-5", "6,0", "mon", "5", "1,3", "sun"])
texts = st.builds(lambda minute, hour, day: f"{minute} {hour} * * {day}", st.sampled_from(["0", "30"]), hours, weekdays)


def is_open(fields, at):
    """Whether a schedule with these fields is open at a wall time of UTC."""
    window: OnceWindow | CronWindow
    if "from" in fields:
        window = OnceWindow(fields["from"], fields["to"], "UTC")
    else:
        left_out = [
            DateRange(*(date.fromisoformat(day_range[key]) for key in ("from", "to")))
            for day_range in fields.get("exclude", {}).get("dates", ())
        ]
        window = CronWindow(fields["start"], "UTC", end=fields["end"], exclude=Days(tuple(left_out)))
    return state(window, from_datetime(at.replace(tzinfo=UTC))).is_open


def is_active_at_keda(start, end, at):
    """The next end comes before the next start (pkg/scalers/cron_scaler.go)."""
    return next(cron.forwards(end, at)) <= next(cron.forwards(start, at))


@given(texts, texts)
def test_without_a_difference_a_window_is_open_exactly_while_keda_is_active(start, end):
    assume(start != end)
    assume(job_windows.difference(start, end, WALL, tie_is_active=True) is None)
    fields = {"start": start, "end": end}

    states = [(is_open(fields, at), is_active_at_keda(start, end, at)) for at in INSTANTS]

    assert [other for _, other in states] == [own for own, _ in states]


@given(texts, texts)
def test_a_difference_is_one_in_the_middle_of_what_it_names(start, end):
    apart = job_windows.difference(start, end, WALL, tie_is_active=True)
    assume(apart is not None)
    middle = apart.first + (apart.second - apart.first) / 2

    assert is_open({"start": start, "end": end}, middle) == apart.is_open
    assert is_active_at_keda(start, end, middle) != apart.is_open


def test_weekdays_with_a_daily_end_differ_over_the_weekend():
    """KEDA is active from Friday evening to Sunday evening (keda#4677)."""
    apart = job_windows.difference("0 8 * * 1-5", "0 18 * * *", WALL, tie_is_active=True)

    friday, saturday = (datetime.fromisoformat(f"2026-10-0{day}T18:00") for day in (2, 3))
    assert (friday, saturday, False) == (apart.first, apart.second, apart.is_open)


def last_set(jobs, at):
    """The size that the latest job at or before `at` has set."""
    firings = [
        (wall, job.size)
        for job in jobs
        if job.cron
        for wall in takewhile(at.__ge__, cron.forwards(job.cron, at - WEEK))
    ]
    firings += [(job.once, job.size) for job in jobs if job.once is not None and job.once <= at]
    return max(firings)[1]


def sizes(windows, at):
    """The sizes of the windows open at `at`; a one-off beats what recurs."""
    opened = [(job, fields) for job, fields in windows if is_open(fields, at)]
    once = [job.size for job, fields in opened if "from" in fields]
    return set(once or [job.size for job, _ in opened])


@given(st.lists(texts, min_size=2, max_size=4, unique=True))
def test_at_any_time_exactly_the_window_of_the_last_job_is_open(crons):
    jobs = [Job(f"job-{size}", size, cron=text) for size, text in enumerate(crons)]
    try:
        windows = job_windows.jobs_to_windows(jobs, WALL).of
    except NoWindows:
        assume(False)

    assert [{last_set(jobs, at)} for at in INSTANTS] == [sizes(windows, at) for at in INSTANTS]


@given(st.datetimes(WALL + timedelta(days=16), WALL + timedelta(days=20)))
def test_a_job_that_runs_once_holds_until_the_next_of_any(once):
    once = once.replace(second=0, microsecond=0)
    jobs = [Job("up", 9, cron="0 8 * * *"), Job("down", 2, cron="0 20 * * *"), Job("sale", 40, once=once)]
    assume((once.hour, once.minute) not in {(8, 0), (20, 0)})

    windows = job_windows.jobs_to_windows(jobs, WALL).of

    assert [{last_set(jobs, at)} for at in INSTANTS] == [sizes(windows, at) for at in INSTANTS]


def test_two_jobs_on_days_of_the_month_are_a_window_each():
    windows = job_windows.jobs_to_windows([Job("up", 9, cron="0 0 1 * *"), Job("down", 2, cron="0 0 5 * *")], WALL).of

    assert [
        ("up", {"start": "0 0 1 * *", "end": "0 0 5 * *"}),
        ("down", {"start": "0 0 5 * *", "end": "0 0 1 * *"}),
    ] == [(job.name, fields) for job, fields in windows]


@pytest.mark.parametrize(
    ("crons", "reason"),
    [
        (["0 8 * * *"], "a job is followed by no other"),
        (["0 8 * * *", "0 8 * * 1"], "two jobs run at Mon 2026-10-05 08:00"),
        (["0 8 * * *", "0 18 * * *", "0 12 1 * *"], "the dates are not weekdays alone"),
    ],
)
def test_jobs_without_an_end_that_a_cron_text_can_say_have_no_windows(crons, reason):
    with pytest.raises(NoWindows, match=reason):
        job_windows.jobs_to_windows([Job(str(size), size, cron=text) for size, text in enumerate(crons)], WALL)


def test_five_fields_of_aliyun_begin_with_seconds_and_mean_any_weekday():
    assert ("30 7 * * *", "15") == job_windows.without_seconds("15 30 7 * *")
    assert ("30 7 * * 1-5", "0") == job_windows.without_seconds("0 30 7 ? * 1-5")


@given(st.lists(texts, min_size=2, max_size=3, unique=True), st.frozensets(st.integers(0, 6), max_size=3))
def test_days_off_and_jobs_in_one_minute_leave_what_the_last_job_set(crons, off):
    """The later in the list has the later second of its minute. A day off is as if its jobs were not there."""
    jobs = [Job(str(number), number, cron=text, order=number) for number, text in enumerate(crons)]
    try:
        windows = job_windows.jobs_to_windows(jobs, WALL, DaysOff(weekdays=off)).of
    except NoWindows:
        assume(False)
    rule = last_job(
        [(text, number, number) for number, text in enumerate(crons)], lambda day: day.isoweekday() % 7 in off
    )

    assert [{rule(at)} for at in INSTANTS] == [sizes(windows, at) for at in INSTANTS]


@settings(max_examples=25)
@given(st.integers(0, 400), st.sampled_from(["0 8 * * 1-5", "30 6 * * *", "0 9 * * 1,3"]))
def test_a_date_off_leaves_what_the_last_job_before_it_set(days, text):
    day = (WALL + timedelta(days=1 + days)).replace(hour=0, minute=0)
    jobs = [Job("up", 9, cron=text), Job("down", 2, cron="0 20 * * *")]
    off = DaysOff(dates=(f"0 0 {day.day} {day.month} *",))
    windows = job_windows.jobs_to_windows(jobs, WALL, off).of
    rule = last_job([(text, 0, 9), ("0 20 * * *", 0, 2)], lambda at: (at.month, at.day) == (day.month, day.day))
    around = [day + timedelta(minutes=97 * step) for step in range(-15, 45)]

    assert [{rule(at)} for at in around] == [sizes(windows, at) for at in around]
