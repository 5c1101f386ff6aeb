"""The observation of one reconciliation: scale, pods and metrics. A part that could not be read is an `Absent`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds

# Fewer pods that start together are no crowd.
CROWD_PODS_MIN = 50
CROWD_GRAIN = 5 * SECOND
CROWD_DELAY_MAX = 2 * MINUTE
# 20 pods a second, until a crowd was measured: a kube-controller-manager may make so many requests (--kube-api-qps).
POD_RATE_UNKNOWN = 1200


class Absent(Struct, frozen=True, tag=True):
    """An unknown value, with the reason."""

    reason: str
    """A word for machines (CamelCase)."""
    message: str
    """A sentence for people."""
    error: str = ""
    """The longer text that the upstream returns instead of `message`, where the two differ."""
    is_gone: bool = False
    """Whether what was asked for does not exist: not a failure that may pass."""


class Scale(Struct, frozen=True, tag=True):
    """The target's scale subresource."""

    spec_replicas: int
    status_replicas: int
    selector: str
    """The label selector as text."""
    resource_version: str = ""


class Container(Struct, frozen=True, gc=False):
    """A container of a pod."""

    name: str
    requests: Mapping[str, int]
    """Milli-units by resource name."""
    is_init: bool = False
    restartable: bool = False
    """An init container that keeps running (a sidecar)."""
    ports: Mapping[str, int] = {}
    """TCP ports by name."""


class Pod(Struct, frozen=True, gc=False):
    """A pod of the target."""

    name: str
    phase: str
    deleting: bool
    ready: str
    """The status of the Ready condition; "" if there is none."""
    ready_since: Nanoseconds
    """The Ready condition's last transition."""
    start_time: Nanoseconds | None
    created: Nanoseconds
    containers: tuple[Container, ...]
    """Regular containers, then init containers: the order in which the upstream looks for a missing request."""
    pod_requests: Mapping[str, int] | None = None
    """Requests of the pod as a whole; None if there are none."""
    overhead: Mapping[str, int] = {}
    """Added to the sum of the requests."""
    first_ready: Nanoseconds | None = None
    """The first transition to Ready that was seen; None if that is `ready_since`."""
    ip: str = ""
    """From the pod's status; "" while there is none."""
    on_host_network: bool = False
    """Whether the IP is that of the node."""
    controller: str = ""
    """Its controller, as `apps/v1/ReplicaSet/shop-5d5f`; "" if there is none."""
    waited: Nanoseconds = 0
    """From its creation until a node had room for it; 0 while it has none."""


class Sample(Struct, frozen=True, gc=False):
    """One pod's value of one metric: milli-units, measured over `window` up to `at`."""

    value: int
    at: Nanoseconds
    window: Nanoseconds


class PodCounts(Struct, frozen=True, tag="Tally"):
    """Pods and samples of one metric, grouped: the input of a replica count."""

    ready: int
    """Pods that count fully."""
    unready: int
    """Pods whose sample is not trusted."""
    missing: int
    """Pods without a sample."""
    counted: int
    """Samples of pods that are neither ignored nor unready."""
    matched: int
    """Those of the counted samples whose pod has a request."""
    usage: int
    """Sum over the matched samples (over the counted ones without a request), milli-units."""
    request: int
    """Sum over the matched samples."""
    missing_usage: int
    """The usage assumed for missing pods when load is low."""
    missing_request: int
    """Sum of the requests of missing pods."""
    unready_request: int
    """Sum of the requests of unready pods."""
    load: int
    """Usage of all pods, ready or not."""


class ScalarReading(Struct, frozen=True, tag="Gauge"):
    """One value for the whole target."""

    value: int
    """Milli-units."""
    ready: int | Absent
    """Running and ready pods; counted for a Value target only."""


Reading = PodCounts | ScalarReading | Absent


class Crowd(Struct, frozen=True, omit_defaults=True):
    """The pods that all objects together ask for at one start, and how fast the cluster makes pods Ready."""

    start: Nanoseconds
    pods: int
    objects: int
    pods_per_minute: int
    """Beyond the start-up of a single pod: that of a former crowd, else POD_RATE_UNKNOWN."""

    def delay(self, start: Nanoseconds) -> Nanoseconds:
        """
        How much later than a pod alone the last pod of a start is Ready, rounded up to CROWD_GRAIN; 0 for an object
        alone and for a small crowd.

        At most CROWD_DELAY_MAX: objects of other tenants are in the crowd, too, and may not mean what they say.
        """
        if start != self.start or self.objects <= 1 or self.pods < CROWD_PODS_MIN:
            return 0
        delay = self.pods * MINUTE // max(self.pods_per_minute, 1)
        return min(-(-delay // CROWD_GRAIN) * CROWD_GRAIN, CROWD_DELAY_MAX)


class NodeStart(Struct, frozen=True, omit_defaults=True):
    """How long pods took that had to wait for a node."""

    length: Nanoseconds
    """90th percentile of creation to Ready of those pods."""
    at: Nanoseconds
    """When the youngest of them was created."""


class Observation(Struct, frozen=True):
    """What was seen in one reconciliation."""

    scale: Scale | Absent
    """The scale subresource, or why it could not be read."""
    readings: tuple[Reading, ...] = ()
    """One for each of the spec's metrics, in order; empty if none was requested."""
    selector_problem: Absent | None = None
    """Why the selector cannot be used (missing, unreadable, ambiguous)."""
    start_up: Nanoseconds | None = None
    """90th percentile of creation to Ready of the target's own pods, less their wait for a node; None while unknown."""
    request_per_pod: Mapping[str, int] = {}
    """Milli-units that a ready pod requests, by resource name. It turns a load into pods."""
    crowd: Crowd | None = None
    """The crowd at the object's next start; None if it is not known."""
    node_start: NodeStart | None = None
    """The start of those pods that had to wait for a node; None if none is seen."""
    unseen: Absent | None = None
    """Why the metrics may scale up, but not down: fewer pods are seen than the target's status states, or nobody knows
    who else scales it."""
