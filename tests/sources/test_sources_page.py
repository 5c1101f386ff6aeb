"""docs/sources.md and its reference: their fields, words and figures are those of the code."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from cronhpa.sources.parse import parse_sources
from cronhpa.sources.pods import sample_size
from cronhpa.sources.registry import KINDS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "sources.md").read_text()
REFERENCE = (DOCS / "reference" / "sources.md").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_the_fields_of_each_kind_are_those_of_a_section_of_the_reference(kind):
    sections = re.split(r"^## .*$", REFERENCE, flags=re.MULTILINE)[1:]
    lists = (section.partition("\n\n")[2].partition("\n\n")[0] for section in sections)
    rows = [re.findall(r"^- (`\w+`(?:, `\w+`)*)", text, re.MULTILINE) for text in lists]

    fields = {field.alias for field in KINDS[kind].model_fields.values()}
    told = [set(re.findall(r"\w+", " ".join(cells))) for cells in rows]
    nearest = min(told, key=lambda of_section: len(of_section ^ fields))
    assert nearest == fields, f"no list of fields behind a heading has exactly those of {kind}: the nearest differs"


def test_the_layers_keep_each_kind_behind_the_registry():
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (kinds,) = [one for one in contracts if one["name"] == "Only the registry knows the kinds of sources"]

    modules = {kind.__module__ for kind in KINDS.values()}
    assert modules == set(kinds["forbidden_modules"]), f"pyproject.toml, {kinds['name']}: name these modules"


def test_the_sizes_of_samples_are_those_of_the_formula():
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", REFERENCE, re.MULTILINE)
    numbers = [[int(cell.replace(",", "")) for cell in row] for row in rows]

    assert 4 == len(numbers)
    assert [[row[0], *(sample_size(row[0], variation) for variation in (0.1, 0.3, 1.0))] for row in numbers] == numbers


def test_the_example_is_a_file_of_sources():
    example = re.search(r"```yaml\n(sources:.*?)```", PAGE, re.DOTALL)[1]

    assert {"requests", "inflight", "players"} == set(parse_sources(example, "docs/sources.md"))
    assert yaml.safe_load(example)
