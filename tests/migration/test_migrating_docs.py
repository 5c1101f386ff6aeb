"""docs/reference/conversion.md names each kind that is read and each scaler that an exporter serves."""

from pathlib import Path

import pytest

from cronhpa.migration.convert import DIALECTS
from cronhpa.migration.documents.exporters import EXPORTERS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "conversion.md").read_text("utf-8")
KINDS = sorted({kind for group, kind in DIALECTS if group not in {"aws", "gcp"}})


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_row(kind):
    assert any(kind in line.split("|")[2] for line in PAGE.splitlines() if line.count("|") == 5)


@pytest.mark.parametrize("scaler", EXPORTERS)
def test_each_scaler_has_a_row_with_its_exporter(scaler):
    rows = [line.split("|") for line in PAGE.splitlines() if line.count("|") == 4]

    (row,) = (row for row in rows if scaler in row[1].replace(",", " ").split())
    assert f"[{EXPORTERS[scaler].name}]({EXPORTERS[scaler].link})" in row[2]
