"""
cronhpa.migration.dialects.aws, cronhpa.migration.documents.cloud, cronhpa.migration.documents.day_windows: by the
original's own rule.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.instant import from_datetime
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.bounds import resolve
from migration.originals import Cron, kept_between, last_job, next_edge_is_an_end, within_day
from migration.reading import converted

YEAR = datetime(2026, 10, 2, tzinfo=UTC)
# Days around the clock changes of Europe and America, turns of months and of the year, and a week of ordinary ones.
SAMPLED = [22, 23, 24, 30, 85, 90, 91, 149, 163, 176, 177, 200, 201, 202, 203, 204, 205, 206]


def aliyun(*jobs, extra=""):
    listed = "".join(f"\n  - {{{line}}}" for line in jobs)
    return (
        "apiVersion: autoscaling.alibabacloud.com/v1beta1\nkind: CronHorizontalPodAutoscaler\n"
        "metadata: {name: shop}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}"
        f"{extra}\n  jobs:{listed}\n"
    )


def keda(*crons, lowest=1):
    triggers = ", ".join(
        f'{{type: cron, metadata: {{timezone: {zone}, start: "{start}", end: "{end}", desiredReplicas: "{count}"}}}}'
        for zone, start, end, count in crons
    )
    return (
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: shop}\n"
        f"spec: {{scaleTargetRef: {{name: shop}}, minReplicaCount: {lowest}, maxReplicaCount: 50, "
        f"triggers: [{triggers}]}}\n"
    )


def crane(start, end):
    return (
        "apiVersion: autoscaling.crane.io/v1alpha1\nkind: EffectiveHorizontalPodAutoscaler\nmetadata: {name: shop}\n"
        "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}, minReplicas: 2, maxReplicas: 50, "
        f'crons: [{{name: day, timezone: Local, start: "{start}", end: "{end}", targetReplicas: 20}}]}}\n'
    )


def kapacity_of(*crons, static=""):
    """crons: (start, end, count)."""
    listed = ", ".join(
        f'{{name: c{count}, start: "{start}", end: "{end}", replicas: {count}}}' for start, end, count in crons
    )
    return (
        "apiVersion: autoscaling.kapacitystack.io/v1alpha1\nkind: IntelligentHorizontalPodAutoscaler\n"
        "metadata: {name: shop}\nspec:\n"
        "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}\n"
        "  minReplicas: 1\n  maxReplicas: 10\n  portraitProviders:\n"
        f"  - {{type: Cron, priority: 1, cron: {{crons: [{listed}]}}}}\n{static}"
    )


def exactly(rule):
    return lambda at: (rule(at), rule(at))


def floor(base, *windows, highest):
    """The largest count of the windows that hold, at least the base."""
    return lambda at: (max([base, *(count for holds, count in windows if holds(at))]), highest)


def either(holds, yes, no):
    return lambda at: yes if holds(at) else no


RULES = last_job([("0 20 * * *", 0, 3), ("0 8 * * 1-5", 0, 12)])


def huawei(at):
    lowest = RULES(at)
    return lowest, max(lowest, 10)


PATCHES = last_job([("0 8 * * *", 0, (3, 10)), ("0 22 * * *", 0, (1, 10)), ("0 12 * * 1-5", 0, (8, 20))])


def d_kuro(at):
    launch = datetime(2026, 11, 27, 10) <= at < datetime(2026, 11, 28, 19)  # noqa: DTZ001
    boxing_day = datetime(2026, 12, 26, 12, 30) <= at < datetime(2026, 12, 26, 15)  # noqa: DTZ001
    open_bounds = [
        bounds
        for holds, bounds in (
            (within_day(710, 780, {5, 6, 0, 1})(at), (10, 20)),
            (within_day(720, 870, range(7))(at), (6, 20)),
            (launch, (15, 20)),
            (boxing_day, (4, 20)),
        )
        if holds
    ]
    return (max(low for low, _ in open_bounds), max(high for _, high in open_bounds)) if open_bounds else (3, 10)


PEAK = next_edge_is_an_end("0 9 * * *", "0 11 * * *")
EVENING = next_edge_is_an_end("0 18 * * 1-5", "30 21 * * 1-5")


def kapacity(at):
    """The Cron provider alone while one is active, else the Static one; maxReplicas is 10."""
    count = 5 if PEAK(at) else 10 if EVENING(at) else 1
    return count, count


def zalando(at):
    """ceil(1000 / 60), ceil(300 / 60), 180 / 60, and 4000 / 60 up to maxReplicas; 8:00 UTC is 9:00 in Berlin then."""
    once = datetime(2026, 11, 27, 9) <= at < datetime(2026, 11, 27, 11)  # noqa: DTZ001
    small = datetime(2026, 12, 26, 10) <= at < datetime(2026, 12, 26, 16)  # noqa: DTZ001
    evening, morning = within_day(1155, 1335, {1, 2, 5})(at), within_day(540, 720, {6, 0})(at)
    return max(2, 17 * evening, 5 * morning, 3 * small, 60 * once), 60


def downscaler(at):
    up = within_day(450, 1230, range(1, 6))(at) or within_day(540, 1440, {6})(at)
    down = datetime(2026, 12, 24) <= at < datetime(2026, 12, 27)  # noqa: DTZ001
    return (4, 4) if up and not down else (1, 1)


LOWEST = last_job([("0 8 * * 1-5", 0, 10), ("0 20 * * *", 0, 2)])
HIGHEST = last_job([("0 8 * * 1-5", 0, 40), ("30 6 * * 0", 0, 5)])


def aws(at):
    return LOWEST(at), HIGHEST(at)


WORKDAY, PARTY = Cron("30 8 * * 1-5"), Cron("0 22 * * 6")


def gcp(at):
    """8 h and 5 h after the last start: durations are of time that passes, also where a clock change lies within."""
    now = at.replace(tzinfo=ZoneInfo("America/New_York")).astimezone(UTC)
    held = [2]
    for cron, hours, count in ((WORKDAY, 8, 10), (PARTY, 5, 20)):
        start = cron.until(at).replace(tzinfo=ZoneInfo("America/New_York")).astimezone(UTC)
        held += [count] * (now - start < timedelta(hours=hours))
    return max(held), 30


TENS = [(f"{at} * * * *", f"{at + 10} * * * *", at // 10 + 1) for at in range(0, 50, 10)]
OFFICE = "name: up, schedule: 0 0 8 * * 1-5, targetSize: 30", "name: down, schedule: 0 0 20 * * *, targetSize: 1"
BERLIN = "Europe/Berlin"
DATES_OFF = "\n  excludeDates: ['* * * 25 12 *', '* * * 1 1 *', '* * * 21 4 *']"
CASES = {
    "aliyun": (aliyun(*OFFICE), BERLIN, exactly(last_job([("0 8 * * 1-5", 0, 30), ("0 20 * * *", 0, 1)]))),
    "aliyun, 30 s apart": (
        aliyun(*OFFICE, "name: monday, schedule: 30 0 8 * * 1, targetSize: 40"),
        BERLIN,
        exactly(last_job([("0 8 * * 1-5", 0, 30), ("0 20 * * *", 0, 1), ("0 8 * * 1", 30, 40)])),
    ),
    "aliyun, a weekday off": (
        aliyun(*OFFICE, extra="\n  excludeDates: ['* * * * * 5']"),
        BERLIN,
        exactly(last_job([("0 8 * * 1-5", 0, 30), ("0 20 * * *", 0, 1)], lambda day: day.isoweekday() == 5)),
    ),
    "aliyun, dates off": (
        aliyun(*OFFICE, extra=DATES_OFF),
        BERLIN,
        exactly(
            last_job(
                [("0 8 * * 1-5", 0, 30), ("0 20 * * *", 0, 1)],
                lambda day: (day.month, day.day) in {(12, 25), (1, 1), (4, 21)},
            )
        ),
    ),
    "aliyun, five fields": (
        aliyun("name: up, schedule: 0 9 8 * *, targetSize: 9", "name: down, schedule: 0 9 20 * *, targetSize: 2"),
        BERLIN,
        exactly(last_job([("9 8 * * *", 0, 9), ("9 20 * * *", 0, 2)])),
    ),
    "keda": (
        keda((BERLIN, "0 8 * * 1-5", "0 18 * * 1-5", 10), (BERLIN, "0 22 * * *", "30 5 * * *", 4)),
        BERLIN,
        floor(
            1,
            (next_edge_is_an_end("0 8 * * 1-5", "0 18 * * 1-5"), 10),
            (next_edge_is_an_end("0 22 * * *", "30 5 * * *"), 4),
            highest=50,
        ),
    ),
    "keda from zero": (
        keda(("America/New_York", "0 8 * * 1,3", "0 18 * * 1,3", 10), lowest=0),
        "America/New_York",
        either(next_edge_is_an_end("0 8 * * 1,3", "0 18 * * 1,3"), (10, 50), (0, 50)),
    ),
    "keda on days of a month": (
        keda(("Asia/Seoul", "37 10 4,5,6,7 1 *", "45 10 4,5,6,7 1 *", 4)),
        "Asia/Seoul",
        floor(1, (next_edge_is_an_end("37 10 4,5,6,7 1 *", "45 10 4,5,6,7 1 *"), 4), highest=50),
    ),
    "crane": (crane("0 9 * * ?", "0 21 * * ?"), BERLIN, floor(2, (within_day(540, 1260, range(7)), 20), highest=50)),
    "tkestack": (
        "tkestack.yaml",
        BERLIN,
        # The first of the list wins at 4:30 on Wednesdays.
        exactly(
            last_job([("0 23 * * 5", 0, 60), ("0 23 * * 0", 0, 30), ("30 4 * * 1-3", 1, 12), ("30 4 * * 3", 0, 14)])
        ),
    ),
    "huawei": ("huawei.yaml", BERLIN, huawei),
    "dtaniwaki": ("dtaniwaki.yaml", "Asia/Tokyo", PATCHES),
    "d-kuro": ("d-kuro.yaml", BERLIN, d_kuro),
    "kapacity": ("kapacity.yaml", "Asia/Shanghai", kapacity),
    "kapacity, crons alone": (
        kapacity_of(*TENS),
        "UTC",
        exactly(kept_between(*TENS)),
    ),
    "kapacity, crons alone on weekdays": (
        kapacity_of(("0 8 * * 1-5", "0 18 * * 1-5", 8), ("0 22 * * *", "0 2 * * *", 2)),
        "UTC",
        exactly(kept_between(("0 8 * * 1-5", "0 18 * * 1-5", 8), ("0 22 * * *", "0 2 * * *", 2))),
    ),
    "zalando": ("zalando.yaml", BERLIN, zalando),
    "kube-downscaler": ("kube-downscaler.yaml", BERLIN, downscaler),
    "kube-green": (
        "kube-green.yaml",
        "Europe/Rome",
        exactly(last_job([("0 20 * * 1-5", 0, 0), ("0 8 * * 1-5", 0, 3)])),
    ),
    "aws": ("aws.yaml", BERLIN, aws),
    "gcp": ("gcp.yaml", "America/New_York", gcp),
}


def differences(name, minutes):
    """Minutes at which the converted object allows other counts than the original's rule, with both."""
    text, zone, rule = CASES[name]
    spec = converted(text, zone=zone).manifests[0]["spec"]
    # The original asks at the start; only then are they equal.
    spec["schedules"] = [schedule | {"leadTimeSeconds": 0} for schedule in spec["schedules"]]
    parsed = parse_spec(spec, "prod", ControllerOptions())
    for at in minutes:
        wanted = rule(at.astimezone(ZoneInfo(zone)).replace(tzinfo=None))
        resolved = resolve(parsed, from_datetime(at))
        if wanted != (resolved.minimum, resolved.maximum):
            yield f"{at}: {wanted} at the original, {(resolved.minimum, resolved.maximum)} here"


@pytest.mark.parametrize("name", CASES)
def test_at_sampled_minutes_the_bounds_are_those_of_the_original(name):
    minutes = [YEAR + timedelta(days=day, minutes=minute) for day in SAMPLED for minute in range(0, 1440, 5)]
    minutes += [at - timedelta(minutes=1) for at in minutes]

    assert [] == list(differences(name, sorted(minutes)))


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_at_each_minute_of_a_year_the_bounds_are_those_of_the_original(name):
    assert [] == list(differences(name, (YEAR + timedelta(minutes=minute) for minute in range(366 * 1440))))
