"""
The rules of other schedulers, each in a few lines of its own: the original's bounds at a minute.

Nothing of ours is used, so that a mistake of ours is not made twice. Times are local and carry no zone. A rule gives
(lowest, highest); None in its place means that the original states none then.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
NAMES = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}


def numbers(field, first, last):
    """The numbers that one field of a cron text names."""
    out = set()
    for part in field.lower().split(","):
        body, _, step = part.partition("/")
        low, _, high = body.partition("-")
        low, high = (NAMES.get(end, end) for end in (low, high))
        begin, end = (first, last) if low == "*" else (int(low), int(high or low))
        out |= set(range(begin, end + 1, int(step or 1)))
    return out


class Cron:
    """A cron text of five fields, as robfig/cron reads it: days and weekdays both restricted mean either."""

    def __init__(self, text):
        minute, hour, day, month, weekday = text.replace("?", "*").split()
        self.minutes, self.hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
        self.days, self.months, self.weekdays = numbers(day, 1, 31), numbers(month, 1, 12), numbers(weekday, 0, 6)
        self.both = day != "*" and weekday != "*"

    def names_day(self, at):
        of_month, of_week = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return at.month in self.months and ((of_month or of_week) if self.both else (of_month and of_week))

    @cache  # noqa: B019 - a few objects, for as long as the tests run
    def of_day(self, day):
        """Its times on the day that begins then."""
        if not self.names_day(day):
            return []
        return [day.replace(hour=hour, minute=minute) for hour in sorted(self.hours) for minute in sorted(self.minutes)]

    @cache  # noqa: B019
    def day_from(self, day, step):
        """The first day with a time, from this one on or back."""
        while not self.of_day(day):
            day += step
        return day

    def after(self, at):
        """The first time after `at`."""
        today = at.replace(hour=0, minute=0, fold=0)
        left = [time for time in self.of_day(today) if time > at]
        return left[0] if left else self.of_day(self.day_from(today + DAY, DAY))[0]

    def until(self, at):
        """The last time at or before `at`."""
        today = at.replace(hour=0, minute=0, fold=0)
        gone = [time for time in self.of_day(today) if time <= at]
        return gone[-1] if gone else self.of_day(self.day_from(today - DAY, -DAY))[-1]


def next_edge_is_an_end(start, end, *, tie=True):
    """
    KEDA, Crane, Kapacity: active if the next end comes before the next start; with Kapacity not if with it.

    Read in the sources. KEDA at 8b4f083, pkg/scalers/cron_scaler.go, GetMetricsAndActivity: of a tie
    `nextStartTime.Before(nextEndTime)` is false, so `currentTime.Before(nextEndTime)` decides. Crane at 2b0ddae,
    pkg/metricprovider/cron_trigger.go, IsActive: inactive if `nextStart < nextEnd`, else active.
    """
    opens, closes = Cron(start), Cron(end)
    return lambda at: closes.after(at) < opens.after(at) or (tie and closes.after(at) == opens.after(at))


def kept_between(*windows):
    """
    Kapacity with crons alone: the active one's count, and between two of them the count of the one before.

    windows: (start, end, count). With no portrait value Reconcile returns before it scales
    (controllers/autoscaling/intelligenthorizontalpodautoscaler_controller.go at 088f41e).
    """
    rules = [(next_edge_is_an_end(start, end, tie=False), Cron(end), count) for start, end, count in windows]

    def rule(at):
        while True:
            for is_active, _, count in rules:
                if is_active(at):
                    return count
            at = max(end.until(at) for _, end, _ in rules) - MINUTE

    return rule


def last_job(jobs, is_off=lambda _: False):
    """Aliyun, tkestack, Huawei, dtaniwaki, AWS: what the last job set; jobs are (cron text, second, what)."""
    crons = [(Cron(text), second, what) for text, second, what in jobs]

    def rule(at):
        day = at.replace(hour=0, minute=0, fold=0)
        while True:
            if not is_off(day):
                due = [(time, second, what) for cron, second, what in crons for time in cron.of_day(day) if time <= at]
                if due:
                    return max(due, key=lambda due_edge: due_edge[:2])[2]
            day -= DAY

    return rule


def within_day(begin, end, weekdays):
    """d-kuro, Zalando, kube-downscaler: on these weekdays from one time of the day to another, the end excluded."""
    return lambda at: at.isoweekday() % 7 in weekdays and begin <= at.hour * 60 + at.minute < end
