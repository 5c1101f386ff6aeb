"""The house rules that can be checked: the modules that a test is for, and where a field is documented."""

from __future__ import annotations

import ast
import re
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


def fields_in_class_docstrings() -> Iterator[str]:
    """The fields that the docstring of their class explains, as `cronhpa/x.py: Class.field`."""
    # "name: text", or "name, name: text", at the begin of a sentence.
    explained = re.compile(r"(?:^|[.)]\s|\n)\s*([a-z_][a-z_0-9]*(?:, [a-z_][a-z_0-9]*)*):\s")
    for folder in SOURCES.values():
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    fields = {
                        item.target.id
                        for item in node.body
                        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                    }
                    names = (
                        name for match in explained.findall(ast.get_docstring(node) or "") for name in match.split(", ")
                    )
                    yield from (f"{path.relative_to(PROJECT)}: {node.name}.{name}" for name in names if name in fields)


def test_a_field_is_documented_beside_the_field():
    assert [] == list(fields_in_class_docstrings())


def test_the_store_alone_knows_that_an_address_is_that_of_a_postgresql():
    named = {
        path.relative_to(PROJECT).as_posix()
        for path in SOURCES["cronhpa"].rglob("*.py")
        if "PostgresAddress" in path.read_text("utf-8")
    }

    assert {"address.py", "copy.py", "postgres.py", "store.py"} >= {path.rpartition("/")[2] for path in named}
    assert all(path.startswith("cronhpa/history/") for path in named)
