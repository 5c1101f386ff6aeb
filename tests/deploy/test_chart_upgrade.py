"""
The chart over values of before: what `helm upgrade --reuse-values` renders.

That flag takes the defaults of the former chart in place of the new one's, so values lack whatever was added since. A
chart with the former values.yaml renders the same. tests/cluster/test_chart_upgraded.py does it on a real API server.
former_values has those of the first chart, and `make release` adds those of each release.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from testbed.control_plane import CHART, ControlPlaneError, rendered_chart

pytestmark = pytest.mark.cluster

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
FORMER = sorted((Path(__file__).parent / "former_values").glob("*.yaml"))


@pytest.fixture
def rendered_over(tmp_path):
    """The objects that the chart renders where its defaults are others, and `values` are set."""

    def render(defaults, **values):
        chart = shutil.copytree(CHART, tmp_path / "cronhpa", dirs_exist_ok=True)
        (chart / "values.yaml").write_text(yaml.safe_dump(defaults))
        return rendered_chart(chart, values=values)

    return render


def described(name, schema):
    found = schema["properties"][name]
    return SCHEMA["definitions"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found


def maps(values=VALUES, schema=SCHEMA, path=()):
    """Each map with keys by default: its path, and whether the schema names them, so that a release may add one."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            below = described(name, schema)
            yield (*path, name), "properties" in below
            if "properties" in below:
                yield from maps(value, below, (*path, name))


def emptied(path):
    """The defaults of a chart that knows no value of this map yet."""
    values = json.loads(json.dumps(VALUES))
    inner = values
    for name in path:
        inner = inner[name]
    inner.clear()
    return values


@pytest.fixture(scope="module")
def of_today():
    return rendered_chart()


def test_a_chart_from_before_all_values_upgrades_to_their_defaults(rendered_over, of_today):
    assert of_today == rendered_over({})


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path, named in maps() if named], ids=".".join)
def test_a_chart_from_before_the_values_of_a_block_upgrades_to_their_defaults(rendered_over, of_today, path):
    assert of_today == rendered_over(emptied(path))


def test_each_template_begins_by_completing_the_values():
    """Helm promises no order of templates."""
    first = {
        path.name: path.read_text().splitlines()[0]
        for path in (CHART / "templates").rglob("*.*")
        if path.suffix != ".tpl"
    }

    assert {'{{- include "cronhpa.complete" . }}'} == {line.replace("-}}", "}}") for line in first.values()}


@pytest.mark.parametrize("former", FORMER, ids=lambda path: path.stem)
def test_the_values_of_a_former_chart_stay_and_those_that_came_later_have_their_defaults(rendered_over, former):
    former = yaml.safe_load(former.read_text())

    assert rendered_over({**VALUES, **merged(VALUES, former)}) == rendered_over(former)


def merged(defaults, values):
    """As Helm lays values over defaults."""
    both = {
        name: merged(value, values[name]) if isinstance(value, dict) and isinstance(values.get(name), dict) else value
        for name, value in defaults.items()
    }
    return both | {name: value for name, value in values.items() if not isinstance(both.get(name), dict)}


FORMER_NAMES = [
    ({"shards": 16, "shardSelector": True}, {"shards": 16}, {"shardSelector": True}),
    ({"forecastWorkers": 3, "learningSharePercent": 80}, {}, {"forecastWorkers": 3, "learningSharePercent": 80}),
    (
        {"daskScheduler": "tcp://dask:8786", "daskInsecure": True, "daskTlsSecret": "dask"},
        {},
        {"daskScheduler": "tcp://dask:8786", "daskInsecure": True, "daskTlsSecret": "dask"},
    ),
    ({"page": {"insecure": True}}, {}, {"pageInsecure": True}),
    (
        {"page": {"tlsSecret": "t", "authentication": "proxy", "proxy": {"clientCa": True}}},
        {"page": {"tlsSecret": "t", "authentication": "proxy"}},
        {"proxyClientCa": True},
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("former", "others", "advanced"), FORMER_NAMES, ids="+".join)
def test_a_setting_that_moved_is_read_by_its_former_name(rendered_over, of_today, former, others, advanced):
    """In the values of a user, and in the former defaults; what is set under the present name wins over the latter."""
    now = rendered_over(VALUES, **others, advanced=advanced)

    assert of_today != now
    assert now == rendered_over(VALUES, **former)
    (first,) = [yaml.safe_load(path.read_text()) for path in FORMER if path.stem == "first"]
    assert rendered_over(first, **former) == rendered_over(first, **others, advanced=advanced)


DASK = {"daskScheduler": "tcp://dask:8786", "daskInsecure": True}
PROXY = {"page": {"tlsSecret": "t", "authentication": "proxy", "proxy": {"clientCa": True}}}


@pytest.mark.parametrize(
    ("former", "advanced"), [({"page": {"insecure": True}}, {"pageInsecure": False}), (DASK, {"daskScheduler": ""})]
)
def test_a_risk_that_was_taken_by_a_former_name_is_ended_by_the_present_one(rendered_over, of_today, former, advanced):
    assert of_today != rendered_over(VALUES, **former)
    assert of_today == rendered_over(VALUES, **former, advanced=advanced)


@pytest.mark.parametrize(
    ("former", "advanced", "problem"),
    [
        (DASK, {"daskInsecure": False}, "daskInsecure: true takes that risk"),
        (PROXY, {"proxyClientCa": False}, "anybody could send a proxy's headers"),
    ],
)
def test_what_needs_that_risk_is_refused_then(rendered_over, former, advanced, problem):
    assert rendered_over(VALUES, **former)
    with pytest.raises(ControlPlaneError, match=problem):
        rendered_over(VALUES, **former, advanced=advanced)


def test_what_was_set_stays_also_where_it_is_false_or_nothing(rendered_over):
    """A merge of sprig would take false, 0 and "" for absent."""
    kinds = {each["kind"] for each in rendered_over({}, networkPolicy={"enabled": False}, replicas=1) if each}

    assert "StatefulSet" in kinds
    assert not {"NetworkPolicy", "PodDisruptionBudget"} & kinds


def test_a_key_of_a_pods_spec_that_was_removed_by_null_stays_away(rendered_over):
    objects = rendered_over(
        VALUES, podSecurityContext={"runAsUser": None}, resources={"limits": None}, grafanaDashboards={"enabled": True}
    )
    (stateful_set,) = [each for each in objects if each and each["kind"] == "StatefulSet"]
    pod = stateful_set["spec"]["template"]["spec"]

    assert "runAsGroup" in pod["securityContext"]
    assert "runAsUser" not in pod["securityContext"]
    assert {"requests"} == pod["containers"][0]["resources"].keys()


def test_the_maps_whose_keys_are_the_users_are_those_that_the_schema_leaves_open():
    """templates/_names.tpl lists them."""

    named = (CHART / "templates" / "_names.tpl").read_text()
    assert '(list "labels" "podSecurityContext" "resources")' in named
    assert {"labels", "podSecurityContext", "resources"} == {path[-1] for path, named in maps() if not named}


@pytest.mark.parametrize("values", [{"enabled": True}, {"global": {"imageRegistry": "there"}}], ids=str)
def test_an_umbrella_chart_may_set_its_condition_and_its_globals(of_today, tmp_path, values):
    """`condition: cronhpa.enabled` is how umbrella charts switch a dependency on and off; Helm passes it on."""
    umbrella = tmp_path / "umbrella"
    shutil.copytree(CHART, umbrella / "charts" / "cronhpa")
    dependency = {"name": "cronhpa", "version": "*", "condition": "cronhpa.enabled"}
    chart = {"apiVersion": "v2", "name": "umbrella", "version": "1.0.0", "dependencies": [dependency]}
    (umbrella / "Chart.yaml").write_text(yaml.safe_dump(chart))
    (umbrella / "values.yaml").write_text(yaml.safe_dump({"cronhpa": values, "global": {"team": "shop"}}))

    assert of_today == rendered_chart(umbrella)
    assert [] == rendered_chart(umbrella, values={"cronhpa": {"enabled": False}})
