"""The house rules that can be checked: which test is for a module, and how long a file may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
TESTS = PROJECT / "tests"
SOURCES = {"cronhpa": PROJECT / "cronhpa", "cronhpa_models": PROJECT / "models" / "cronhpa_models"}
LINES_MAX = 400

# Modules without a test of their own: to be emptied, not to be added to.
WITHOUT_A_TEST = {
    "cronhpa.core.scheduled.holiday_codes": "a table; tests/core/scheduled/holiday_codes.py makes it anew",
}

_CASES = "one subject, many cases"
LONG = {
    "cronhpa/history/postgres.py": "all that is PostgreSQL's own",
    "cronhpa/operator/election.py": "one protocol: its record, its fence and who takes it",
    "tests/api/test_render.py": _CASES,
    "tests/core/reactive/test_replicas.py": _CASES,
    "tests/core/situations.py": "strategies for every field of a spec, an observation and a memory",
    "tests/core/test_behavior.py": _CASES,
    "tests/core/test_decide.py": _CASES,
    "tests/deploy/test_chart.py": _CASES,
    "tests/operator/test_election.py": _CASES,
    "tests/operator/test_windows_lived.py": _CASES,
    "tests/testbed/control_plane.py": "one control plane: processes that start in an order and share their files",
    "tests/testbed/differential.py": "one experiment: two controllers under the same events, compared",
    "tests/testbed/plant.py": "one plant: pods, their load, and what the metrics API says of them",
}


def modules() -> Iterator[tuple[str, Path]]:
    """(dotted name, where its test would be) of each module that has more than a docstring."""
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            if len(ast.parse(path.read_text("utf-8")).body) <= 1:
                continue
            below = path.relative_to(folder).with_suffix("")
            parts = below.parts[:-1] if below.name == "__init__" else below.parts
            tests = TESTS / "models" if package == "cronhpa_models" else TESTS.joinpath(*parts[:-1])
            yield ".".join((package, *parts)), tests / f"test_{parts[-1] if parts else package}.py"


def named(path: Path) -> set[str]:
    """The modules that the first paragraph of a test file begins with: `cronhpa.x.y, cronhpa.x.z: ...`."""
    first, *_ = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")
    return {name.strip() for name in first.partition(":")[0].split(",")} if first.startswith("cronhpa") else set()


def test_each_module_has_a_test_file_of_its_name_or_one_that_begins_with_its_name():
    names = set().union(*(named(path) for path in TESTS.rglob("test_*.py")))

    assert sorted(WITHOUT_A_TEST) == [name for name, test in modules() if not (name in names or test.exists())]


def test_a_test_names_modules_that_exist():
    names = set().union(*(named(path) for path in TESTS.rglob("test_*.py")))

    assert set() == names - {name for name, _ in modules()}


def test_files_are_short_or_named_with_a_reason():
    folders = (PROJECT / "cronhpa", PROJECT / "models", PROJECT / "benchmarks", TESTS)
    lines = {
        path.relative_to(PROJECT).as_posix(): len(path.read_text("utf-8").splitlines())
        for folder in folders
        for path in folder.rglob("*.py")
    }

    assert sorted(LONG) == sorted(name for name, count in lines.items() if count > LINES_MAX)


def test_no_two_test_files_share_a_name():
    names = [path.name for path in TESTS.rglob("test_*.py")]

    assert sorted(set(names)) == sorted(names)
