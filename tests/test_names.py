"""One name, one class: a reader who has met a word once knows it everywhere."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("cronhpa", "models", "benchmarks")

# What still has to be renamed, by name, with the reason why it has not been. An entry that is no longer doubled fails.
EXCEPTIONS = {
    "Backtest": "the command's plan and the score of a forecasting method: the methods are being rewritten",
    "Fitted": "one for each forecasting method, behind one protocol: the methods are being rewritten",
}


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
