"""
cronhpa.migration.dialects.kapacity, cronhpa.migration.documents.edges: drawn schedules of all dialects mean what their
original rules say.

What a conversion announces may differ; so only conversions whose remarks are about something else are compared.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.instant import from_datetime
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.bounds import resolve
from cronhpa.migration.convert import Document, convert
from migration.originals import Cron, last_job, next_edge_is_an_end, within_day
from migration.reading import NOW

FIRST = datetime(2026, 10, 3, tzinfo=UTC)
# A week and the night of Europe's clock change; turns of a month and of the year.
DAYS = [0, 1, 2, 3, 4, 5, 6, 7, 22, 23, 29, 30, 90, 91]
MINUTES = sorted(
    FIRST + timedelta(days=day, minutes=minute - before)
    for day in DAYS
    for minute in range(0, 1440, 15)
    for before in (0, 1)
)
# Remarks that say nothing of windows.
ELSEWHERE = (
    "the zone of the times is the TZ",
    "no zone of its own",
    "found crons and no metrics",
    "the HPA's bounds are",
    "the source scales",
    "the bounds outside of the actions",
    "Kapacity has no stabilization window",
    "a provider of higher priority always has a count",
)
REF = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}

zones = st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York"])
weekdays = st.sampled_from(["*", "*", "1-5", "0,6", "1", "5", "MON-FRI", "2-4", "*/2"])
days = st.sampled_from(["*", "*", "*", "*", "1", "1-7", "15,31"])
quarters = st.sampled_from([0, 15, 30, 45])
sizes = st.lists(st.integers(1, 40), min_size=2, max_size=4, unique=True)
clocks = st.integers(0, 95).map(lambda quarter: 15 * quarter)


@st.composite
def weekly(draw):
    hour = draw(st.one_of(st.integers(0, 23).map(str), st.sampled_from(["9,21", "*/6", "8-10"])))
    return f"{draw(quarters)} {hour} * * {draw(weekdays)}"


@st.composite
def monthly(draw):
    return f"{draw(quarters)} {draw(st.integers(0, 23))} {draw(days)} * {draw(weekdays)}"


def crons():
    """Jobs that follow each other differently from month to month have no windows, so few are drawn."""
    return st.one_of(weekly(), weekly(), weekly(), weekly(), monthly())


@st.composite
def edges(draw):
    """Start and end of a window: mostly of the same days, so that they alternate."""
    if draw(st.integers(0, 4)) == 0:
        return draw(crons()), draw(crons())
    on = draw(st.sampled_from(["* * *", "* * 1-5", "* * 1,3,5", "* * SAT", "1 * *", "10-12 * *", "* 3-11 *"]))
    begin, end = sorted(draw(st.lists(clocks, min_size=2, max_size=2, unique=True)))
    pair = [f"{at % 60} {at // 60} {on}" for at in (begin, end)]
    return tuple(pair[::-1] if draw(st.booleans()) else pair)


def kubernetes(kind, version, spec, name="shop", **metadata):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def exactly(rule):
    return lambda at: (rule(at), rule(at))


def floors(base, windows, highest):
    """The largest count of the windows (holds, count) that hold."""
    return lambda at: (max([base, *(count for holds, count in windows if holds(at))]), highest)


@st.composite
def aliyun(draw):
    jobs = [(draw(crons()), draw(st.sampled_from([0, 0, 30])), size) for size in draw(sizes)]
    off = draw(st.sampled_from([None, None, 3, 6]))
    spec = {
        "scaleTargetRef": REF,
        "excludeDates": [] if off is None else [f"* * * * * {off}"],
        "jobs": [
            {"name": f"j{size}", "schedule": f"{second} {text}", "targetSize": size} for text, second, size in jobs
        ],
    }
    made = kubernetes("CronHorizontalPodAutoscaler", "autoscaling.alibabacloud.com/v1beta1", spec)
    return [made], draw(zones), exactly(last_job(jobs, lambda day: day.isoweekday() % 7 == off))


@st.composite
def tkestack(draw):
    jobs = [(draw(crons()), size) for size in draw(sizes)]
    spec = {"scaleTargetRef": REF, "crons": [{"schedule": text, "targetReplicas": size} for text, size in jobs]}
    # Of several that are due at one time the first one counts.
    rule = last_job([(text, -index, size) for index, (text, size) in enumerate(jobs)])
    return [kubernetes("CronHPA", "extensions.tkestack.io/v1", spec)], draw(zones), exactly(rule)


@st.composite
def huawei(draw):
    jobs = [(draw(crons()), size) for size in draw(sizes)]
    rules = [{"ruleName": f"r{size}", "schedule": text, "targetReplicas": size} for text, size in jobs]
    made = kubernetes(
        "CronHorizontalPodAutoscaler", "autoscaling.cce.io/v2alpha1", {"scaleTargetRef": REF, "rules": rules}
    )
    return [made], draw(zones), exactly(last_job([(text, 0, size) for text, size in jobs]))


@st.composite
def dtaniwaki(draw):
    zone = draw(zones)
    jobs = [(draw(crons()), size) for size in draw(sizes)]
    template = {"spec": {"scaleTargetRef": REF, "minReplicas": 1, "maxReplicas": 50, "metrics": [CPU]}}
    patches = [
        {"name": f"p{size}", "schedule": text, "timezone": zone, "patch": {"minReplicas": size}} for text, size in jobs
    ]
    spec = {"template": template, "scheduledPatches": patches}
    rule = last_job([(text, 0, (size, 50)) for text, size in jobs])
    return [kubernetes("CronHorizontalPodAutoscaler", "cron-hpa.dtaniwaki.github.com/v1alpha1", spec)], zone, rule


@st.composite
def aws(draw):
    zone = draw(zones)
    jobs = [
        (draw(quarters), draw(st.integers(0, 23)), draw(st.sampled_from(["*", "MON-FRI", "SUN", "TUE", "2/2"])), size)
        for size in draw(sizes)
    ]
    actions = [
        {
            "ScheduledActionName": f"a{size}",
            "ResourceId": "service/cluster/shop",
            "Schedule": f"cron({minute} {hour} {'* * ?' if weekday == '*' else f'? * {weekday}'} *)",
            "Timezone": zone,
            "ScalableTargetAction": {"MinCapacity": size, "MaxCapacity": 50},
        }
        for minute, hour, weekday, size in jobs
    ]
    names = {"2/2": "MON,WED,FRI"}
    rule = last_job(
        [(f"{minute} {hour} * * {names.get(weekday, weekday)}", 0, (size, 50)) for minute, hour, weekday, size in jobs]
    )
    return [{"ScheduledActions": actions}], zone, rule


@st.composite
def keda(draw):
    zone, lowest = draw(zones), draw(st.integers(1, 3))
    windows = [(*draw(edges()), size) for size in draw(sizes)[:3]]
    triggers = [
        {"type": "cron", "metadata": {"timezone": zone, "start": start, "end": end, "desiredReplicas": str(size)}}
        for start, end, size in windows
    ]
    spec = {"scaleTargetRef": {"name": "shop"}, "minReplicaCount": lowest, "maxReplicaCount": 50, "triggers": triggers}
    rule = floors(lowest, [(next_edge_is_an_end(start, end), size) for start, end, size in windows], 50)
    return [kubernetes("ScaledObject", "keda.sh/v1alpha1", spec)], zone, rule


@st.composite
def crane(draw):
    zone = draw(zones)
    windows = [(*draw(edges()), size) for size in draw(sizes)[:3]]
    stated = [
        {"name": f"c{size}", "timezone": draw(st.sampled_from([zone, "Local"])), "start": start, "end": end}
        | {"targetReplicas": size}
        for start, end, size in windows
    ]
    spec = {"scaleTargetRef": REF, "minReplicas": 2, "maxReplicas": 50, "metrics": [CPU], "crons": stated}
    made = kubernetes("EffectiveHorizontalPodAutoscaler", "autoscaling.crane.io/v1alpha1", spec)
    rule = floors(2, [(next_edge_is_an_end(start, end), size) for start, end, size in windows], 50)
    return [made], zone, rule


@st.composite
def kapacity(draw):
    """The provider of the highest priority decides alone, where it is active; of equal ones the larger count."""
    zone, static = draw(zones), draw(st.integers(1, 20))
    crons_by_priority = [
        (draw(st.integers(0, 3)), [(*draw(edges()), size) for size in draw(sizes)[: draw(st.sampled_from([1, 1, 2]))]])
        for _ in range(draw(st.integers(1, 3)))
    ]
    providers = [{"type": "Static", "priority": 1, "static": {"replicas": static}}]
    for priority, windows in crons_by_priority:
        stated = [
            {"name": f"w{index}", "start": start, "end": end, "replicas": size, "timeZone": zone}
            for index, (start, end, size) in enumerate(windows)
        ]
        providers.append({"type": "Cron", "priority": priority, "cron": {"crons": stated}})
    spec = {"scaleTargetRef": REF, "minReplicas": 0, "maxReplicas": 30, "portraitProviders": providers}
    ranked = [
        (priority, next_edge_is_an_end(start, end, tie=False), min(size, 30))
        for priority, windows in crons_by_priority
        for start, end, size in windows
    ]

    def rule(at):
        held = max([(1, static), *((priority, size) for priority, holds, size in ranked if holds(at))])
        return held[1], held[1]

    return [kubernetes("IntelligentHorizontalPodAutoscaler", "autoscaling.kapacitystack.io/v1alpha1", spec)], zone, rule


NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def span(first, last):
    return {(first + number) % 7 for number in range((last - first) % 7 + 1)}


@st.composite
def d_kuro(draw):
    zone = draw(zones)
    base = {"scaleTargetRef": REF, "minReplicas": 1, "maxReplicas": 50, "metrics": [CPU]}
    group = "autoscaling.d-kuro.github.io/v1"
    made, windows = [kubernetes("ScheduledPodAutoscaler", group, {"horizontalPodAutoscalerSpec": base})], []
    for size in draw(sizes):
        begin, end = sorted(draw(st.lists(clocks, min_size=2, max_size=2, unique=True)))
        first, last = draw(st.tuples(st.integers(0, 6), st.integers(0, 6)))
        spec = {
            "scaleTargetRef": {"name": "shop"},
            "type": "Weekly",
            "startDayOfWeek": NAMES[first],
            "endDayOfWeek": NAMES[last],
            "startTime": f"{begin // 60:02}:{begin % 60:02}",
            "endTime": f"{end // 60:02}:{end % 60:02}",
            "timeZone": zone,
            "minReplicas": size,
            "maxReplicas": 50,
        }
        made.append(kubernetes("Schedule", group, spec, name=f"s{size}"))
        windows.append((within_day(begin, end, span(first, last)), size))
    return made, zone, floors(1, windows, 50)


@st.composite
def zalando(draw):
    zone, lowest = draw(zones), draw(st.sampled_from([1, 6]))
    entries, windows = [], []
    for size in draw(sizes):
        begin, minutes = draw(clocks), draw(st.sampled_from([15, 60, 180]))
        on = draw(st.sets(st.integers(0, 6), min_size=1))
        assume(begin + minutes <= 1440)
        period = {"startTime": f"{begin // 60:02}:{begin % 60:02}", "timezone": zone}
        period["days"] = [NAMES[day][:3] for day in on]
        entries.append({"type": "Repeating", "durationMinutes": minutes, "value": 10 * size, "period": period})
        windows.append((within_day(begin, begin + minutes, on), size))
    named = {"apiVersion": "zalando.org/v1", "kind": "ClusterScalingSchedule", "name": "hours"}
    target = {"type": "AverageValue", "averageValue": "10"}
    metric = {"type": "Object", "object": {"describedObject": named, "metric": {"name": "hours"}, "target": target}}
    spec = {"scaleTargetRef": REF, "minReplicas": lowest, "maxReplicas": 50, "metrics": [CPU, metric]}
    hours = kubernetes(
        "ClusterScalingSchedule", "zalando.org/v1", {"scalingWindowDurationMinutes": 0, "schedules": entries}, "hours"
    )
    return [hours, kubernetes("HorizontalPodAutoscaler", "autoscaling/v2", spec)], zone, floors(lowest, windows, 50)


@st.composite
def downscaler(draw):
    zone, count = draw(zones), draw(st.integers(2, 9))
    texts, windows = [], []
    for _ in range(draw(st.integers(1, 3))):
        begin, end = sorted(draw(st.lists(clocks, min_size=2, max_size=2, unique=True)))
        first, last = draw(st.tuples(st.integers(0, 6), st.integers(0, 6)))
        days_ = f"{NAMES[first][:3]}-{NAMES[last][:3]}"
        texts.append(f"{days_} {begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02} {zone}")
        windows.append(within_day(begin, end, span(first, last)))
    kind, asleep = draw(st.sampled_from(["uptime", "downtime"])), draw(st.integers(0, 1))
    marks = {f"downscaler/{kind}": ", ".join(texts), "downscaler/downtime-replicas": str(asleep)}
    made = kubernetes("Deployment", "apps/v1", {"replicas": count}, annotations=marks)

    def rule(at):
        is_up = any(holds(at) for holds in windows) == (kind == "uptime")
        return (count, count) if is_up else (asleep, asleep)

    return [made], zone, rule


@st.composite
def kube_green(draw):
    zone, on = draw(zones), draw(st.sampled_from(["*", "1-5", "1,3,5", "0-6", "6"]))
    sleep, wake = draw(st.lists(clocks, min_size=2, max_size=2, unique=True))
    spec = {
        "weekdays": on,
        "sleepAt": f"{sleep // 60:02}:{sleep % 60:02}",
        "wakeUpAt": f"{wake // 60}:{wake % 60:02}",
        "timeZone": zone,
    }
    made = [
        kubernetes("SleepInfo", "kube-green.com/v1alpha1", spec, "hours"),
        kubernetes("Deployment", "apps/v1", {"replicas": 3}),
    ]
    jobs = [(f"{at % 60} {at // 60} * * {on}", 0, count) for at, count in ((sleep, 0), (wake, 3))]
    return made, zone, exactly(last_job(jobs))


@st.composite
def gcp(draw):
    zone, lowest, highest = draw(zones), draw(st.sampled_from([1, 6])), draw(st.sampled_from([7, 50]))
    schedules, windows = {}, []
    for size in draw(sizes):
        text, hours = draw(crons()), draw(st.sampled_from([1, 8, 13]))
        schedules[f"s{size}"] = {
            "minRequiredReplicas": size,
            "schedule": text,
            "timeZone": zone,
            "durationSec": hours * 3600,
        }
        windows.append((Cron(text), timedelta(hours=hours), size))
    policy = {"minNumReplicas": lowest, "maxNumReplicas": highest, "scalingSchedules": schedules}

    def aware(at):
        return at.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)

    def rule(at):
        held = [count for cron, length, count in windows if aware(at) - aware(cron.until(at)) < length]
        return min(max([lowest, *held]), highest), highest

    return [{"name": "shop", "autoscalingPolicy": policy}], zone, rule


DIALECTS = {
    "aliyun": aliyun,
    "tkestack": tkestack,
    "huawei": huawei,
    "dtaniwaki": dtaniwaki,
    "aws": aws,
    "keda": keda,
    "crane": crane,
    "kapacity": kapacity,
    "d-kuro": d_kuro,
    "zalando": zalando,
    "kube-downscaler": downscaler,
    "kube-green": kube_green,
    "gcp": gcp,
}
# Most schedules that are drawn in these dialects are converted with remarks, and cannot be compared.
SELDOM_COMPARED = {"aliyun", "kapacity"}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_drawn_schedule_means_what_it_meant(dialect):
    compared = 0

    @settings(max_examples=200 if dialect in SELDOM_COMPARED else 40)
    @given(DIALECTS[dialect]())
    def holds(drawn):
        nonlocal compared
        bodies, zone, rule = drawn
        conversion = convert([Document("in.yaml", body) for body in bodies], now=NOW, zone=zone)
        if not conversion.manifests:
            assert conversion.remarks, "nothing was made of it, without a word"
            return
        if any(not any(words in remark.finding for words in ELSEWHERE) for remark in conversion.remarks):
            return
        compared += 1
        spec = conversion.manifests[0]["spec"]
        # The original asks at the start; only then are they equal.
        spec["schedules"] = [schedule | {"leadTimeSeconds": 0} for schedule in spec.get("schedules", ())]
        parsed = parse_spec(spec, "prod", ControllerOptions())
        for at in MINUTES:
            wanted = rule(at.astimezone(ZoneInfo(zone)).replace(tzinfo=None))
            bounds = resolve(parsed, from_datetime(at))
            assert wanted == (bounds.minimum, bounds.maximum), f"{at}\n{yaml.safe_dump_all(bodies)}"

    holds()
    assert compared >= 5, "too few of the drawn schedules can be compared"
