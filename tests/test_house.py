"""The house rules that can be checked: which modules a test is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
TESTS = PROJECT / "tests"
SOURCES = {"cronhpa": PROJECT / "cronhpa", "cronhpa_models": PROJECT / "models" / "cronhpa_models"}


def modules() -> Iterator[str]:
    """The dotted name of each module that has more than a docstring."""
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            if len(ast.parse(path.read_text("utf-8")).body) <= 1:
                continue
            below = path.relative_to(folder).with_suffix("")
            parts = below.parts[:-1] if below.name == "__init__" else below.parts
            yield ".".join((package, *parts))


def named(path: Path) -> set[str]:
    """The modules that the first paragraph of a test file begins with: `cronhpa.x.y, cronhpa.x.z: ...`."""
    first, *_ = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")
    return {name.strip() for name in first.partition(":")[0].split(",")} if first.startswith("cronhpa") else set()


def test_a_test_names_modules_that_exist():
    names = set().union(*(named(path) for path in TESTS.rglob("test_*.py")))

    assert set() == names - set(modules())


def test_no_two_test_files_share_a_name():
    names = [path.name for path in TESTS.rglob("test_*.py")]

    assert sorted(set(names)) == sorted(names)
