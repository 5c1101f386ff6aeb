"""Times that a clock change skips or repeats are named; all others are not."""

from datetime import datetime

import pytest

from cronhpa.migration.documents.clock_changes import remark_clock_changes
from cronhpa.migration.documents.document import FieldReader

WALL = datetime.fromisoformat("2026-10-01T12:00")


@pytest.mark.parametrize(
    ("text", "zone", "named"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 02:30"),
        ("0 2 * * *", "Europe/Berlin", "2026-10-25 02:00"),
        ("0 3 * * *", "Europe/Berlin", None),
        ("59 1 * * *", "Europe/Berlin", None),
        ("30 2 * 3 *", "Europe/Berlin", "2027-03-28 02:30"),
        ("30 2 * * *", "Asia/Shanghai", None),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04 02:15"),
        ("45 1 * 4 *", "Australia/Lord_Howe", "2027-04-04 01:45"),
        ("30 2 * * 1-5", "Europe/Berlin", None),
    ],
)
def test_a_time_within_a_change_is_named_with_its_date(text, zone, named):
    notes = []

    remark_clock_changes(FieldReader({}, "spec", notes), "start", [text], zone, WALL)

    assert ([] if named is None else [f"the clock of {zone} skips or repeats {named}"]) == [
        finding for _, finding, _ in notes
    ]
