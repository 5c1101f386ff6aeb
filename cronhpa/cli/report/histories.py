"""
The loads and replica counts of targets, by a Prometheus and a folder of files.

What was fetched is written to the folder at once, and what the folder has is not fetched again: an interrupted report
goes on where it was, and a folder without a Prometheus is a report offline.
"""

from __future__ import annotations

import csv
import gzip
import re
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, Nanoseconds, format_instant
from cronhpa.history.database.series import Series, is_load
from cronhpa.history.imports.files import HEADER, HistoryError, read_points
from cronhpa.history.imports.prometheus import Prometheus, PrometheusError, PrometheusUnusableError, selector
from cronhpa.history.imports.promql import QueryError
from cronhpa.reporting.objects import Autoscaler, TargetKey
from cronhpa.reporting.reported_target import Points

_SUFFIXES = (".csv", ".csv.gz", ".parquet")
# By kube-state-metrics: the metric of a kind's Ready pods, and its label for the name.
_REPLICAS = {
    "Deployment": ("kube_deployment_status_replicas_available", "deployment"),
    "StatefulSet": ("kube_statefulset_status_replicas_ready", "statefulset"),
    "ReplicaSet": ("kube_replicaset_status_ready_replicas", "replicaset"),
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MAX = 200
_REPLICAS_METRIC = "replicas"
# By which a Prometheus, Thanos or Mimir tells clusters apart, in the order of use.
_CLUSTER_LABELS = ("cluster", "cluster_name", "k8s_cluster")
_LOOKED_BACK: Nanoseconds = 5 * MINUTE


class History(Struct, frozen=True):
    """The history of one target, in order of time."""

    load: Points = ()
    replicas: Points = ()
    problem: str = ""
    """Why there is no load."""
    remarks: tuple[str, ...] = ()
    """What is missing of the load and beside it."""


def replicas_query(kind: str, matcher: str = "") -> str | None:
    """The PromQL template of the Ready pods of a target; None for a kind that kube-state-metrics does not count."""
    if kind not in _REPLICAS:
        return None
    metric, label = _REPLICAS[kind]
    # max: two replicas of kube-state-metrics serve the same number.
    of_target = selector(f'namespace="$namespace", {label}="$target"', matcher)
    return f"max({metric}{of_target})"


class Histories:
    """Reads and keeps the histories of one report."""

    def __init__(
        self,
        prometheus: Prometheus | None,
        folder: Path | None,
        begin: Nanoseconds,
        end: Nanoseconds,
        matcher: str = "",
    ) -> None:
        self._prometheus, self._folder = prometheus, folder
        self._begin, self._end = begin, end
        self._matcher = matcher
        self._remarks: list[str] = []
        self._used: dict[str, tuple[TargetKey, str]] = {}
        """By file without its suffix: whose load of which metric it has. Two objects of one name share its name."""

    async def of(self, autoscaler: Autoscaler, metric: str) -> History:
        """Raises PrometheusUnusableError if no other target will fare better."""
        self._remarks = []
        try:
            kept = self._kept(autoscaler, metric) or self._kept(autoscaler, "")
            load = await self._load(autoscaler, metric, kept)
        except PrometheusUnusableError:
            raise
        except (HistoryError, OSError, PrometheusError, QueryError, ImportError) as problem:
            return History(problem=str(problem))
        if not load:
            return History(problem=f"nothing is known of the load of {metric}")
        replicas: Points = ()
        try:
            replicas = await self._replicas(autoscaler)
        except PrometheusUnusableError:
            raise
        except (HistoryError, OSError, PrometheusError, QueryError, ImportError) as problem:
            self._remarks.append(f"the real replicas are not known: {problem}")
        return History(load, replicas, remarks=(*self._remarks, *self._ends(load, kept)))

    async def several_clusters(self) -> str:
        """
        Why the default queries would add up workloads of several clusters, and what to do; "" if they would not.

        Raises PrometheusUnusableError.
        """
        if self._prometheus is None:
            return ""
        for label in _CLUSTER_LABELS:
            chosen = selector(f'{label}!=""', self._matcher)
            query = f"count(count by ({label}) (up{chosen}))"
            try:
                parts = [part async for part in self._prometheus.load(query, self._end - _LOOKED_BACK, self._end)]
            except PrometheusUnusableError:
                raise
            except PrometheusError:
                continue
            counts = [value for part in parts for _, value in part]
            if counts and counts[-1] > 1:
                return (
                    f"it has {counts[-1]:.0f} clusters by the label {label}, and workloads of one name would be added "
                    f"""up: choose one, such as --matcher '{label}="prod"'"""
                )
        return ""

    def _ends(self, load: Points, kept: Path | None) -> list[str]:
        """What is missing at the ends of a load that was asked for, or is asked for if the kept file is removed."""
        if self._prometheus is None:
            return []
        begin, end = format_instant(load[0][0]), format_instant(load[-1][0])
        is_late, is_early = load[0][0] - self._begin > DAY, self._end - load[-1][0] > HOUR
        if kept is not None:
            remark = f"its load is that of {kept}, from {begin} to {end}: remove the file to ask the server again"
            return [remark] if is_late or is_early else []
        remarks = []
        if is_late:
            remarks.append(
                f"its load begins at {begin}: its target was made or renamed then, or the server keeps no more"
            )
        if is_early:
            remarks.append(f"its load ends at {end}: its target was removed or renamed, or nobody measures it now")
        return remarks

    async def _load(self, autoscaler: Autoscaler, metric: str, kept: Path | None) -> Points:
        if kept is not None:
            return self._within(read_points(kept))
        if self._prometheus is None:
            raise PrometheusError(self._missing(autoscaler, metric))
        series = Series(autoscaler.namespace, autoscaler.name, metric)
        query = autoscaler.queries.get(metric) or self._prometheus.query_for(
            series, autoscaler.spec.target, autoscaler.spec.container_of(metric)
        )
        return await self._fetched(autoscaler, metric, query)

    async def _replicas(self, autoscaler: Autoscaler) -> Points:
        cached = self._kept(autoscaler, _REPLICAS_METRIC)
        if cached is not None:
            return self._within(read_points(cached))
        template = replicas_query(autoscaler.spec.target.kind, self._matcher)
        if self._prometheus is None or template is None:
            return ()
        query = self._prometheus.filled(template, Series(autoscaler.namespace, autoscaler.name, _REPLICAS_METRIC),
                                        autoscaler.spec.target)  # fmt: skip
        return await self._fetched(autoscaler, _REPLICAS_METRIC, query)

    async def _fetched(self, autoscaler: Autoscaler, metric: str, query: str) -> Points:
        assert self._prometheus is not None
        points: list[tuple[Nanoseconds, float]] = []
        self._prometheus.warnings.clear()
        odd = 0
        async for part in self._prometheus.load(query, self._begin, self._end):
            loads = [(at, value) for at, value in part if is_load(at, value)]
            odd += len(part) - len(loads)
            points += loads
        if odd:
            self._remarks.append(f"{odd} values of {metric} are negative or no numbers, and were left out")
        warnings = list(dict.fromkeys(self._prometheus.warnings))
        if warnings:
            self._remarks.append(f"the server answered in part: {'; '.join(warnings)}")
        # What is known in part is asked for again.
        if self._folder is not None and points and not warnings:
            stem = _stem(autoscaler, metric)
            if not self._has(autoscaler, metric, stem):
                stem = _own_stem(autoscaler, metric)
            self._keep(self._folder / f"{stem}.csv.gz", points)
        return points

    def _kept(self, autoscaler: Autoscaler, metric: str) -> Path | None:
        if self._folder is None:
            return None
        for stem in (_own_stem(autoscaler, metric), _stem(autoscaler, metric)):
            paths = (self._folder / f"{stem}{suffix}" for suffix in _SUFFIXES)
            path = next((path for path in paths if path.is_file()), None)
            if path is not None and self._has(autoscaler, metric, stem):
                return path
        return None

    def _has(self, autoscaler: Autoscaler, metric: str, stem: str) -> bool:
        """Whether a file is of this target and metric: of the first that uses it."""
        user = autoscaler.target, metric
        return self._used.setdefault(stem, user) == user

    def _keep(self, path: Path, points: Points) -> None:
        """Written beside and renamed: an interrupted report leaves no half file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}.part")
        with gzip.open(half, "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER)
            writer.writerows((format_instant(at), value) for at, value in points)
        half.rename(path)

    def _within(self, points: Points) -> Points:
        """The newest part of a file, as long as the report asks a Prometheus for."""
        if not points:
            return points
        begin = points[-1][0] - (self._end - self._begin)
        return [point for point in points if point[0] >= begin]

    def _missing(self, autoscaler: Autoscaler, metric: str) -> str:
        if self._folder is None:
            return "there is no history: name a Prometheus by --prometheus, or a folder of files by --history"
        stem = _stem(autoscaler, metric)
        if stem in self._used:
            return (
                f"{self._folder}/{stem} is the load of another target or metric, and there is no "
                f"{_own_stem(autoscaler, metric)}.csv, .csv.gz or .parquet"
            )
        return f"{self._folder} has no {stem}.csv, .csv.gz or .parquet"


def _stem(autoscaler: Autoscaler, metric: str) -> str:
    """NAMESPACE/NAME.METRIC: the file of a history, below the folder."""
    return f"{as_file_name(autoscaler.namespace)}/{as_file_name(autoscaler.name + ('.' + metric if metric else ''))}"


def _own_stem(autoscaler: Autoscaler, metric: str) -> str:
    """The file of a history whose `_stem` is that of another one."""
    whose = "/".join((*autoscaler.target, metric)).encode(errors="backslashreplace")
    return f"{_stem(autoscaler, metric)}.{blake2b(whose, digest_size=6).hexdigest()}"


def as_file_name(text: str) -> str:
    """A name of an object as that of a file: what a hostile manifest calls itself leads out of no folder."""
    return _NOT_IN_NAMES.sub("_", text).lstrip(".")[:_NAME_MAX] or "_"
