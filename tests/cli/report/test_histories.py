"""cronhpa.cli.report.histories: where the files of a report are, whatever an object is called."""

import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.cli.report.histories import Histories, as_file_name, replicas_query
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.history.imports.prometheus import Prometheus, default_queries
from cronhpa.reporting.objects import autoscalers_of
from forecasting.answering import Answering
from reporting.made_targets import MONDAY, hpa

END = MONDAY + 7 * DAY


@pytest.mark.parametrize("name", ["shop", "shop.cpu", "http_requests-total", "team-a"])
def test_a_name_of_kubernetes_stays_as_it_is(name):
    assert name == as_file_name(name)


@given(st.one_of(st.text(), st.sampled_from(["..", "/etc/passwd", "../../x", "a/../../b", ".", "", "~", "c:\\x"])))
def test_no_name_leads_out_of_its_folder(name):
    folder = Path("/reports")

    assert folder == (folder / as_file_name(name)).parent
    assert as_file_name(name) not in {"", ".", ".."}


def test_a_matcher_stands_in_each_query():
    """A Prometheus with several clusters would add up workloads of one name."""
    matcher = 'cluster="prod"'

    queries = [*default_queries(matcher).values(), replicas_query("Deployment", matcher)]

    assert [1, 1, 1] == [query.count(f", {matcher}}}") for query in queries]
    assert (
        'max(kube_deployment_status_replicas_available{namespace="$namespace", deployment="$target"})'
        == replicas_query("Deployment")
    )


def test_a_kind_that_nobody_counts_has_no_query():
    assert replicas_query("Rollout") is None


async def read(server, folder=None, matcher="", end=END):
    """The history of a week, and why several clusters would be added up."""
    (autoscaler,), _ = autoscalers_of([hpa()], MONDAY)
    async with Prometheus(server.url, matcher=matcher) as prometheus:
        histories = Histories(prometheus, folder, end - 7 * DAY, end, matcher)
        return await histories.of(autoscaler, "cpu"), await histories.several_clusters()


async def test_files_of_any_kind_are_read_in_place_of_a_server(tmp_path):
    """As Parquet, by a metric's name, and as CSV, by the object's alone."""
    (autoscaler,), _ = autoscalers_of([hpa()], MONDAY)
    (tmp_path / "prod").mkdir()
    at = [f"2026-03-02T00:0{minute}:00Z" for minute in range(3)]
    table = pd.DataFrame({"timestamp": pd.to_datetime(at), "value": [1.0, 2.0, 3.0]})
    table.to_parquet(tmp_path / "prod/shop.cpu.parquet")
    (tmp_path / "prod/shop.csv").write_text("timestamp,value\n" + "\n".join(f"{one},7" for one in at))

    histories = Histories(None, tmp_path, MONDAY, END)

    assert [1.0, 2.0, 3.0] == [value for _, value in (await histories.of(autoscaler, "cpu")).load]
    assert [7.0] * 3 == [value for _, value in (await histories.of(autoscaler, "rps")).load]


async def test_a_whole_history_has_no_remark():
    async with Answering() as server:
        history, clusters = await read(server)

    assert ((), "", "") == (history.remarks, history.problem, clusters)
    assert 7 * DAY // MINUTE == len(history.load)


async def test_a_load_that_begins_late_and_ends_early_says_from_when_to_when_it_is():
    """As that of a target that was renamed."""
    begin, end = (MONDAY + 2 * DAY) // SECOND, (END - 2 * HOUR) // SECOND
    async with Answering(lambda at: "1.5" if begin <= at < end else None) as server:
        history, _ = await read(server)

    begins, ends = history.remarks
    assert begins.startswith("its load begins at 2026-03-04T00:00:00Z: its target was made or renamed then")
    assert ends.startswith("its load ends at 2026-03-08T21:59:00Z: its target was removed or renamed")


async def test_a_load_that_a_folder_keeps_from_an_earlier_report_says_how_to_read_the_newest(tmp_path):
    """Found: it said that the target was removed or renamed, though nobody had asked the server."""
    async with Answering() as server:
        await read(server, tmp_path)
        history, _ = await read(server, tmp_path, end=END + 7 * DAY)

    file = tmp_path / "prod/shop.cpu.csv.gz"
    (told,) = history.remarks
    assert told.startswith(f"its load is that of {file}, from 2026-03-02T00:00:00Z to 2026-03-08T23:59:00Z: remove")


def of_one_file_name():
    """An HPA and a ScaledObject of one name with two targets, and an HPA called as the file of their load."""
    cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    scaled_object = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "shop", "namespace": "prod"},
        "spec": {"scaleTargetRef": {"name": "worker"}, "triggers": [cpu]},
    }
    autoscalers, _ = autoscalers_of([hpa(), scaled_object, hpa("shop.cpu")], MONDAY)
    assert ["shop", "shop", "shop.cpu"] == [autoscaler.name for autoscaler in autoscalers]
    return autoscalers


async def loads(autoscalers, folder, prometheus=None):
    """The first load and the first replicas of each target."""
    histories = Histories(prometheus, folder, END - DAY, END)
    found = [(autoscaler, await histories.of(autoscaler, "cpu")) for autoscaler in autoscalers]
    return {one.spec.target.name: (history.load[0][1], history.replicas[0][1]) for one, history in found}


async def test_autoscalers_of_one_name_have_a_load_each(tmp_path):
    """Found: they shared one file, and each was judged by the load of the first."""
    each = {"shop": (1.0, 1.0), "worker": (50.0, 50.0), "shop.cpu": (7.0, 7.0)}
    autoscalers = of_one_file_name()

    def value(_at):
        query = server.asked[-1][0]
        if "worker" in query:
            return "50"
        return "7" if re.search(r"shop\W+cpu", query) else "1"

    async with Answering(value) as server, Prometheus(server.url) as prometheus:
        assert each == await loads(autoscalers, tmp_path, prometheus)
    assert each == await loads(autoscalers, tmp_path)
    assert each == await loads(autoscalers[::-1], tmp_path)


async def test_a_file_of_a_name_is_the_load_of_one_target(tmp_path):
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod/shop.cpu.csv").write_text("timestamp,value\n2026-03-02T00:00:00Z,3\n")
    first, second, third = of_one_file_name()
    histories = Histories(None, tmp_path, MONDAY, END)

    assert [3.0] == [value for _, value in (await histories.of(first, "cpu")).load]
    of_others = [await histories.of(other, "cpu") for other in (second, third)]
    assert [(), ()] == [history.load for history in of_others]
    assert "prod/shop.cpu is the load of another target" in of_others[0].problem


async def test_a_folder_that_cannot_be_looked_into_leaves_out_its_target_alone():
    """Found: a traceback. A name of 300 characters stands for a folder without rights, which root has."""
    (autoscaler,), _ = autoscalers_of([hpa()], MONDAY)

    history = await Histories(None, Path("x" * 300), END - 7 * DAY, END).of(autoscaler, "cpu")

    assert "File name too long" in history.problem


async def test_values_that_are_no_load_are_counted_and_left_out():
    """A counter that was reset has a negative difference where a query takes one."""
    async with Answering(lambda at: "-3" if at * SECOND < MONDAY + HOUR else "1.5") as server:
        history, _ = await read(server)

    assert "60 values of cpu are negative or no numbers, and were left out" in history.remarks
    assert all(value == 1.5 for _, value in history.load)


async def test_an_answer_in_part_is_named_and_not_kept(tmp_path):
    warning = "fetch series from store-1: deadline exceeded"
    async with Answering(warnings=[warning]) as server:
        history, _ = await read(server, tmp_path)

    assert f"the server answered in part: {warning}" in history.remarks
    assert [] == [*tmp_path.rglob("*.csv.gz")]


@pytest.mark.parametrize(("clusters", "said"), [(None, ""), (1, ""), (2, "it has 2 clusters by the label cluster")])
async def test_two_clusters_in_one_server_are_not_added_up(clusters, said):
    async with Answering(clusters=clusters) as server:
        _, told = await read(server)

    assert told.startswith(said)
    assert bool(said) == ("""--matcher 'cluster="prod"'""" in told)


async def test_the_matcher_chooses_among_clusters():
    async with Answering(clusters=1) as server:
        await read(server, matcher='cluster="prod"')

    assert 'count(count by (cluster) (up{cluster!="", cluster="prod"}))' in [query for query, *_ in server.asked]


async def test_a_series_that_the_server_does_not_have_is_named():
    async with Answering(lambda _at: None) as server:
        history, _ = await read(server)

    assert ((), "nothing is known of the load of cpu") == (history.load, history.problem)
