"""One name, one class: a reader who has met a word once knows it everywhere."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("cronhpa", "models", "benchmarks")

# What still has to be renamed, by name, with the reason why it has not been. An entry that is no longer doubled fails.
EXCEPTIONS: dict[str, str] = {}

# `core/model/decision.Decision`: a file below cronhpa, and a name in it; a name alone is of the file before it.
CODE = re.compile(r"`([a-z_]+(?:/[a-z_]+)+)(?:\.([A-Za-z_]+))?`")
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text()


def public_classes() -> dict[str, list[str]]:
    """The files of each public class of a module, by its name."""
    files = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    files[node.name].append(str(path.relative_to(ROOT)))
    return files


def test_no_two_public_classes_share_a_name():
    doubled = {name: files for name, files in public_classes().items() if len(files) > 1}

    assert {} == {name: files for name, files in doubled.items() if name not in EXCEPTIONS}


def test_each_exception_is_still_needed():
    doubled = {name for name, files in public_classes().items() if len(files) > 1}

    assert set() == EXCEPTIONS.keys() - doubled


@pytest.mark.parametrize(("module", "name"), sorted(set(CODE.findall(GLOSSARY))))
def test_the_glossary_names_what_is_there(module, name):
    path = ROOT / "cronhpa" / f"{module}.py"

    assert path.is_file()
    assert not name or name in {getattr(node, "name", None) for node in ast.walk(ast.parse(path.read_text()))}
