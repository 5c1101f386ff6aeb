"""cronhpa.api.resource.behavior, cronhpa.api.resource.fields, cronhpa.api.resource.schedules: the models of specs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cronhpa.api.parse import parse_spec
from cronhpa.api.resource.cel import QUANTITY
from cronhpa.api.resource.status import CronHPAStatus
from cronhpa.api.schema import CronHPASpec
from cronhpa.core.model.instant import HOUR, parse_instant
from cronhpa.core.model.quantity import parse_milli
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules import cron
from cronhpa.core.schedules.conflicts import conflicts

EXAMPLES = sorted((Path(__file__).parents[2] / "crds" / "examples").glob("*.yaml"))
SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}


def spec(**fields):
    return CronHPASpec.model_validate({"scaleTargetRef": SHOP, "maxReplicas": 10, **fields}, extra="forbid")


def average_value(quantity):
    target = {"type": "AverageValue", "averageValue": quantity}
    return spec(metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": target}}])


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_read_without_a_field_left_over(path):
    document = yaml.safe_load(path.read_text())

    model = CronHPASpec.model_validate(document["spec"], extra="forbid")

    assert document["spec"]["scaleTargetRef"]["name"] == model.scale_target_ref.name
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_schedule_of_an_example_can_be_read(path):
    parsed = parse_spec(yaml.safe_load(path.read_text())["spec"], namespace="prod", defaults=ControllerOptions())

    assert [] == [schedule.problem for schedule in parsed.schedules if schedule.problem]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_example_contradicts_itself(path):
    parsed = parse_spec(yaml.safe_load(path.read_text())["spec"], namespace="prod", defaults=ControllerOptions())
    begin = parse_instant("2026-11-23T00:00:00Z")

    assert [] == [
        str(conflict) for hours in range(0, 24 * 7, 6) for conflict in conflicts(parsed, begin + hours * HOUR)
    ]


def test_a_behavior_is_filled_in_field_by_field_as_upstream():
    """autoscaling/v2: a given list of policies replaces the default list whole; the window down stays a flag's."""
    behavior = spec(behavior={"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}).behavior

    assert {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        },
        "scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
    } == behavior.model_dump(by_alias=True, exclude_none=True)


def test_an_absent_behavior_stays_absent():
    """The upstream's limits without a behavior are not those of the default behavior."""
    assert spec().behavior is None


def test_what_is_left_open_takes_its_default():
    model = spec(schedules=[{"name": "day", "start": "@daily", "durationMinutes": 5, "replicas": 1}], forecast={})

    assert (1, "Active", "UTC") == (model.min_replicas, model.mode, model.time_zone)
    assert (0, False) == (model.schedules[0].priority, model.schedules[0].suspend)
    assert ("Active", 5) == (model.forecast.mode, model.forecast.budget_percent)


def test_an_unknown_field_is_ignored_in_objects_and_named_in_files():
    """An operator that was rolled back goes on scaling under a newer CRD; a misspelled field in a file is an error."""
    document = {"scaleTargetRef": SHOP, "maxReplicas": 10, "shedules": []}

    assert 10 == CronHPASpec.model_validate(document).max_replicas
    with pytest.raises(ValidationError, match="shedules"):
        CronHPASpec.model_validate(document, extra="forbid")


@pytest.mark.parametrize("quantity", [1, 250, "1", "250m", "0.5", "1e3", "1E-3", "512Mi", " 2k ", "+7", ".5", "5."])
def test_a_quantity_is_read_as_the_core_reads_it(quantity):
    quantity_read = average_value(quantity).metrics[0].resource.target.average_value

    assert quantity == quantity_read
    assert parse_milli(str(quantity_read).strip()) > 0


@pytest.mark.parametrize("quantity", ["", " ", "1e999999", "1e100", "1K", "1_000", "NaN", "0x10", "1 Gi", "9" * 41])
def test_a_text_that_is_no_quantity_or_would_be_a_huge_number_is_refused(quantity):
    with pytest.raises(ValidationError, match="averageValue"):
        average_value(quantity)


@given(st.text("0123456789.+-eEinumkKMGTP ", max_size=12))
def test_the_quantity_pattern_lets_no_long_exponent_through(text):
    exponents = re.findall(r"[eE][+-]?([0-9]+)", text) if re.search(QUANTITY, text) else []

    assert all(len(digits) <= 2 for digits in exponents)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("syncPeriodSeconds", 0),
        ("syncPeriodSeconds", 3601),
        ("minReplicas", -1),
        ("maxReplicas", 2**31),
        ("metrics", [{"type": "Resource"}] * 31),
        ("mode", "Off"),
        ("behavior", {"scaleUp": {"policies": []}}),
        ("behavior", {"scaleUp": {"selectPolicy": "max"}}),
        ("schedules", [{"name": str(number), "start": "@daily", "replicas": 1} for number in range(51)]),
        ("schedules", [{"name": "x" * 64, "start": "@daily", "replicas": 1}]),
        ("schedules", [{"name": "a", "start": "0" * 101, "replicas": 1}]),
        ("override", {"replicas": 1, "reason": "x", "until": "2026-11-23T18:00:00"}),
        ("override", {"replicas": 1, "until": "2026-11-23T18:00:00Z"}),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_its_field(field, value):
    with pytest.raises(ValidationError) as caught:
        spec(**{field: value})

    assert {field} == {error["loc"][0] for error in caught.value.errors()}


def test_a_status_of_only_a_memory_is_enough():
    memory = {"version": 1, "recommendations": [{"replicas": 3, "time": "2026-11-23T18:00:00.000000000Z"}]}

    assert memory == CronHPAStatus.model_validate({"memory": memory}).memory


# --- cron texts: the CRD's patterns beside the reader that decides --------------------------------------------------


def is_admitted(text):
    """What the CRD's rules say of five fields."""
    fields = text.lower().split()
    return len(fields) == 5 and all(
        re.search(field_spec.pattern, field) for field, field_spec in zip(fields, cron.FIELDS, strict=True)
    )


def cron_field(low, high, *others):
    value = st.integers(low, high).map(str)
    drawn = st.one_of(
        st.just("*"),
        value,
        st.tuples(value, value).map(lambda pair: "-".join(sorted(pair, key=int))),
        st.integers(2, 5).map("*/{}".format),
        *(st.just(other) for other in others),
    )
    return st.lists(drawn, min_size=1, max_size=3).map(",".join)


NTH_WEEKDAYS = st.lists(st.sampled_from(["fri#2", "L5", "0#1"]), min_size=1, max_size=3).map(",".join)
CRON_TEXTS = st.tuples(
    cron_field(0, 59), cron_field(0, 23), cron_field(1, 31, "L"), cron_field(1, 12, "jan", "DEC"),
    st.one_of(cron_field(0, 7, "mon", "Sat"), NTH_WEEKDAYS),
).map(" ".join)  # fmt: skip


@given(CRON_TEXTS)
def test_every_cron_text_of_the_grammar_is_admitted_and_can_be_read(text):
    problem = cron.problem(text)

    assert is_admitted(text)
    assert problem is None or "a date that never comes" in problem


@pytest.mark.parametrize(
    "text",
    ["0 22-4 * * *", "0 8 * * fri-mon", "00 08 01 01 07", "0 8 28-L * *", "*/15 9-17/2 * * 1-5", "0 0 1,15 * mon",
     "0 8 * JAN-mar Sun", " 0  8 * *\t* "],
)  # fmt: skip
def test_an_unusual_cron_text_that_can_be_read_is_admitted(text):
    assert is_admitted(text)
    assert cron.problem(text) is None


@pytest.mark.parametrize(
    "text",
    ["0 8 * * * *", "60 8 * * *", "0 24 * * *", "0 8 0 * *", "0 8 * 13 *", "0 8 * * 8", "0 8 ? * *", "0 8 15W * *",
     "0 8 LW * *", "0 8 * * mon-fry", "*/0 * * * *", "*/70 * * * *", "H 8 * * *", "0 8 * *"],
)  # fmt: skip
def test_a_cron_text_that_means_nothing_is_refused_at_the_door(text):
    assert not is_admitted(text)
