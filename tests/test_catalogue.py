"""catalogue.tsv: what can go wrong, and the test that holds each of it; what no test holds is named with the reason."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
_NOT_HELD = "not held: "
# By chapter: processes, API server, watches, metrics, numbers, time, forecasts, owners, lifecycle, security, load,
# operation, verification.
_CASES = {
    "A": 17,
    "B": 19,
    "C": 10,
    "D": 17,
    "E": 10,
    "F": 20,
    "G": 10,
    "H": 10,
    "I": 11,
    "J": 21,
    "K": 9,
    "L": 6,
    "M": 5,
}


def cases() -> list[tuple[str, str, str]]:
    _, *lines = (TESTS / "catalogue.tsv").read_text("utf-8").splitlines()
    return [(case, what, by) for case, what, by in (line.split("\t") for line in lines)]


@cache
def names_in(file: str) -> set[str]:
    path = TESTS / f"{file}.py"
    return (
        {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if hasattr(node, "name")}
        if path.is_file()
        else set()
    )


def test_every_case_is_there_once():
    names = [case.rstrip("*") for case, _, _ in cases()]

    assert sorted(set(names)) == sorted(names)
    assert Counter(name[0] for name in names) == _CASES


def test_every_test_that_is_named_exists():
    named = [(case, name) for case, _, by in cases() if not by.startswith(_NOT_HELD) for name in by.split(" ")]

    assert [] == [
        (case, name) for case, name in named if name.partition("::")[2] not in names_in(name.partition("::")[0])
    ]


def test_at_least_161_are_held_and_the_others_say_why_not():
    not_held = [by.removeprefix(_NOT_HELD) for _, _, by in cases() if by.startswith(_NOT_HELD)]

    assert len(cases()) - len(not_held) >= 161
    assert all(len(reason) > 5 for reason in not_held)
