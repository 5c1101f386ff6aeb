"""
What each module's own tests run of it: `make coverage` prints it, module by module (ROOM=core: of one room).

A module's own tests are the files whose docstring names the module, and the file of its own name: `test_decide.py` of
`decide.py`. A line that a test of another module runs along the way does not count. What runs outside of any test's
function counts for every module: imports, fixtures, a task beside a test. What runs in another process counts for none.

ROOMS has the least that each module of a room must have. `make coverage` fails for a module below that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from coverage import Coverage

from test_house import PROJECT, SOURCES, TESTS, modules, named

# Percent of a module's statements. Rooms that are not named are printed and held to nothing.
ROOMS = {"ports": 85}
EXCEPTIONS: dict[str, str] = {}
_PLAIN = "not cluster and not long and not faults"


def path_of(module: str) -> Path:
    package, *names = module.split(".")
    path = SOURCES[package].joinpath(*names)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def own_tests() -> dict[str, set[Path]]:
    """The test files of each module; none for a module that has none."""
    files = sorted(TESTS.rglob("test_*.py"))
    by_name = {path.stem.removeprefix("test_"): path for path in files}
    found: dict[str, set[Path]] = {module: set() for module in modules()}
    for module, paths in found.items():
        if (path := by_name.get(module.rpartition(".")[2])) is not None:
            paths.add(path)
    for path in files:
        for module in named(path) & set(found):
            found[module].add(path)
    return found


def room_of(module: str) -> str:
    package, *names = module.split(".")
    return "models" if package == "cronhpa_models" else names[0] if len(names) > 1 else package


def measured(tests: set[Path], data: Path) -> int:
    """Runs test files with the name of the test beside each line that it runs. Returns pytest's exit code."""
    settings = data.with_suffix(".toml")
    packages = ", ".join(f'"{folder}"' for folder in SOURCES.values())
    settings.write_text(f"""
[tool.coverage.run]
source = [{packages}]
data_file = "{data}"
dynamic_context = "test_function"
disable_warnings = ["no-data-collected", "module-not-measured"]
""")
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-m", _PLAIN]
    environment = os.environ | {"HYPOTHESIS_PROFILE": "mutation"}  # a quarter of the examples: lines need no more
    files = [str(path.relative_to(PROJECT)) for path in sorted(tests)]
    return subprocess.run([*command, *files], cwd=PROJECT, env=environment, check=False).returncode


def covered(data: Path, own: dict[str, set[Path]]) -> Iterator[tuple[str, int, int]]:
    """(module, its statements, those that its own tests run)."""
    report = Coverage(data_file=str(data), config_file=False)
    report.load()
    contexts = report.get_data()
    for module, tests in own.items():
        path = str(path_of(module))
        _, statements, *_ = report.analysis2(path)
        prefixes = tuple(f"{test.stem}." for test in tests)
        run = {
            line
            for line, names in contexts.contexts_by_lineno(path).items()
            if any(name == "" or f".{name}".find(f".{prefix}") >= 0 for name in names for prefix in prefixes)
        }
        yield module, len(statements), len(run & set(statements))


def main() -> int:
    parser = argparse.ArgumentParser(description="What each module's own tests run of it.", prog="make coverage")
    parser.add_argument("rooms", nargs="*", help="core, operator, models and so on; all where none is named")
    rooms = set(parser.parse_args().rooms)
    own = {module: tests for module, tests in own_tests().items() if not rooms or room_of(module) in rooms}
    if not own:
        parser.error(f"no room of these: {', '.join(sorted(rooms))}; there are: "
                     f"{', '.join(sorted({room_of(module) for module in modules()}))}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "coverage"
        code = measured(set().union(*own.values()), data)
        if code not in {0, 1}:
            return code
        if code:
            print("Some tests failed: what measures time does not hold where each line is counted. `make test` proves.")
        figures = list(covered(data, own))
    below = []
    for module, statements, run in sorted(figures, key=lambda figure: figure[2] / max(figure[1], 1)):
        percent = 100 * run // max(statements, 1)
        print(f"{percent:4d} %  {run:4d} of {statements:4d}  {module}{'' if own[module] else '  (no test of its own)'}")
        if percent < ROOMS.get(room_of(module), 0) and module not in EXCEPTIONS:
            below.append(f"{module}: its own tests run {percent} % of it, {ROOMS[room_of(module)]} % is the least")
    print(*below, sep="\n", file=sys.stderr)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
