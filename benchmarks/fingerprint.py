"""
What a figure depends on, as a short text: the code that computes it and the numbers it is computed from.

Code counts as the interpreter sees it: comments, docstrings and layout change nothing.
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT = Path(__file__).parents[1]
_PACKAGES = ("cronhpa/core", "cronhpa/forecasting", "cronhpa/history", "cronhpa/simulation", "models/cronhpa_models")
_SCRIPTS = ("closed_loop", "decided", "policy_floors", "recorded", "rivals")


def of_code() -> str:
    """Of the shipped path and of the scripts that run it."""
    files = [path for package in _PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]
    files += [PROJECT / "benchmarks" / f"{name}.py" for name in _SCRIPTS]
    return digest(f"{path.relative_to(PROJECT)} {meaning(path.read_text())}".encode() for path in files)


def meaning(source: str) -> str:
    """The syntax tree of a module without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return ast.dump(tree)


def digest(parts: Iterable[bytes]) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.hexdigest()[:16]
