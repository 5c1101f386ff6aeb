"""
Every cache with its bound, cold against warm, and what a tenant can make of it.

The tables below are the list. A cache that is not in them fails the first test: say what bounds it.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from datetime import date, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.caches import kept, named
from core.situations import at, specs
from cronhpa.api.parse import parse_spec
from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.core.model.spec import ControllerOptions, CronWindow, OnceWindow, Policy, ScalingRules, Spec
from cronhpa.core.schedules.bounds import resolve
from cronhpa.core.schedules.conflicts import conflicts

MIB = 2**20

# Caches by value, such as a text, a zone, a window: (largest number of entries, largest bytes of each).
BY_VALUE = {
    "core.behavior:_ramp": (4096, 900),
    "core.behavior:default_ramp": (4096, 300),
    "core.model.instant:_to_the_second": (4096, 250),
    "core.schedules.ranks:_of_spec": (4096, 600),
    "core.schedules.windows:_start": (1024, 900),
    "core.schedules.calendars:problem": (1024, 1000),
    "core.schedules.calendars:_holidays_in": (4096, 1000),
    "core.schedules.calendars:_names_in": (128, 15_000),
    "core.schedules.calendar_days:_covering": (16, 40_000),
    "core.schedules.calendar_days:_is_zoned": (100, 100),
    "core.schedules.calendar_days:_title_count": (100, 100),
    "core.schedules.calendar_days:_whole_days": (32, 80_000),
    "core.schedules.calendar_days:_matches": (64, 40_000),
    "core.schedules.cron:_problem": (1024, 2000),
    "core.schedules.cron:_matcher": (16, 20_000),
    "core.schedules.cron:_read": (1024, 9000),
    "core.schedules.cron:days_of": (4096, 1000),
    "core.schedules.windows:_overlap": (1024, 400),
    "core.schedules.windows:_phase": (2048, 700),
    "core.schedules.windows:_window_day": (2048, 13_000),
    "core.schedules.windows:once": (4096, 700),
    "core.schedules.wall_clock:zone_problem": (1024, 600),
    "core.schedules.wall_clock:dates_near_change": (4096, 400),
    "core.schedules.wall_clock:_clock": (8192, 700),
    "core.schedules.wall_clock:offsets_on": (8192, 900),
    "api.parse:_range": (2048, 600),
    "api.parse:_shared": (1024, 20_000),
    "api.rules:spec_schema": (3, MIB),
    "history.database.postgres:_numbered": (64, 2000),
    "api.rules:_compiled": (1024, 5000),
    "kube.metric_values:_duration": (64, 300),
    "kube.pods:_kept_instant": (1024, 200),
    "kube.pods:_kept_milli": (512, 200),
    "history.imports.files:_instant": (64, 300),
    "forecasting.named_methods:find_methods": (64, 4000),
}
# No caches but what is known of something that exists, or waits to be written: who takes it out, or how much it may be.
STATE = {
    "core.model.spec:Spec.computed": "the spec; its bounds, those after the next edge, and the next rise",
    "core.forecasts.budget_tracker:BudgetTracker.hours": "the hours of a week",
    "kube.client:Client._metric_places": "one each metrics API",
    "kube.pod_owners:PodOwners._kept": "its bound; the oldest is dropped",
    "operator.objects.planned_events:PlannedEvents._events": "one each planned event",
    "operator.objects.planned_events:PlannedEvents._counted": "one each namespace, of a hundred events",
    "operator.objects.planned_events:PlannedEvents._namespaces": "one each namespace",
    "operator.objects.planned_events:PlannedEvents.informers": "three, or one each namespace that is served",
    "operator.objects.planned_events:PlannedEvents._doubts": "one each informer",
    "operator.objects.planned_events:PlannedEvents._scoped": "the same, but for two",
    "operator.objects.planned_events:PlannedEvents._absent": "one each list of events",
    "operator.writes.writer:Writer._dropped": "one each field of the status",
    "operator.objects.planned_events:PlannedEvents._forbidden": "one each list of events",
    "operator.objects.former_events:FormerEvents._until": "two each object; others go each minute",
    "operator.objects.planned_events:PlannedEvents._unreadable": "one each list of events",
    "operator.objects.planned_events:PlannedEvents._changed": "one each namespace; the next round empties it",
    "calendars.feeds:CalendarFeeds.calendars": "one each named calendar, of which there are 100",
    "calendars.feeds:CalendarFeeds._feeds": "the same",
    "calendars.feeds:CalendarFeeds.read_at": "the same",
    "operator.objects.inventory:Inventory.calendars": "those of the feeds",
    "operator.usual_loads:UsualLoads._loads": "one each object and window of an event that expects a load",
    "operator.usual_loads:UsualLoads._overdue": "the same",
    "operator.usual_loads:UsualLoads._wanted": "the same; the next round empties it",
    "operator.writes.event_status_writer:EventStatusWriter._written_at": "one each planned event",
    "operator.writes.event_status_writer:EventStatusWriter._looked": "one each planned event",
    "operator.writes.event_status_writer:EventStatusWriter._told": "one each planned event",
    "history.past.waiting:Waiting._queues": "a thousand reports; 64 MB of changes; a flush empties it",
    "history.past.waiting:Waiting._sizes": "the namespaces of both",
    "operator.writes.event_status_writer:EventStatusWriter._unanswered": "namespaces of planned events, for a look",
    "operator.writes.event_status_writer:EventStatusWriter._sums": "one each planned event",
    "operator.writes.placeholder_writer:PlaceholderWriter.objects": "the same",
    "operator.writes.placeholder_writer:PlaceholderWriter._made_at": "one each object that asks for placeholders",
    "operator.writes.placeholder_writer:PlaceholderWriter._made": "the same",
    "operator.writes.placeholder_writer:PlaceholderWriter._seen": "the same",
    "operator.writes.placeholder_writer:PlaceholderWriter._quiet": "the same",
    "operator.writes.placeholder_writer:PlaceholderWriter._wanted": "the same",
    "operator.writes.placeholder_writer:PlaceholderWriter._writes": "the same",
    "operator.writes.placeholder_writer:PlaceholderWriter._told": "the same, and each kind of placeholders",
    "operator.objects.vertical_autoscalers:VerticalAutoscalers._by_target": "one each VerticalPodAutoscaler",
    "operator.objects.vertical_autoscalers:VerticalAutoscalers._told": "one each namespace that is served",
    "operator.readers.access:AccessReviews._accepted": "its bound of 1,024 tokens",
    "operator.readers.access:AccessReviews._unknown": "its bound of 1,024 tokens",
    "operator.readers.access:_Answers._by_user": "its bound of 50,000 answers",
    "sources.server:SharedRequests._troubles": "the texts of ten errors",
    "operator.writes.decision_recorder:DecisionRecorder._points": "its bound; the oldest is dropped",
    "operator.app:Operator.listeners": "two ports",
    "operator.objects.installations:Installations._others": "4,096 Leases",
    "operator.objects.installations:Installations._turn_of": "the namespaces of `_asked`",
    "operator.objects.installations:Installations._asked": "512 Leases each namespace whose objects name some",
    "operator.monitoring.log_rate:RateLimited._buckets": "its bound of templates",
    "history.imports.backfill:Backfills._asked_again_at": "an object's deletion",
    "history.imports.prometheus:Prometheus.warnings": "the newest few, each cut",
    "history.database.series_ids:SeriesIds._ids": "the next hour, when the store is compacted",
    "forecasting.service:ForecastService._latest": "an object's deletion; ten minutes after nobody asks",
    "forecasting.service:ForecastService._fits": "as the forecasts",
    "forecasting.service:ForecastService._digests": "as the forecasts",
    "forecasting.service:ForecastService._suspects": "as the forecasts",
    "forecasting.service:ForecastService._next_fit_at": "as the forecasts",
    "forecasting.service:ForecastService._wanted_at": "as the forecasts",
    "forecasting.service:ForecastService._problems": "the next round",
    "forecasting.deadline:Deadlines.late": "a task of a worker",
    "forecasting.deadline:TimedAttempts._left": "a task of a worker",
    "forecasting.policy:Attempts.failures": "a fit or a forecast",
    "forecasting.walk_forward:WalkForward.answers": "a backtest, in a process of its own",
    "forecasting.walk_forward:WalkForward._coming": "a backtest, in a process of its own",
    "kube.yaml_loader:Loader._counted": "a document's end",
    "kube.yaml_loader:Loader._nodes_of": "a document's end",
    "kube.yaml_loader:Loader.repeated": "a document's end",
    "kube.client:Client.requests": "verbs and codes",
    "kube.session:ApiSession._traces": "one, where reconciliations are traced",
    "kube.shard_scope:ShardScope._changed": "the informers",
    "operator.leader.shard_election:HeldShards.empty": "64 shards",
    "operator.leader.shard_election:ShardElection._shards": "64 shards",
    "operator.leader.shard_handover:ShardHandover.served": "64 shards",
    "operator.leader.shard_handover:ShardHandover._watched": "64 shards",
    "operator.leader.shard_handover:ShardHandover._leaving": "64 shards",
    "operator.leader.shard_handover:ShardHandover._empty": "64 shards",
    "operator.leader.shard_handover:ShardHandover._emptying": "64 shards",
    "operator.leader.shard_handover:ShardHandover._tasks": "takeovers under way",
    "kube.throttles:Throttles._throttled": "paths that the API server throttles now",
    "kube.discovery:Discovery._groups": "1,000 groups",
    "kube.discovery:Discovery._resources": "1,000 groups",
    "kube.discovery:Discovery._under_way": "one each group that is asked for",
    "kube.pod_indexer:PodIndexer._entries": "a pod's deletion",
    "kube.pod_indexer:PodIndexer._by_label": "a pod's deletion; 100 keys a namespace",
    "kube.pod_indexer:PodIndexer._templates": "a pod's deletion",
    "kube.metrics:MetricReader._queries": "the end of a tick",
    "kube.metrics:MetricReader._waiting": "those that wait",
    "kube.metrics:PodMetricsByName._usages": "the end of a tick",
    "kube.metrics:PodMetricsByName.by_name": "the end of a tick",
    "kube.pods:_NONE": "nothing is put in",
    "kube.scale:Targets._informers": "four kinds in each watched namespace",
    "kube.scale:Targets._of_kind": "kinds of targets",
    "kube.scale:Targets._seen": "a target's deletion",
    "kube.scale:Targets._tasks": "one each informer",
    "kube.informer:Informer.objects": "an object's deletion",
    "kube.informer:Informer._versions": "an object's deletion",
    "operator.objects.namespace_watches:NamespaceWatches._pairs": "one each watched namespace",
    "operator.objects.namespace_watches:NamespaceWatches._uncounted": "a pod's deletion",
    "operator.loop.minute_loads:MinuteLoads.unstored": "200,000 samples, 60 MB, without a store; else those of 5 s",
    "operator.loop.delaying_queue:DelayingQueue.under_way": "reconciliations under way",
    "operator.loop.delaying_queue:DelayingQueue._dirty": "reconciliations under way",
    "operator.loop.control_loop:NamespaceTasks._tasks": "reconciliations under way",
    "operator.loop.control_loop:NamespaceTasks._writes": "the same",
    "operator.loop.hang_limiter:HangLimiter._hanging": "10,000 queries; an answer",
    "operator.loop.hang_limiter:HangLimiter._hung_in_a_row": "the namespaces of `_hanging`",
    "operator.loop.hang_limiter:HangLimiter._hung_since_any": "eight namespaces; an answer",
    "operator.loop.hang_limiter:HangLimiter._in_vain": "the namespaces of `_hanging`",
    "operator.loop.hang_limiter:HangLimiter._under_way": "the places",
    "operator.loop.metric_apis:MetricApis._users": "namespaces under way",
    "operator.loop.metric_apis:MetricApis._since": "reconciliations under way",
    "operator.loop.delaying_queue:DelayingQueue._postponed": "five seconds",
    "operator.loop.metric_apis:MetricApis._lists": "half a second",
    "operator.loop.metric_apis:MetricQueries._lists": "the end of a tick",
    "operator.controller:Controller.forecast_objects": "an object's deletion",
    "operator.controller:Controller._forecast_series": "an object's deletion",
    "operator.objects.inventory:Inventory._oldest_on": "the deletion of a target's last object",
    "operator.loop.crowds:Crowds._members": "an object's deletion",
    "operator.loop.crowds:Crowds._starts": "the last object that starts then",
    "operator.loop.crowds:Crowds._asked": "an object's deletion; else its pods are Ready, or an hour",
    "operator.loop.crowds:Crowds._measured": "an hour after the start, with the next one",
    "operator.loop.crowds:Crowds._remembered": "1,000 pairs of numbers, until a crowd is measured",
    "operator.loop.delaying_queue:DelayingQueue._heap": "the instants of each namespace at which keys are due",
    "operator.loop.delaying_queue:DelayingQueue._keys": "twice the keys that are due, and 1,000",
    "operator.loop.delaying_queue:DelayingQueue._at": "an object's deletion",
    "operator.objects.object_watch:ObjectWatch.versions": "one each watched namespace",
    "operator.objects.inventory:Inventory.items": "an object's deletion",
    "operator.objects.inventory:Inventory._by_namespace": "an object's deletion",
    "operator.objects.inventory:Inventory._by_target": "an object's deletion",
    "operator.objects.inventory:Inventory._deleted": "the next list, in five minutes",
    "operator.loop.budget_trackers:BudgetTrackers._trackers": "an object's deletion, or an edit of its forecast metric",
    "operator.loop.budget_trackers:BudgetTrackers._unread": "an object's deletion; a look into the store",
    "operator.loop.budget_trackers:BudgetTrackers._unwritten": "100,000 hours without a store, 30 MB; else of 5 s",
    "operator.objects.owners:Owners._hpas": "a HorizontalPodAutoscaler's deletion",
    "operator.objects.owners:Owners._by_target": "a HorizontalPodAutoscaler's deletion",
    "operator.objects.counted_pods:CountedPods._by_key": "an object's deletion",
    "operator.objects.counted_pods:CountedPods._by_labels": "an object's deletion",
    "operator.objects.owners:Owners._ownerships": "a change of the target's autoscalers",
    "operator.writes.event_recorder:_Rank._lines": "20,000 events of 1,024 characters in both",
    "operator.writes.event_recorder:EventRecorder._known": "4,096 events of 1,024 characters; an object's deletion",
    "operator.writes.event_recorder:EventRecorder._known_of": "as the events",
    "operator.writes.event_recorder:EventRecorder._spent": "65,536 budgets, 20 MB; an object's deletion",
    "sources.server:SourceConnection._login": "one header",
    "sources.exposition:PageReader._lines": "a page, 64 KiB of it",
    "sources.metric_sources:MetricSources._sources": "the sources of the file",
    "sources.metric_sources:MetricSources._former": "the next change of the file",
    "sources.metric_sources:MetricSources._requests_before": "names that whoever runs the operator has written",
    "sources.pods:PodScrapes._scrapes": "ten minutes after nobody asks, when a new object does",
    "sources.namespace_shares:FairQueue._running": "384 threads",
    "sources.namespace_shares:FairQueue._waiting": "requests under way",
    "sources.page_process:_Connection._answers": "requests under way",
    "sources.page_worker:ScrapeServer._namespaces": "ten minutes after nobody asks",
    "sources.page_worker:ScrapeServer._scrapes": "requests under way",
    "sources.page_worker:_Namespace.objects": "a period and ten minutes; 96 MiB of all namespaces",
    "sources.page_worker:_Remembered.rates": "twice the pods of a scrape, 32 kB each at most",
    "sources.pod_page:PodPages._contexts": "64 sources",
    "sources.pod_page:PodPages._idle": "512 connections; five seconds without a request",
    "sources.shared:SharedAnswers._by_question": "ten minutes after nobody asks, looked at once in 1,000 requests",
    "sources.shared:_Shared.served": "the next answer",
    "operator.writes.write_places:WritePlaces._taken": "writes under way",
    "operator.writes.write_places:WritePlaces._reports": "writes under way",
    "operator.writes.write_places:WritePlaces._waiting": "writes that wait",
    "operator.writes.write_places:WritePlaces._next": "writes that wait",
    "operator.writes.writer:Writer._told": "the latest problems that were logged",
}


# --- the list ----------------------------------------------------------------------------------------------------


def test_every_cache_has_a_bound():
    assert sorted({*BY_VALUE, *STATE}) == sorted(kept())


@pytest.mark.parametrize("name", BY_VALUE)
def test_a_cache_by_value_has_as_many_places_as_are_listed(name):
    assert BY_VALUE[name][0] == named(name).cache_parameters()["maxsize"]


def test_all_caches_together_are_at_most_112_mib():
    """Full of the largest entries."""
    sizes = {name: places * weight for name, (places, weight) in BY_VALUE.items()}

    assert sum(sizes.values()) < 112 * MIB


# An edge a minute: open in each even one.
EACH_MINUTE = CronWindow("*/2 * * * *", "UTC", duration=MINUTE)
SLOW = ScalingRules((Policy("Pods", 1, 15 * SECOND),))
# What fills the largest entry of each, by the place: a text that no other has, and an answer of the largest kind.
NTH = ",".join(f"{n % 7}#{n % 5 + 1}" for n in range(18))
LARGEST = {
    "core.schedules.cron:_read": lambda i: (f"* * {i % 28 + 1}-31 */{i // 28 + 1} {NTH}",),
    "core.schedules.wall_clock:_clock": lambda i: ("Europe/Berlin", at_date(2026 + i)),
    "core.schedules.wall_clock:offsets_on": lambda i: ("Europe/Berlin", 20_751 + i),
    "core.schedules.cron:days_of": lambda i: ("* * * * *", 2026 + i, 1),
    "core.schedules.ranks:_of_spec": lambda i: (i + 1000, i + 10_000),
    "core.schedules.windows:_phase": lambda i: (f"* * {i}".ljust(100), "*".ljust(100), i * 10**15, "z" * 64),
    "core.schedules.windows:_window_day": lambda i: (EACH_MINUTE, at("10:00") + i * DAY),
    "core.schedules.windows:once": lambda i: (OnceWindow(f"{2026 + i}-11-23T10:00", "2300-01-01T00:00", "UTC"),),
    "core.behavior:_ramp": lambda i: (SLOW, 0, 257 + i, 15 * SECOND),
}


def at_date(year):
    """The last Sunday of October, when Berlin goes back."""
    last = date(year, 10, 31)
    return last - timedelta(days=(last.weekday() + 1) % 7)


# So many are filled in: they are alike, and with fewer the table's own bytes weigh more for each.
FILLED = 100


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGEST)
def test_an_entry_is_no_larger_than_is_listed(name):
    cache = named(name)
    for number in range(1, FILLED + 1):  # what it is worked out of has caches of its own
        cache(*LARGEST[name](number))
    cache.cache_clear()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1, FILLED + 1):
        cache(*LARGEST[name](number))
    bytes_per_object = (tracemalloc.get_traced_memory()[0] - before) / FILLED
    tracemalloc.stop()

    assert FILLED == cache.cache_info().currsize
    assert bytes_per_object <= BY_VALUE[name][1]


# --- cold against warm -------------------------------------------------------------------------------------------


def forget():
    """As in a new process."""
    for name in BY_VALUE:
        named(name).cache_clear()


@pytest.mark.slow
@settings(max_examples=60)
@given(
    specs(timed=True),
    st.sampled_from([None, 5 * SECOND, 10 * MINUTE]),
    st.lists(st.integers(-2 * 24 * 60, 4 * 24 * 60), min_size=2, max_size=6),
)
def test_cold_and_warm_say_the_same(of, start_up, minutes):
    """In whichever order instants are asked for, by an object that was seen before and by one that was not."""
    instants = [at("10:00") + minute * MINUTE for minute in minutes]
    warm = [(resolve(of, now, start_up), conflicts(of, now)) for now in instants]

    for now, resolved in zip(instants, warm, strict=True):
        forget()
        same = msgspec.json.decode(msgspec.json.encode(of), type=Spec)
        assert (resolve(same, now, start_up), conflicts(same, now)) == resolved


# --- what a tenant can make of it --------------------------------------------------------------------------------


def minutely(number, edit=0):
    """An edge a minute; no two windows are alike, and none is as it was before an edit."""
    left_out = f"{1 + number % 12:02d}-{1 + (number // 12 + edit) % 28:02d}"
    return {
        "name": f"w{number}",
        "start": f"{(number + edit) % 2}-59/2 * * * *",
        "durationMinutes": 1,
        "minReplicas": 2 + edit,
        "exclude": {
            "dates": [{"from": f"20{year}-{left_out}", "to": f"20{year}-{left_out}"} for year in range(30, 70)]
        },
    }


def read(schedules, minimum=1):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    text = {"scaleTargetRef": target, "minReplicas": minimum, "maxReplicas": 9000, "schedules": schedules}
    return parse_spec(text, "prod", ControllerOptions())


def reconciliations(of, now):
    resolve(of, now)
    conflicts(of, now)


def test_objects_of_one_template_share_their_windows():
    one, other = (read([minutely(0)], minimum) for minimum in (1, 2))

    assert one.schedules[0].window is other.schedules[0].window


def test_the_bounds_of_an_object_go_with_its_spec():
    """By tracemalloc. The days of its windows were there before, as another object has the same."""
    resolve(read([minutely(number) for number in range(4)]), at("10:00"))
    gc.collect()
    tracemalloc.start()
    begun = tracemalloc.get_traced_memory()[0]
    of = read([minutely(number) for number in range(4)])
    resolve(of, at("10:00"))
    held = tracemalloc.get_traced_memory()[0] - begun
    del of
    gc.collect()
    left = tracemalloc.get_traced_memory()[0] - begun
    tracemalloc.stop()

    assert 2000 < held
    assert left < held / 10


_EDITS = """
import gc, sys
from core.schedules.test_caches import MINUTE, at, minutely, read, reconciliations
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) / 1024
for edit in range(int(sys.argv[1])):
    of = read([minutely(number, edit) for number in range(50)])
    reconciliations(of, at("10:00") + edit * MINUTE)
    if edit == 1:
        begun = resident()
print(resident() - begun)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_thousand_edits_of_the_worst_object_stay_within_50_mib():
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _EDITS, "1000"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=paths)

    assert float(answer.stdout) < 50
