"""
What a reconciliation passes grows only on purpose: whoever adds a file to its way raises a number here.

`make walk` prints the whole table. A lower figure lowers its number here.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from textwrap import dedent

import pytest
import walk


@pytest.fixture(scope="module")
def figures():
    """Of a process of its own: what other tests have left in caches and in garbage is of no reconciliation."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(walk.measured, walk.OWN_TREE).result()


@pytest.mark.slow
def test_a_period_in_which_the_decision_stands_passes_22_files_and_63_functions_at_most(figures):
    assert figures["walks"]["quiet"]["files"] <= 22
    assert figures["walks"]["quiet"]["functions"] <= 63


def test_a_full_reconciliation_that_changes_nothing_passes_52_files_at_most(figures):
    assert figures["walks"]["full"]["files"] <= 52


def test_six_periods_with_two_scalings_pass_74_files_at_most(figures):
    assert figures["walks"]["scaled"]["files"] <= 74


def test_a_decision_that_stands_is_not_made_anew(figures):
    """Its walk has `Standing.covers` and no `decide`."""
    functions = figures["functions"]["quiet"]

    assert ("core/standing.py", "Standing.covers") in functions
    assert "core/decide.py" not in {file for file, _ in functions}


def test_a_schedules_minimum_and_a_pods_usage_end_at_the_write_of_a_scale(figures):
    """The first passes the edited spec, the second does not."""
    minimum, usage = figures["files"]["minimum"], figures["files"]["usage"]

    assert ("operator/objects/object_watch.py", "operator/writes/write_places.py") == (minimum[0], minimum[-1])
    assert "operator/writes/write_places.py" == usage[-1]
    assert {"api/parse.py"} == {"api/parse.py"} & {*minimum} - {*usage}


def test_it_prints_a_table_and_json(figures, capsys, monkeypatch):
    monkeypatch.setattr(walk, "measured", lambda _: figures)

    walk.main([])
    table = capsys.readouterr().out
    walk.main(["--json"])

    assert figures["walks"] == json.loads(capsys.readouterr().out)["walks"]
    assert "a period in which the decision stands" in table


def test_a_tree_without_lives_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        walk.main(["--tree", str(tmp_path)])

    assert "--tree takes a checkout of cronhpa" in capsys.readouterr().err


def test_a_walk_counts_functions_once_and_comprehensions_with_their_function(tmp_path):
    """Of a.py `first` and `second`, of b.py `third`: a -> a -> b -> a -> b are five calls and three changes of file."""
    a, b = {}, {}
    exec(compile("def third(): pass", f"{tmp_path}/b.py", "exec"), b)
    a["third"] = b["third"]
    text = """
        def second():
            return [number for number in range(1)]

        def first():
            (lambda: third())()
            second()
            third()
    """
    exec(compile(dedent(text), f"{tmp_path}/a.py", "exec"), a)
    ours = walk.Walk((f"{tmp_path}/",))

    ours.begin()
    a["first"]()
    ours.end()

    assert {("a.py", "first"), ("a.py", "second"), ("b.py", "third")} == ours.functions
    assert (["a.py", "b.py"], 3) == (ours.files, ours.changes)
    assert sys.getprofile() is None


def test_lines_of_code_are_those_without_docstrings_comments_and_blanks():
    """Four of ten: the class, its field, and both lines of the text that is a value."""
    text = dedent(
        '''\
        """A module."""

        # A comment.
        class Pod:
            name: str
            """A docstring
            of two lines."""

            kind = """a
            b"""
        '''
    )

    assert 4 == walk.code_lines(text)
