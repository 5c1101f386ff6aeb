"""docs/metrics.md: every family of /metrics, as the code declares it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cronhpa.operator.families import OBJECT_FAMILIES, OPERATOR_FAMILIES, Family

_HEAD = """\
# Metrics

`make monitoring` writes this page from cronhpa/operator/families.py. How to scrape it: [monitoring.md](monitoring.md).

"""
_OBJECTS = """\
## Each object

Each has the labels `namespace` and `name` of the CronHPA object, and comes from the replica that decides alone. It is
about the newest decision; what is not known is absent: there is no `desired_replicas` before the first decision.
`CRONHPA_METRICS_OBJECTS=false` (chart: `metrics.objects: false`) leaves all of them out, `CRONHPA_METRICS_NAMESPACES`
(`metrics.namespaces`) limits them to some namespaces. An object has 19 series with one metric, 33 with two schedules
and a forecast.

"""


def text() -> str:
    """The page."""
    own = "".join(_table(OPERATOR_FAMILIES))
    process = (
        "Beside them are `process_*` of the Python client: CPU, memory, open files and the start of the process.\n\n"
    )
    return f"{_HEAD}## The operator\n\n{own}\n{process}{_OBJECTS}{''.join(_table(OBJECT_FAMILIES))}"


def _table(families: Iterable[Family]) -> Iterator[str]:
    yield "| family | type | labels | what it says |\n| --- | --- | --- | --- |\n"
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.help} |\n"
