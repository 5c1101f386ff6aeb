"""docs/reference/metrics.md: every family of /metrics, as the code declares it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cronhpa.operator.monitoring.families import OBJECT_FAMILIES, OPERATOR_FAMILIES, Family

_HEAD = """\
# Metrics

`make monitoring` writes this page from cronhpa/operator/monitoring/families.py: family, type, labels. How to scrape it:
[monitoring](../monitoring.md).

"""
_OBJECTS = """\
## Each object

Each has the labels `namespace` and `name` of the CronHPA object, and comes from the replica that decides alone. It is
about the newest decision; what is not known is absent: there is no `desired_replicas` before the first decision.
[Fewer of them](../monitoring.md#metrics).

"""
_KUBE_STATE_METRICS = """
## In place of kube-state-metrics

An adopted object has no HorizontalPodAutoscaler any more. The label `horizontalpodautoscaler` is `name` here.

- `kube_horizontalpodautoscaler_status_desired_replicas`: `cronhpa_object_desired_replicas`
- `kube_horizontalpodautoscaler_status_current_replicas`: `cronhpa_object_current_replicas`
- `kube_horizontalpodautoscaler_spec_max_replicas`: `cronhpa_object_spec_max_replicas`; in force now:
  `cronhpa_object_max_replicas`
- `kube_horizontalpodautoscaler_spec_min_replicas`: in force now: `cronhpa_object_min_replicas`
- `kube_horizontalpodautoscaler_status_condition{condition,status}`: `cronhpa_object_condition{type,status}`, the status
  that holds alone
- `kube_horizontalpodautoscaler_spec_target_metric`: `cronhpa_object_metric_target`; measured:
  `cronhpa_object_metric_value`
- `kube_horizontalpodautoscaler_info{scaletargetref_kind,scaletargetref_name}`:
  `cronhpa_object_info{target_kind,target_name}`
- alerts `KubeHpaMaxedOut`, `KubeHpaReplicasMismatch`: `CronHPAMaxedOut`, `CronHPAReplicasMismatch`
"""


def text() -> str:
    """The page."""
    own = "".join(_lines(OPERATOR_FAMILIES))
    process = (
        "Beside them are `process_*` of the Python client: CPU, memory, open files and the start of the process.\n\n"
    )
    return (
        f"{_HEAD}## The operator\n\n{own}\n{process}{_OBJECTS}{''.join(_lines(OBJECT_FAMILIES))}{_KUBE_STATE_METRICS}"
    )


def _lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        labels = "".join(f", `{label}`" for label in family.labels)
        yield f"- `{family.name}` ({family.kind}{labels}): {family.help}\n"
