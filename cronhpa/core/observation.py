"""The observation of one turn: scale, pods and metrics. A part that could not be read is an `Absent`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds


class Absent(Struct, frozen=True, tag=True):
    """
    An unknown value, with the reason.

    reason: a word for machines (CamelCase). message: a sentence for people.
    error: the longer text that the upstream returns instead of `message`, where the two differ.
    """

    reason: str
    message: str
    error: str = ""


class Scale(Struct, frozen=True, tag=True):
    """The target's scale subresource. `selector` is its label selector as text."""

    spec_replicas: int
    status_replicas: int
    selector: str
    resource_version: str = ""


class Container(Struct, frozen=True, gc=False):
    """
    requests: milli-units by resource name. restartable: an init container that keeps running (a sidecar).
    ports: of TCP, by name.
    """

    name: str
    requests: Mapping[str, int]
    is_init: bool = False
    restartable: bool = False
    ports: Mapping[str, int] = {}


class Pod(Struct, frozen=True, gc=False):
    """
    ready: the status of the Ready condition, "" if there is none. ready_since: its last transition.
    first_ready: the first transition to Ready that was seen, None if that is `ready_since`.
    containers: regular containers, then init containers: the order in which the upstream looks for a missing request.
    pod_requests: requests of the pod as a whole, None if there are none. overhead: added to their sum.
    ip: from the pod's status, "" while there is none; on_host_network: whether it is the IP of the node.
    """

    name: str
    phase: str
    deleting: bool
    ready: str
    ready_since: Nanoseconds
    start_time: Nanoseconds | None
    created: Nanoseconds
    containers: tuple[Container, ...]
    pod_requests: Mapping[str, int] | None = None
    overhead: Mapping[str, int] = {}
    first_ready: Nanoseconds | None = None
    ip: str = ""
    on_host_network: bool = False


class Sample(Struct, frozen=True, gc=False):
    """One pod's value of one metric: milli-units, measured over `window` up to `at`."""

    value: int
    at: Nanoseconds
    window: Nanoseconds


class PodCounts(Struct, frozen=True, tag="Tally"):
    """
    Pods and samples of one metric, grouped: the input of a replica count.

    ready: pods that count fully. unready: pods whose sample is not trusted. missing: pods without a sample.
    counted: samples of pods that are neither ignored nor unready; matched: those of them with a request.
    usage, request: sums over `matched` (over `counted` without a request), milli-units.
    missing_usage: the usage assumed for missing pods when load is low.
    missing_request, unready_request: sums of the requests of these pods. load: usage of all pods, ready or not.
    """

    ready: int
    unready: int
    missing: int
    counted: int
    matched: int
    usage: int
    request: int
    missing_usage: int
    missing_request: int
    unready_request: int
    load: int


class ScalarReading(Struct, frozen=True, tag="Gauge"):
    """One value for the whole target, milli-units. ready: running and ready pods, counted for a Value target only."""

    value: int
    ready: int | Absent


Reading = PodCounts | ScalarReading | Absent


class Observation(Struct, frozen=True):
    """
    scale: the scale subresource, or why it could not be read.
    selector_problem: why the selector cannot be used (missing, unreadable, ambiguous).
    readings: one for each of the spec's metrics, in order; empty if none was requested.
    start_up: 90th percentile of creation to Ready of the target's own pods, None while unknown.
    request_per_pod: milli-units that a ready pod requests, by resource name. It turns a load into pods.
    unseen: why fewer pods are seen than the target's status states; the metrics may scale up then, but not down.
    """

    scale: Scale | Absent
    readings: tuple[Reading, ...] = ()
    selector_problem: Absent | None = None
    start_up: Nanoseconds | None = None
    request_per_pod: Mapping[str, int] = {}
    unseen: Absent | None = None
