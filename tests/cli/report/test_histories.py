"""cronhpa.cli.report.histories: where the files of a report are, whatever an object is called."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.cli.report.histories import as_file_name, replicas_query
from cronhpa.history.imports.prometheus import default_queries


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
