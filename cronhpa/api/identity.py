"""The names of the resources at the API server: the only home of their group and version."""

from __future__ import annotations

GROUP, VERSION, KIND, PLURAL, SINGULAR, SHORT_NAME = "cronhpa.io", "v1alpha1", "CronHPA", "cronhpas", "cronhpa", "chpa"
EVENT_KIND, EVENT_PLURAL = "PlannedEvent", "plannedevents"
CLUSTER_EVENT_KIND, CLUSTER_EVENT_PLURAL = "ClusterPlannedEvent", "clusterplannedevents"
API_VERSION = f"{GROUP}/{VERSION}"
# The audience of tokens that authenticate a caller to the operator alone: the API server refuses them.
AUDIENCE = GROUP
