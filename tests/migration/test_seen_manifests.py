"""
cronhpa.migration.convert: 42 objects of twelve dialects as public repositories have them (seen.yaml).

Each is held against its original's rule at every five minutes of two weeks, in windows and outside of them, or is
refused with the reason. `aware` is a word of the remark that names what differs; without one there is none.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.instant import from_datetime
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.bounds import resolve
from cronhpa.migration.convert import Document, convert
from migration.originals import kept_between, last_job, next_edge_is_an_end, within_day
from migration.reading import NOW

SEEN = yaml.safe_load((Path(__file__).parent / "seen.yaml").read_text())
# The clocks of Europe go back on the 25th, those of America a week later; the 1st of November is a Sunday.
BEGIN, DAYS = datetime(2026, 10, 21, tzinfo=UTC), 14
NO_ZONE = "the TZ of the controller"


def keda(lowest, highest, *windows, idle=None):
    """The largest count of the crons whose next edge is an end, at least the lowest; `idle` while none is active."""
    rules = [(next_edge_is_an_end(start, end), count) for start, end, count in windows]

    def rule(at):
        active = [count for holds, count in rules if holds(at)]
        return (idle if not active and idle is not None else max([lowest, *active])), highest

    return rule


def exactly(rule):
    return lambda at: (rule(at),) * 2


def down(awake, holds, asleep=0):
    """kube-downscaler: so many replicas but in downtimes."""
    return lambda at: (asleep,) * 2 if holds(at) else (awake,) * 2


def up(awake, begin, end, days):
    return down(awake, lambda at: not within_day(begin, end, days)(at))


WORK, WEEKEND, ALL = range(1, 6), {0, 6}, range(7)


def any_of(*rules):
    return lambda at: any(rule(at) for rule in rules)


def nights(begin, end):
    """Of Monday to Friday as GoKubeDownscaler reads them: until the end, and from the begin on, of each day."""
    return any_of(within_day(0, end, WORK), within_day(begin, 1440, WORK))


def gray(at):
    return (5, 5) if at.minute < 10 else (1, 1)


LADDER = [("0 * * * *", "10 * * * *", 1), ("10 * * * *", "20 * * * *", 2), ("40 * * * *", "50 * * * *", 5)]
# (zone, rule, words of the remarks)
KEPT = {
    "dispatch": (
        "Asia/Seoul",
        keda(
            200,
            400,
            ("30 8 * * *", "0 1 * * *", 250),
            ("30 10 * * 1-5", "30 14 * * 1-5", 300),
            ("0 16 * * 1-5", "30 23 * * 1-5", 350),
            ("0 16 * * 0,6", "30 23 * * 0,6", 400),
        ),
        [],
    ),
    "ten-minutes": ("Asia/Seoul", keda(1, 10, ("0 22 * * *", "10 22 * * *", 5)), []),
    "dev": ("America/New_York", keda(1, 5, ("0 8 * * 1-5", "0 20 * * 1-5", 3), idle=0), []),
    "zagreb": ("Europe/Zagreb", keda(1, 2, ("0 9 * * *", "0 17 * * *", 2), idle=0), ["pollingInterval"]),
    # An active trigger keeps one pod even where it asks for none: the author wanted the opposite, and KEDA does this.
    "inverted": ("America/Sao_Paulo", keda(1, 1, ("0 20 * * *", "0 8 * * *", 0), idle=0), ["write replicas: 0"]),
    "gateway": (
        "Asia/Bangkok",
        keda(3, 30, ("0 7 * * 1-5", "0 21 * * 1-5", 15), ("0 9 * * 6,0", "0 20 * * 6,0", 10)),
        ["KEDA cannot read it"],
    ),
    "staging": (
        "Asia/Seoul",
        keda(1, 10, ("0 9 * * 1-5", "0 21 * * 1-5", 3), ("0 21 * * 1-5", "0 9 * * 2-6", 0), idle=0),
        ["write replicas: 0"],
    ),
    "utc-night": ("UTC", keda(2, 12, ("0 17 * * *", "0 9 * * *", 4)), []),
    "vienna": ("Europe/Vienna", keda(1, 1, ("0 9 * * *", "0 23 * * *", 1), idle=0), []),
    "peak": ("Asia/Seoul", keda(3, 30, ("0 9 * * 1-5", "0 18 * * 1-5", 20)), ["vector(0)"]),
    "checkout": (
        "America/Chicago",
        keda(2, 50, ("0 9 * * 1-5", "0 21 * * 1-5", 5), ("0 10 * * 0,6", "0 22 * * 0,6", 3)),
        [],
    ),
    "statefulset": ("UTC", keda(1, 1, ("0 22 * * *", "0 6 * * *", 0), idle=0), ["write replicas: 0"]),
    # Five fields are seconds to months for this controller: 9 and 17 minutes after each hour, from Monday's dates on.
    "business": (
        "Asia/Shanghai",
        exactly(
            last_job(
                [("9 * * 1-5 *", 0, 50), ("12 * * 1-5 *", 0, 100), ("14 * * 1-5 *", 0, 50), ("18 * * 1-5 *", 0, 10)]
            )
        ),
        ["five fields", "timezone", NO_ZONE],
    ),
    "five-fields": (
        "Asia/Shanghai",
        exactly(last_job([("9 * * * *", 0, 8), ("17 * * * *", 0, 2)])),
        ["five fields", NO_ZONE],
    ),
    "juice": ("Asia/Shanghai", exactly(last_job([("0 7 * * 1", 0, 10), ("0 18 * * 5-6", 0, 20)])), [NO_ZONE]),
    "weekend": (
        "UTC",
        exactly(last_job([("0 20 * * 5", 0, 60), ("0 23 * * 0", 0, 30)])),
        ["the controller cannot read it, and stops", NO_ZONE],
    ),
    "servers": (
        "UTC",
        exactly(last_job([("0 8 * * *", 0, 60), ("0 9 * * *", 0, 10), ("0 19 * * *", 0, 60), ("0 21 * * *", 0, 10)])),
        [NO_ZONE],
    ),
    "rome": (
        "Europe/Rome",
        exactly(last_job([("0 20 * * 1-5", 0, 0), ("0 8 * * 1-5", 0, 3)])),
        ["CronJobs are not scaled"],
    ),
    "excluded": (
        "Europe/Rome",
        exactly(last_job([("0 18 * * 1-5", 0, 0), ("0 8 * * 1-5", 0, 2)])),
        ["CronJobs are not scaled"],
    ),
    "gar": ("UTC", down(3, within_day(105, 165, {5})), []),
    "overnight": ("UTC", down(3, any_of(nights(1200, 480), within_day(0, 1440, WEEKEND))), ["GoKubeDownscaler"]),
    "weekend-one": (
        "America/New_York",
        down(3, nights(1140, 420)),
        ["GoKubeDownscaler", "downscaler/weekend", "downscaler/target-replicas"],
    ),
    "upscale": (
        "UTC",
        down(1, any_of(nights(1140, 480), within_day(0, 1440, WEEKEND))),
        ["GoKubeDownscaler", "upscale-replicas"],
    ),
    "hocs": ("Europe/London", down(3, any_of(within_day(0, 470, ALL), within_day(1085, 1440, ALL))), []),
    "us-eastern": ("America/New_York", up(3, 420, 1140, WORK), []),
    "seoul": ("Asia/Seoul", up(3, 480, 1200, WORK), []),
    "same-hour": ("Europe/London", lambda _: (0, 0), ["never within it"]),
    "cet": ("CET", up(3, 450, 1080, ALL), []),
    "both": ("Europe/Berlin", lambda _: (0, 0), []),
    "gray": ("Asia/Shanghai", gray, ["grayStrategy"]),
    "ladder": ("UTC", exactly(kept_between(*LADDER)), []),
    "crane": ("UTC", lambda _: (1, 10), ["the query of a history", "settings of its own"]),
    "crane-traffic": ("UTC", lambda _: (2, 20), ["the query of a history"]),
    "dtani": ("Asia/Tokyo", lambda at: (3, 15) if at.minute % 10 < 5 else (1, 10), []),
}
REFUSED = {
    "minute-sixty": "the minute is 0 to 59",
    "no-zone": "KEDA refuses it too",
    "festival": "followed by one job on some dates and by another on others",
    "once": "a job is followed by no other",
    "no-wake": "nothing ends the sleep",
    "cron-only": "neither Deployments nor StatefulSets are suspended",
    "ake": "accepted are",
    "huawei": "followed by one job on some dates and by another on others",
}


def converted(name):
    documents = [Document("in.yaml", body) for body in SEEN[name]["objects"]]
    return convert(documents, now=NOW)


def test_each_of_them_is_judged():
    assert {*SEEN} == {*KEPT, *REFUSED}
    assert 42 == len(SEEN)


@pytest.mark.parametrize("name", KEPT)
def test_in_windows_and_outside_it_means_what_the_original_means(name):
    zone, rule, _ = KEPT[name]
    spec = converted(name).manifests[0]["spec"]
    # The originals ask at the start; only then are they equal.
    spec["schedules"] = [schedule | {"leadTimeSeconds": 0} for schedule in spec.get("schedules", ())]
    parsed = parse_spec(spec, "prod", ControllerOptions())

    def apart():
        for at in (BEGIN + timedelta(minutes=minute) for minute in range(0, DAYS * 1440, 5)):
            wanted = rule(at.astimezone(ZoneInfo(zone)).replace(tzinfo=None))
            bounds = resolve(parsed, from_datetime(at))
            if wanted != (bounds.minimum, bounds.maximum):
                yield f"{at}: {wanted} there, {(bounds.minimum, bounds.maximum)} here"

    assert [] == list(apart())


@pytest.mark.parametrize("name", KEPT)
def test_what_differs_is_named_and_nothing_else_is(name):
    told = [f"{remark.path}: {remark.finding}: {remark.meaning}" for remark in converted(name).remarks]
    words = KEPT[name][2]

    assert [] == [word for word in words if not any(word in text for text in told)]
    assert [] == [text for text in told if not any(word in text for word in words)]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_refused_with_the_reason(name):
    conversion = converted(name)
    told = " ".join(f"{remark.finding}: {remark.meaning}" for remark in conversion.remarks)

    assert [] == [manifest for manifest in conversion.manifests if manifest["spec"].get("schedules")]
    assert REFUSED[name] in told
