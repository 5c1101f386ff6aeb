"""The names of the resource at the API server: the only home of its group and version."""

from __future__ import annotations

GROUP, VERSION, KIND, PLURAL, SINGULAR, SHORT_NAME = "cronhpa.io", "v1alpha1", "CronHPA", "cronhpas", "cronhpa", "chpa"
API_VERSION = f"{GROUP}/{VERSION}"
# The audience of tokens that authenticate a caller to the operator alone: the API server refuses them.
AUDIENCE = GROUP
