"""calendars/ics.py against ical.js, an implementation of its own, over calendars that other projects publish."""

import json
from pathlib import Path

import pytest

from cronhpa.calendars.ics import read_ics
from cronhpa.core.model.instant import DAY, parse_instant
from cronhpa.core.model.spec import Span

REAL = Path(__file__).parent / "real"
EXPECTED = json.loads((REAL / "expected.json").read_text())


def read(file, begin):
    first = parse_instant(f"{begin}T00:00:00Z")
    return read_ics((REAL / file).read_bytes(), Span(first, first + 500 * DAY))


@pytest.mark.parametrize("file", EXPECTED)
def test_each_occurrence_of_500_days_is_the_one_that_ical_js_finds(file):
    expected = EXPECTED[file]

    found = [[event.title, event.opens, event.closes, event.zone] for event in read(file, expected["begin"])]

    assert sorted(expected["occurrences"]) == sorted(found)


def test_they_are_enough_and_of_many_kinds():
    texts = "\n".join((REAL / file).read_text() for file in EXPECTED)

    assert len(EXPECTED) >= 20
    assert sum(len(expected["occurrences"]) for expected in EXPECTED.values()) > 1000
    kinds = ("RRULE:", "EXDATE", "RECURRENCE-ID", "VALUE=DATE:", "BEGIN:VTIMEZONE", "DURATION:")
    assert [] == [kind for kind in kinds if kind not in texts]
