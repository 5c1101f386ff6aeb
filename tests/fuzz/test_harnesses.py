"""Each harness over its corpus, which holds what once broke it, and over bytes that hypothesis makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import harnesses
from fuzz.draw import WORDS, Draw
from fuzz.harnesses import HARNESSES

CORPUS = Path(__file__).parent / "corpus"
KEPT = [(path.parent.name, path) for path in sorted(CORPUS.glob("*/*"))]
# Names are put into a query as they stand: this goes with the first query that takes names alone.


@pytest.mark.parametrize(
    ("name", "path"),
    [pytest.param(name, path) for name, path in KEPT],
    ids=[f"{name}-{path.name}" for name, path in KEPT],
)
def test_what_is_kept_breaks_no_harness(name, path):
    HARNESSES[name](path.read_bytes())


def test_each_harness_has_a_corpus_of_small_inputs_and_no_other_is_kept():
    assert sorted(HARNESSES) == sorted({name for name, _ in KEPT})
    assert max(path.stat().st_size for _, path in KEPT) <= 4096
    assert sum(path.stat().st_size for _, path in KEPT) < 100_000


@pytest.mark.parametrize("name", HARNESSES)
@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_break_no_harness(name, data):
    HARNESSES[name](data)


BREAKS = {
    "spec": ("parse_spec", KeyError("metrics"), b""),
    "memory": ("read_memory", OverflowError("too large"), b""),
    "quantities": ("parse_milli", OverflowError("too large"), b"1"),
    "crons": ("cron", AttributeError("problem"), b""),
    "promql": ("Prometheus", KeyError("cpu"), b""),
    "metrics": ("list_pod_metrics", UnicodeError("surrogates"), b"{}"),
    "csv": ("read_points", MemoryError(), b""),
    "documents": ("read_documents", RecursionError(), b""),
    "sources": ("PageReader", KeyError("load_total"), b""),
}


@pytest.mark.parametrize(("name", "broken"), BREAKS.items(), ids=BREAKS)
def test_a_door_that_raises_what_it_does_not_promise_breaks_its_harness(name, broken, monkeypatch):
    door, error, data = broken

    class Raising:
        def __call__(self, *_, **__):
            raise error

        def __getattr__(self, _):
            raise error

    monkeypatch.setattr(harnesses, door, Raising())

    with pytest.raises(type(error)):
        HARNESSES[name](data)


def test_at_the_end_of_the_bytes_the_smallest_value_is_drawn():
    draw = Draw(b"")

    assert (WORDS[0], None, 0, -3) == (draw.text(), draw.json(), draw.number(), draw.number(-3, 9))
    assert {"name": ""} == draw.from_schema(
        {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    )
