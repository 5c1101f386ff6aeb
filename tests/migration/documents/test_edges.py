"""
cronhpa.migration.documents.edges, cronhpa.migration.documents.context: windows of KEDA and Crane, told where they
differ.
"""

import pytest

from cronhpa.core.model.instant import parse_instant
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Unconvertible
from cronhpa.migration.documents.edges import window

AROUND = ConversionContext(parse_instant("2026-10-01T12:00:00Z"), None, {})


def made(start, end, zone="UTC"):
    """(the window, the remarks)."""
    notes = []
    return window(FieldReader({}, "trigger", notes), (start, end), zone, "KEDA", AROUND), notes


def test_a_window_of_every_day_means_the_same():
    assert ({"start": "0 8 * * *", "end": "0 18 * * *", "timeZone": "UTC"}, []) == made("0 8 * * *", "0 18 * * *")


def test_days_of_the_start_alone_are_told_with_the_first_time_that_differs():
    """KEDA is active when the next edge is an end: on Saturday at 00:00 that is 18:00; here the last edge counts."""
    _, ((path, finding, meaning),) = made("0 8 * * mon-fri", "0 18 * * *")

    assert "trigger.end" == path
    assert "KEDA is active, because the next edge is an end" in finding
    assert "Sat 2026-10-03" in finding or "Fri 2026-10-02" in finding
    assert "here the window is closed, because the last edge was an end" in meaning


@pytest.mark.parametrize(
    ("start", "end", "zone", "told"),
    [
        ("0 25 * * *", "0 18 * * *", "UTC", "trigger.start"),
        ("0 8 * * *", "0 8 * * *", "UTC", "trigger.end: start and end are both"),
        ("0 8 * * *", "0 18 * * *", "Berlin", "trigger.timezone"),
    ],
)
def test_what_is_no_window_is_refused_with_its_field(start, end, zone, told):
    with pytest.raises(Unconvertible, match=told):
        made(start, end, zone)


def test_a_wall_clock_is_that_of_the_zone():
    """12:00 UTC on 1 October is 14:00 in Berlin, by summer time."""
    assert (14, None) == (AROUND.wall("Europe/Berlin").hour, AROUND.wall("Europe/Berlin").tzinfo)
