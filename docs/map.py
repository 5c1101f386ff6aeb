"""
Prints where things are: the modules of each room with the first line of their docstrings, and the room's lines of code.

`make map` runs it; ROOM=operator prints one room. Blank lines, comments and docstrings are not lines of code.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("cronhpa", "models/cronhpa_models")
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def rooms() -> dict[str, list[Path]]:
    """The modules of each room, by the room's folder."""
    found: dict[str, list[Path]] = {}
    for package in PACKAGES:
        for path in sorted((PROJECT / package).rglob("*.py")):
            if path.stat().st_size:
                folders = path.parent.relative_to(PROJECT).parts
                found.setdefault("/".join(folders[:2]), []).append(path)
    return found


def first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]


def lines_of_code(path: Path) -> int:
    with path.open("rb") as opened:
        lines = {
            line
            for token in tokenize.tokenize(opened.readline)
            if token.type not in _NO_CODE
            for line in range(token.start[0], token.end[0] + 1)
        }
    texts = {
        line
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    # The end of a file is a token on a line of its own.
    return len({line for line in lines - texts if line <= len(path.read_text("utf-8").splitlines())})


def main() -> int:
    """Returns 1 where a room is not there, and names those that are."""
    wanted = {name for name in sys.argv[1:] if name}
    found = {room.rpartition("/")[2]: (room, paths) for room, paths in rooms().items()}
    if unknown := wanted - found.keys():
        sys.stderr.write(f"found {', '.join(sorted(unknown))}; accepted are {', '.join(sorted(found))}\n")
        return 1
    total = 0
    for name, (room, paths) in found.items():
        if wanted and name not in wanted:
            continue
        lines = sum(map(lines_of_code, paths))
        total += lines
        sys.stdout.write(f"{room}: {lines:,} lines of code\n")
        for path in paths:
            sys.stdout.write(f"  {path.relative_to(PROJECT / room).with_suffix('')!s:32} {first_line(path)}\n")
        sys.stdout.write("\n")
    sys.stdout.write(f"{total:,} lines of code\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
