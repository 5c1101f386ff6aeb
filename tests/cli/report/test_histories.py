"""cronhpa.cli.report.histories: where the files of a report are, whatever an object is called."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.cli.report.histories import as_file_name


@pytest.mark.parametrize("name", ["shop", "shop.cpu", "http_requests-total", "team-a"])
def test_a_name_of_kubernetes_stays_as_it_is(name):
    assert name == as_file_name(name)


@given(st.one_of(st.text(), st.sampled_from(["..", "/etc/passwd", "../../x", "a/../../b", ".", "", "~", "c:\\x"])))
def test_no_name_leads_out_of_its_folder(name):
    folder = Path("/reports")

    assert folder == (folder / as_file_name(name)).parent
    assert as_file_name(name) not in {"", ".", ".."}
