"""Whatever a module of cronhpa keeps between calls, found in its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import cronhpa

ROOT = Path(cronhpa.__file__).parent
# What a process that runs for months has of its own. The commands and the workers end.
PACKAGES = ("core", "api", "kube", "operator", "calendars", "sources", "history", "forecasting")
_CACHES = {"lru_cache", "cache", "cached_property", "WeakValueDictionary", "WeakKeyDictionary", "WeakSet"}
_CONTAINERS = {"dict", "list", "set", "defaultdict", "OrderedDict", "deque", "Counter"}


def kept() -> Iterator[str]:
    """`package.module:name` of each cache and of each container that begins empty, of a module or of an object."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            where = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for name in _kept_in(ast.parse(path.read_text()).body, ""):
                yield f"{where}:{name}"


def _kept_in(body: list[ast.stmt], within: str) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef():
                yield from _kept_in(node.body, f"{within}{node.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if any(_called(decorator) in _CACHES for decorator in node.decorator_list):
                    yield within + node.name
                if node.name == "__init__":
                    yield from (within + name for name in _attributes(node))
            case ast.Assign() | ast.AnnAssign() if node.value is not None and not within and _keeps(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _attributes(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _keeps(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.attr for target in targets if isinstance(target, ast.Attribute))


def _keeps(value: ast.expr) -> bool:
    """Whether a value is a cache, or a container that has nothing in it yet."""
    if isinstance(value, ast.Call):
        name = _called(value)
        return name in _CACHES or (
            name in _CONTAINERS and not any(isinstance(it, ast.GeneratorExp) for it in value.args)
        )
    return (isinstance(value, ast.Dict) and not value.keys) or (isinstance(value, ast.List) and not value.elts)


def _called(node: ast.expr) -> str:
    """`lru_cache` of `lru_cache`, `functools.lru_cache`, `lru_cache(maxsize=8)` and `lru_cache(8)(work)`."""
    while isinstance(node, ast.Call):
        node = node.func
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def named(name: str) -> Any:
    """The module's own, by the name that `kept` gives it."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"cronhpa.{module}"), attribute)
