"""
How much of cronhpa a reconciliation of one object passes: files, functions and changes of file, on the model API.

    make walk                    # the table of this tree
    make walk TREE=../before     # the table of another checkout, with this one's packages

Everything that runs in the operator meanwhile counts, its watches and timers too. A function counts once, however often
it is called; comprehensions and lambdas belong to their function, and what runs in a thread is not seen. A coroutine
that goes on counts as a call, and two calls after one another in different files as a change of file.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import inspect
import io
import json
import logging
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

OWN_TREE = Path(__file__).parents[2]
PERIOD = 15
# Files with fewer lines of code want a reason.
SMALL = 40
# Between the reconciliations of the namespace `prod`, so that each period of a walk holds one of them.
BETWEEN = 7
# Ten minutes: an object is decided in full twice, and all objects are listed again twice.
PERIODS = 40
# The model begins on a Friday at 07:00 UTC.
WINDOW = {"name": "day", "start": "0 6 * * *", "end": "0 18 * * *", "timeZone": "UTC"}
# (file, class): values that carry a reconciliation, or a part of one, without a field that is declared as a decision or
# as an observation.
CARRIERS = {
    ("decisions", "KeptDecision"),
    ("object_state", "WatchedInputs"),
    ("past_decision", "PastDecision"),
    ("object_state", "RecordedChange"),
    ("written_status", "WrittenStatus"),
}
# What somebody reads who adds a field of the status, to learn what else is to be done: the files that find out whether
# a status must be written, or a decision be made.
STATUS_FIELD = ("operator/writes/written_status", "core/standing")


@dataclass
class Walk:
    """The functions of ours that run from `begin` to `end`."""

    folders: tuple[str, ...]
    """Where our code is; each ends with a slash."""
    files: list[str] = field(default_factory=list)
    """In the order of the first visit."""
    functions: set[tuple[str, str]] = field(default_factory=set)
    """(file, qualified name)."""
    calls: int = 0
    changes: int = 0
    """Changes of file."""
    _file: str = ""
    _names: dict[CodeType, tuple[str, str] | None] = field(default_factory=dict)

    def begin(self) -> None:
        sys.setprofile(self._called)

    def end(self) -> None:
        sys.setprofile(None)

    @property
    def decides(self) -> bool:
        return ("core/decide.py", "decide") in self.functions

    def figures(self) -> dict[str, int]:
        counts = {"files": len(self.files), "functions": len(self.functions)}
        return {**counts, "calls": self.calls, "changes_of_file": self.changes}

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        name = self._name(frame.f_code) if event == "call" else None
        if name is None or self._is_of_the_model(frame):
            return
        file, _ = name
        if file not in self.files:
            self.files.append(file)
        self.functions.add(name)
        self.calls += 1
        self.changes += self._file not in {"", file}
        self._file = file

    def _is_of_the_model(self, frame: FrameType) -> bool:
        """Whether the model API called a function of ours, as to format an instant: no operator did."""
        caller = frame.f_back
        while caller is not None and self._name(caller.f_code) is not None:
            caller = caller.f_back
        return caller is not None and caller.f_code.co_filename.endswith("/model_api.py")

    def _name(self, code: CodeType) -> tuple[str, str] | None:
        if code not in self._names:
            self._names[code] = None
            for folder in self.folders:
                if code.co_filename.startswith(folder):
                    parts = [part for part in code.co_qualname.split(".") if not part.startswith("<")]
                    self._names[code] = (code.co_filename.removeprefix(folder), ".".join(parts) or "<module>")
        return self._names[code]


class Walks:
    """The walks of a tree: its own code, and the lives that its own tests lead."""

    def __init__(self, tree: Path) -> None:
        self._folders = (f"{tree}/cronhpa/", f"{tree}/models/")
        import lives
        import model_api
        import virtual_time

        self._lives: ModuleType = lives
        self._api: ModuleType = model_api
        self._live = virtual_time.live
        # Decisions that stand are made anew and compared by default.
        parameters = inspect.signature(lives.Life.__init__).parameters
        self._as_installed = {name: False for name in ("check_standing", "checks_fast_path") if name in parameters}

    def periods(self) -> tuple[list[Walk], Walk]:
        """Each of `PERIODS` periods in which nothing changes, and one after an annotation of the target changed."""

        async def scenario() -> tuple[list[Walk], Walk]:
            api = self._cluster()
            async with self._life(api):
                walks = []
                for number in range(PERIODS):
                    await self._until(number)
                    walks.append(await self._walk(PERIOD))
                api.edit("deployments", "prod", "shop", metadata={"annotations": {"team": "checkout"}})
                await asyncio.sleep(1)
                changed = await self._walk(PERIOD - 1)
                assert not api.scalings
            return walks, changed

        return self._live(scenario)

    def scaled(self) -> Walk:
        """Six periods after the load grew 2.5-fold: from 4 pods to 8, and to 10."""

        async def scenario() -> Walk:
            api = self._cluster()
            async with self._life(api):
                await self._until(10)
                api.load["prod", "shop"] = 5000
                walk = await self._walk(6 * PERIOD)
                counts = [(before, after) for _, before, after in self._lives.timeline(api)]
                assert counts == [(4, 8), (8, 10)], counts
            return walk

        return self._live(scenario)

    def minimum(self) -> Walk:
        """From the edit of a schedule's `minReplicas`, while its window is open, to the write of the scale."""

        async def scenario() -> Walk:
            api = self._cluster(schedules=[{**WINDOW, "minReplicas": 3}])
            async with self._life(api):
                await self._until(10)
                walk = self._until_scaled(api)
                walk.begin()
                api.edit("cronhpas", "prod", "shop", spec={"schedules": [{**WINDOW, "minReplicas": 6}]})
                await asyncio.sleep(2 * PERIOD)
                assert [(4, 6)] == [(before, after) for _, before, after in self._lives.timeline(api)]
            return walk

        return self._live(scenario)

    def usage(self) -> Walk:
        """From the LIST of the pod metrics that shows a higher usage to the write of the scale."""

        async def scenario() -> Walk:
            api = self._cluster()
            async with self._life(api):
                await self._until(10)
                walk = self._until_scaled(api)

                def latency(_method: str, path: str) -> float:
                    if path.startswith("/apis/metrics.k8s.io/"):
                        walk.begin()
                    return 0.001

                api.latency = latency
                api.load["prod", "shop"] = 3000
                await asyncio.sleep(PERIOD)
                assert [(4, 6)] == [(before, after) for _, before, after in self._lives.timeline(api)]
            return walk

        return self._live(scenario)

    def state(self) -> Any:
        """The state of an object."""

        async def scenario() -> Any:
            api = self._cluster()
            async with self._life(api) as life:
                await self._until(3)
                (state,) = life.inventory
                return state

        return self._live(scenario)

    def _cluster(self, **spec: Any) -> Any:
        """Four pods at the 50 % that they are meant to use, and an object."""
        api = self._api.ModelApi()
        self._lives.deployment(api, replicas=4)
        api.load["prod", "shop"] = 2000
        self._lives.cronhpa(api, **spec)
        return api

    def _life(self, api: Any) -> Any:
        return self._lives.Life(api, **self._as_installed)

    async def _until(self, period: int) -> None:
        await self._lives.until(BETWEEN + period * PERIOD)

    async def _walk(self, seconds: float) -> Walk:
        walk = Walk(self._folders)
        walk.begin()
        await asyncio.sleep(seconds)
        walk.end()
        return walk

    def _until_scaled(self, api: Any) -> Walk:
        """A walk that ends with the next write of a scale."""
        walk = Walk(self._folders)

        def on_write(_number: int, is_done: bool) -> bool:  # noqa: FBT001 - as the model calls it
            if is_done and api.writes[-1][1].endswith("/scale"):
                walk.end()
                api.latency = lambda _method, _path: 0.001
            return False

        api.on_write = on_write
        return walk


# --- the text ------------------------------------------------------------------------------------------------------


def code_lines(text: str) -> int:
    """The lines of a module without blank lines, comments and docstrings, those of fields included."""
    lines: set[int] = set()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def carriers(tree: Path) -> list[str]:
    """`CARRIERS`, and the classes with a field of a decision or an observation, or of such a class."""
    types: dict[str, set[str]] = {}
    named: set[str] = set()
    for path in sorted((tree / "cronhpa").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                annotations = [entry.annotation for entry in node.body if isinstance(entry, ast.AnnAssign)]
                names = {name.id for one in annotations for name in ast.walk(one) if isinstance(name, ast.Name)}
                types.setdefault(node.name, set()).update(names)
                named.update({node.name} if (path.stem, node.name) in CARRIERS else ())
    begin = {"Decision", "Observation"}
    found = set(begin)
    while more := {name for name, names in types.items() if names & found} - found:
        found |= more
    # A part of the object's state: its slots are counted by themselves.
    return sorted((found | named) - begin - {"LocalState"})


def slots(state: Any) -> dict[str, int]:
    """The slots of an object's state: those of its parts by their names, and those that it has beside them."""
    parts, own = {}, 0
    for name in type(state).__slots__:
        part = getattr(state, name, None)
        if type(part).__module__ == type(state).__module__:
            parts[name] = len(type(part).__struct_fields__)
        else:
            own += 1
    return {"itself": own, **parts}


def lines(tree: Path) -> dict[str, Any]:
    """Lines of code by package, the files with fewer than `SMALL` of them, and the lines behind a status field."""
    packages: Counter[str] = Counter()
    small: defaultdict[str, int] = defaultdict(int)
    files = [(path, path.relative_to(tree / "cronhpa").parts) for path in sorted((tree / "cronhpa").rglob("*.py"))]
    files += [(path, ("models",)) for path in sorted((tree / "models" / "cronhpa_models").rglob("*.py"))]
    for path, (first, *_) in files:
        package = first.removesuffix(".py")
        count = code_lines(path.read_text("utf-8"))
        packages[package] += count
        if 0 < count < SMALL:
            small[package] += 1
    read = {name: tree / "cronhpa" / f"{name}.py" for name in STATUS_FIELD}
    status_field = {name: path.read_text("utf-8").count("\n") for name, path in read.items() if path.exists()}
    return {"code_lines": dict(packages), "small_files": dict(small), "status_field": status_field}


# --- the table -----------------------------------------------------------------------------------------------------


def measured(tree: Path) -> dict[str, Any]:
    walks = Walks(tree)
    periods, changed = walks.periods()
    # The first periods belong to the start.
    standing = [walk for walk in periods[3:] if not walk.decides]
    quiet, _ = Counter(frozenset(walk.functions) for walk in standing).most_common(1)[0]
    ways = {
        "quiet": next(walk for walk in standing if walk.functions == quiet),
        "quiet_most": max(standing, key=lambda walk: len(walk.functions)),
        # Trees before `core/standing` decide nothing anew unless something changes.
        "full": next((walk for walk in periods[3:] if walk.decides), None),
        "full_after_change": changed if changed.decides else None,
        "scaled": walks.scaled(),
        "minimum": walks.minimum(),
        "usage": walks.usage(),
    }
    return {
        "walks": {name: None if walk is None else walk.figures() for name, walk in ways.items()},
        "files": {name: [] if walk is None else walk.files for name, walk in ways.items()},
        "functions": {"quiet": sorted(ways["quiet"].functions)},
        "carriers": carriers(tree),
        "slots": slots(walks.state()),
        **lines(tree),
    }


_NAMES = {
    "quiet": "a period in which the decision stands",
    "quiet_most": "the longest of such periods in ten minutes",
    "full": "a reconciliation in full that changes nothing",
    "full_after_change": "the same, after an annotation of the target changed",
    "scaled": "six periods with two scalings",
    "minimum": "a schedule's minReplicas, from its edit to the scale write",
    "usage": "a pod's usage, from the LIST to the scale write",
}


def table(figures: dict[str, Any]) -> Iterator[str]:
    yield f"{'walk of one object':60}{'files':>7}{'functions':>11}{'calls':>7}{'changes of file':>17}"
    for name, walk in figures["walks"].items():
        of = defaultdict(lambda: "-") if walk is None else walk
        counts = f"{of['files']:>7}{of['functions']:>11}{of['calls']:>7}{of['changes_of_file']:>17}"
        yield f"{_NAMES[name]:60}{counts}"
    carried, state, code = figures["carriers"], figures["slots"], figures["code_lines"]
    small, read = figures["small_files"], figures["status_field"]
    yield ""
    yield f"value types that carry a reconciliation, or a part of one: {len(carried)}: {', '.join(carried)}"
    yield f"slots of an object's state: {sum(state.values())}: {_counts(state)}"
    yield f"lines of code: {sum(code.values())}: {_counts(code)}"
    yield f"files with fewer than {SMALL} of them: {sum(small.values())}: {_counts(small)}"
    yield f"lines read before a status field is added: {sum(read.values())}: {_counts(read)}"
    for name in ("quiet", "minimum", "usage"):
        yield ""
        yield f"{_NAMES[name]}: {' -> '.join(file.removesuffix('.py') for file in figures['files'][name])}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tree", type=Path, default=OWN_TREE, help="the checkout that is measured; this one by default"
    )
    parser.add_argument("--json", action="store_true", help="figures, files and functions as JSON")
    asked = parser.parse_args(arguments)
    tree = asked.tree.resolve()
    if not (tree / "tests" / "operator" / "lives.py").exists():
        parser.error(f"{tree} has no tests/operator/lives.py: --tree takes a checkout of cronhpa")
    if tree != OWN_TREE:
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(tree), str(tree / "models"), str(tree / "tests" / "operator")]
    logging.getLogger().addHandler(logging.NullHandler())  # what the lives log is no part of the table
    figures = measured(tree)
    print(json.dumps(figures, indent=1) if asked.json else "\n".join(table(figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
