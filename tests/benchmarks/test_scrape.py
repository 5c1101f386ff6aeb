"""The series of an object as docs/monitoring.md counts them, and what rendering them costs beside a client library."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def scrape(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import scrape

    yield scrape
    for name in ("scrape", "decision", "report"):
        sys.modules.pop(name, None)


def test_an_object_has_19_series_with_one_metric_and_33_with_two_schedules_and_a_forecast(scrape):
    plain, timed = (scrape.rendered(scrape.objects(spec, 1))["samples"] for spec in (scrape.PLAIN, scrape.TIMED))

    assert (19, 33) == (plain, timed)


def test_300_objects_are_told_for_a_third_of_what_the_library_takes_for_as_many_samples(scrape):
    """`benchmarks/scrape.py` measures a twelfth, for 10,000."""
    assert scrape.rendered(scrape.objects(scrape.TIMED, 300))["ratio"] < 1 / 3
