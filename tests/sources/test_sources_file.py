"""cronhpa.sources.sources_file: the file while the operator runs."""

import pytest

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ExternalMetric, MetricTarget
from cronhpa.sources.metric_sources import MetricSources
from cronhpa.sources.sources_file import SourcesFile
from sources.answering_sources import NOON, measured

GOOD = "sources: {%s: {prometheus: {url: 'http://127.0.0.1:9', query: up}}}"
BROKEN = "sources: {other: {prometheus: {url: 'http://127.0.0.1:9', query: 'up{a=$b}'}}}"


@pytest.fixture
async def sources():
    made = MetricSources(lambda: NOON)
    yield made
    await made.close()


async def is_source(sources, name):
    return await sources.value(ExternalMetric(name, MetricTarget("Value", value=1)), measured()) is not None


async def test_a_change_is_in_force_at_the_next_look(sources, tmp_path):
    path = tmp_path / "sources.yaml"
    path.write_text(GOOD % "one")
    file = SourcesFile(path, sources)
    await file.look()
    assert await is_source(sources, "one")

    path.write_text(GOOD % "two")
    await file.look()

    assert [False, True] == [await is_source(sources, name) for name in ("one", "two")]


@pytest.mark.parametrize("broken", [BROKEN, "sources: [", "\xff", None], ids=["query", "yaml", "empty", "gone"])
async def test_a_broken_file_leaves_the_former_sources_and_is_told_once(sources, tmp_path, caplog, broken):
    path = tmp_path / "sources.yaml"
    path.write_text(GOOD % "one")
    file = SourcesFile(path, sources)
    await file.look()

    if broken is None:
        path.unlink()
    else:
        path.write_bytes(broken.encode("latin-1"))
    for _ in range(3):
        await file.look()
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert await is_source(sources, "one")
    assert sources.problem
    assert 1 == len(told)
    assert "the file of sources cannot be used, the former ones stay in force: " in told[0]
    assert "sources.yaml" in told[0]

    path.write_text(GOOD % "two")
    await file.look()
    assert "" == sources.problem
    assert await is_source(sources, "two")


async def test_a_file_that_is_broken_from_the_start_is_told_with_what_the_metrics_api_says(sources, tmp_path):
    path = tmp_path / "sources.yaml"
    path.write_text(BROKEN)
    await SourcesFile(path, sources).look()

    reason = sources.explained(Absent("NotFound", "there is no such metric"))
    told = "there is no such metric; and the operator's file of sources cannot be used: its log says why"
    assert Absent("NotFound", told) == reason


async def test_rotated_certificates_are_noticed(sources, tmp_path):
    path, authority = tmp_path / "sources.yaml", tmp_path / "ca.crt"
    path.write_text(f"sources: {{one: {{prometheus: {{url: 'https://127.0.0.1:9', query: up, caFile: {authority}}}}}}}")
    file = SourcesFile(path, sources)
    for content in (None, "one", "two", "two"):
        if content is not None:
            authority.write_text(content)
        await file.look()
        await sources.value(ExternalMetric("one", MetricTarget("Value", value=1)), measured())

    # Three sources were made, each of which sent a request; the fourth look found nothing new.
    assert {"one": 3} == sources.requests
