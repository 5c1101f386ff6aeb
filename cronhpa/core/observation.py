"""What was seen of the world in one turn: the scale, the pods and the metrics, with absence as a value of its own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds


class Absent(Struct, frozen=True, tag=True):
    """
    "I do not know", and why.

    reason: a word for machines (CamelCase). message: a sentence for people.
    error: the longer text that the upstream returns in place of `message` where the two differ.
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
    """requests: milli-units by resource name. restartable: an init container that keeps running (a sidecar)."""

    name: str
    requests: Mapping[str, int]
    is_init: bool = False
    restartable: bool = False


class Pod(Struct, frozen=True, gc=False):
    """
    ready: the status of the Ready condition, "" where there is none. ready_since: its last transition.
    first_ready: when it became Ready for the first time that was seen, None while that is its last transition.
    containers: the regular ones, then the init containers: the order in which the upstream looks for a missing request.
    pod_requests: requests stated for the pod as a whole, None where there are none. overhead: added to the sum of them.
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


class Sample(Struct, frozen=True, gc=False):
    """One pod's value of one metric: milli-units, measured over `window` up to `at`."""

    value: int
    at: Nanoseconds
    window: Nanoseconds


class PodCounts(Struct, frozen=True, tag=True):
    """
    Pods and samples of one metric, counted: all that a replica count is computed from.

    ready: pods that count fully. unready, missing: pods without a trustworthy sample, and without any.
    counted: samples left after those of ignored and unready pods are taken out; matched: those of them with a request.
    usage, request: sums over them, milli-units. missing_usage: what missing pods are taken to use when load is low.
    missing_request, unready_request: what those pods asked for. load: usage of all pods, ready or not.
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


class ScalarReading(Struct, frozen=True, tag=True):
    """One value for the whole target, milli-units; ready: running and ready pods, where the target needs them."""

    value: int
    ready: int | Absent


Reading = PodCounts | ScalarReading | Absent


class Observation(Struct, frozen=True):
    """
    scale: what GET scale said, or why it said nothing.
    selector_problem: why the selector cannot be used (missing, unreadable, ambiguous).
    readings: one for each of the spec's metrics, in order; empty where none were asked for.
    start_up: 90th percentile of creation to Ready of the target's own pods, None while unknown.
    request_per_pod: milli-units a ready pod asks for, by resource name: what turns a load into pods.
    """

    scale: Scale | Absent
    readings: tuple[Reading, ...] = ()
    selector_problem: Absent | None = None
    start_up: Nanoseconds | None = None
    request_per_pod: Mapping[str, int] = {}
