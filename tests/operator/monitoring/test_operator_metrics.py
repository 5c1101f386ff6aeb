"""cronhpa.operator.monitoring.operator_metrics: every declared family of the operator is exposed, and no other."""

from types import SimpleNamespace

from monitoring.test_endpoints_and_stop import Process, eventually, shop
from prometheus_client.parser import text_string_to_metric_families

from cronhpa.core.model.calendar import Calendar
from cronhpa.core.model.instant import SECOND
from cronhpa.operator.monitoring.families import FAMILIES, OPERATOR_FAMILIES, FamilyKind
from cronhpa.operator.monitoring.operator_metrics import calendar_families, source_families


async def test_a_running_operator_tells_all_declared_families_with_their_help(tmp_path):
    async with Process(shop(2, 2000), tmp_path) as process:
        await process.ready()
        await eventually(lambda: process.loop.metrics.reconciles and process.operator.learning.is_open)
        _, text = await process.get("/metrics")

    told = {family.name: family for family in text_string_to_metric_families(text)}
    ours = {family.name.removesuffix("_total"): family for family in FAMILIES}
    own = {family.name.removesuffix("_total") for family in OPERATOR_FAMILIES}
    assert own == {name for name in told if name in own}
    assert set(told) - set(ours) <= {name for name in told if name.startswith("process_")}
    for name, family in ours.items():
        if name in told:
            assert (family.help, str(family.kind)) == (told[name].documentation, told[name].type)


async def test_histograms_requests_and_the_store_count_what_happened(tmp_path):
    async with Process(shop(2, 2000), tmp_path) as process:
        await process.ready()
        await eventually(lambda: process.loop.metrics.reconciles and process.operator.learning.is_open)
        _, text = await process.get("/metrics")

    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    reconciliations = samples["cronhpa_reconciliations_total",]
    for family in (family for family in OPERATOR_FAMILIES if family.kind is FamilyKind.HISTOGRAM):
        assert reconciliations == samples[f"{family.name}_count",]
    assert samples["cronhpa_api_requests_total", "200", "PATCH"] >= 2  # the scale and its status
    assert samples["cronhpa_store_bytes",] > 4096
    assert 1 == samples["cronhpa_watch_up", "/api/v1/pods"]
    assert 1 == samples["cronhpa_leader",]


def test_requests_are_told_by_source_and_a_broken_file_as_one():
    requests, broken = source_families(SimpleNamespace(requests={"checkout": 3}, problem="line 2: a query is wrong"))

    assert [({"source": "checkout"}, 3)] == [(sample.labels, sample.value) for sample in requests.samples]
    assert [1] == [sample.value for sample in broken.samples]


def test_a_calendar_that_stays_as_it_was_is_down_and_tells_when_it_was_read():
    feeds = SimpleNamespace(
        calendars={
            "company": Calendar("company", ()),
            "stale": Calendar("stale", (), "the feed answers 503"),
            "new": Calendar("new"),
        },
        read_at={"company": 90 * SECOND, "stale": 30 * SECOND},
        problem="line 2: there is no such field",
    )
    up, read, broken = calendar_families(feeds)

    assert {"company": 1, "stale": 0, "new": 0} == {one.labels["calendar"]: one.value for one in up.samples}
    assert {"company": 90, "stale": 30} == {one.labels["calendar"]: one.value for one in read.samples}
    assert [1] == [sample.value for sample in broken.samples]
    assert [[], [], [0]] == [[one.value for one in family.samples] for family in calendar_families(None)]
