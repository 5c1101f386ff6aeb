"""calendars/ics.py: what a calendar's text holds, and what is refused."""

import pytest

from calendars.calendar_texts import CLOSED, ics
from cronhpa.calendars.ics import BYTES_MAX, IcsError, around, read_ics
from cronhpa.core.model.calendar import CalendarEvent
from cronhpa.core.model.instant import DAY, parse_instant, to_datetime
from cronhpa.core.model.spec import Span

NOW = parse_instant("2026-11-27T12:00:00Z")
BEGIN = "SUMMARY:Sale|DTSTART:20261127T090000Z"
HOUR = BEGIN + "|DURATION:PT1H"
SALE = "SUMMARY:Sale|DTSTART;TZID=Europe/Berlin:20261127T090000|DURATION:PT2H"
LISBON = """BEGIN:VTIMEZONE|TZID:Head office|BEGIN:STANDARD|DTSTART:19700101T000000|TZOFFSETFROM:+0300|TZOFFSETTO:+0300\
|END:STANDARD|END:VTIMEZONE"""


def read(*events, **more):
    return read_ics(ics(*events, **more), around(NOW))


def times(*events, **more):
    return [(event.opens[5:], event.closes[5:], event.zone) for event in read(*events, **more)]


def test_an_event_of_whole_days_has_no_zone_and_its_end_does_not_belong_to_it():
    assert (CalendarEvent("Closed", "2026-12-24T00:00", "2026-12-27T00:00"),) == read(CLOSED)


def test_an_event_with_a_zone_is_in_utc():
    assert [("11-27T08:00", "11-27T10:00", "UTC")] == times(SALE)


def test_a_floating_event_stays_as_its_clock_shows_it():
    assert [("11-27T09:00", "11-27T10:30", "")] == times("DTSTART:20261127T090000|DTEND:20261127T103000")


def test_the_calendars_own_zone_is_used_where_the_event_names_it():
    assert [("11-27T06:00", "11-27T08:00", "UTC")] == times(SALE.replace("Europe/Berlin", "Head office"), more=LISBON)


def test_a_rule_follows_the_clocks_of_its_zone():
    """In October the clocks of Berlin go back: 09:00 is 07:00 in UTC, then 08:00."""
    event = SALE.replace("20261127", "20261024") + "|RRULE:FREQ=DAILY;COUNT=2"

    assert ["10-24T07:00", "10-25T08:00"] == [opens for opens, _, _ in times(event)]


def test_an_event_that_begins_in_an_hour_that_is_skipped_takes_its_time_all_the_same():
    """In March the clocks of Berlin go from 02:00 to 03:00: found, as from 02:30 to 03:30 was no time at all."""
    begin = "SUMMARY:Batch|DTSTART;TZID=Europe/Berlin:20270327T023000|RRULE:FREQ=DAILY;COUNT=3|"
    days = [("03-27T01:30", "03-27T02:30", "UTC"), ("03-28T01:30", "03-28T02:30", "UTC")]
    days.append(("03-29T00:30", "03-29T01:30", "UTC"))

    assert days == times(begin + "DTEND;TZID=Europe/Berlin:20270327T033000") == times(begin + "DURATION:PT1H")


def test_dates_are_added_left_out_and_moved():
    """Daily from the 1st to the 4th: not on the 2nd, also on the 9th, and that of the 3rd at noon."""
    rule = "SUMMARY:Sale|DTSTART:20261201T090000Z|DURATION:PT1H|RRULE:FREQ=DAILY;UNTIL=20261204T090000Z"
    more = "|EXDATE:20261202T090000Z|RDATE:20261209T090000Z"
    text = ics(rule + more).decode()
    moved = "BEGIN:VEVENT|UID:0|SUMMARY:Moved|RECURRENCE-ID:20261203T090000Z|DTSTART:20261203T120000Z|DURATION:PT1H|"
    moved += "END:VEVENT|"
    text = text.replace("END:VCALENDAR", moved.replace("|", "\r\n") + "END:VCALENDAR")

    found = read_ics(text.encode(), around(NOW))

    assert [("01T09:00", "Sale"), ("03T12:00", "Moved"), ("04T09:00", "Sale"), ("09T09:00", "Sale")] == [
        (event.opens[8:], event.title) for event in found
    ]


@pytest.mark.parametrize("lost", ["STATUS:CANCELLED", "DURATION:PT0S"])
def test_an_event_that_is_cancelled_or_takes_no_time_is_none(lost):
    assert [] == times(f"DTSTART:20261127T090000Z|{lost}")


@pytest.mark.parametrize("rule", ["", "|RRULE:FREQ=DAILY;COUNT=1"])
def test_a_date_that_ends_where_it_begins_is_a_whole_day(rule):
    """Some programs write it so, and calendars show it; left out, `exclude` would open a window on a closed day."""
    assert [("12-24T00:00", "12-25T00:00", "")] == times(f"DTSTART;VALUE=DATE:20261224|DTEND;VALUE=DATE:20261224{rule}")


CANCEL = "METHOD:CANCEL"
DAILY = "SUMMARY:Sale|SEQUENCE:3|DTSTART;TZID=Europe/Berlin:20261201T090000|DURATION:PT1H|RRULE:FREQ=DAILY;COUNT=4"


@pytest.mark.parametrize("method", ["METHOD:CANCEL", "METHOD:cancel"])
@pytest.mark.parametrize("event", [HOUR, f"{HOUR}|STATUS:CANCELLED", "SUMMARY:Sale", CLOSED])
def test_what_a_cancellation_holds_is_no_event(method, event):
    """RFC 5546, 3.2.5: STATUS and DTSTART may be missing. Found: a cancelled sale opened its window."""
    assert [] == times(event, more=method)


@pytest.mark.parametrize(
    ("cancellation", "days"),
    [
        ("SEQUENCE:4", []),
        ("SEQUENCE:3|STATUS:CANCELLED", []),
        ("SEQUENCE:2", [1, 2, 3, 4]),
        ("SEQUENCE:4|RECURRENCE-ID;TZID=Europe/Berlin:20261202T090000", [1, 3, 4]),
        ("SEQUENCE:4|RECURRENCE-ID:20261202T080000Z", [1, 3, 4]),
        ("SEQUENCE:4|RECURRENCE-ID;TZID=Europe/Berlin;RANGE=THISANDFUTURE:20261203T090000", [1, 2]),
        ("SEQUENCE:4|RECURRENCE-ID;TZID=Europe/Berlin:20261205T090000", [1, 2, 3, 4]),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_cancellation_beside_a_calendar_cancels_its_event_or_an_instance_of_it(cancellation, days, is_first):
    """Not an event of a later SEQUENCE, which was announced anew."""
    both = [ics(DAILY), ics(cancellation, more=CANCEL)]

    found = read_ics(b"".join(reversed(both) if is_first else both), around(NOW))

    assert days == [int(event.opens[8:10]) for event in found]


def test_a_cancellation_of_a_moved_instance_cancels_it():
    moved = "RECURRENCE-ID;TZID=Europe/Berlin:20261202T090000|DTSTART:20261202T150000Z|DURATION:PT1H"
    series = ics(DAILY, moved).replace(b"UID:1", b"UID:0")
    cancelled = ics("SEQUENCE:4|RECURRENCE-ID;TZID=Europe/Berlin:20261202T090000", more=CANCEL)

    opens = [[event.opens[8:] for event in read_ics(text, around(NOW))] for text in (series, series + cancelled)]

    assert [["01T08:00", "02T15:00", "03T08:00", "04T08:00"], ["01T08:00", "03T08:00", "04T08:00"]] == opens


def test_a_cancellation_of_one_event_leaves_the_others():
    text = ics(HOUR, CLOSED) + ics("SUMMARY:Sale", more=CANCEL)

    assert ["Closed"] == [event.title for event in read_ics(text, around(NOW))]


def test_a_rule_without_an_end_ends_with_the_days_that_are_read():
    found = read("DTSTART;VALUE=DATE:20200101|RRULE:FREQ=WEEKLY")

    assert 500 // 7 <= len(found) <= 500 // 7 + 1
    first, last = (f"{to_datetime(at):%Y-%m-%d}" for at in (around(NOW).begin, around(NOW).end))
    assert first <= found[0].opens
    assert found[-1].opens < last


def test_seconds_make_an_event_longer_and_never_shorter():
    assert [("11-27T09:00", "11-27T10:01", "UTC")] == times("DTSTART:20261127T090030Z|DTEND:20261127T100001Z")


def test_a_title_is_one_short_line():
    (event,) = read(CLOSED.replace("Closed", "a\\nb\x1b[31m" + "c" * 200))

    assert event.title.startswith("a b")
    assert event.title.isprintable()
    assert 80 == len(event.title)


def test_of_a_title_in_several_languages_the_first_one_counts():
    (event,) = read(f"{HOUR}|SUMMARY;LANGUAGE=de:Ausverkauf|DESCRIPTION:minReplicas: 5|DESCRIPTION:minReplicas: 50")

    assert ("Sale", 5) == (event.title, event.floor)


@pytest.mark.parametrize(
    ("zone", "begin"),
    [("Europe/Berlin", "08:00"), ("W. Europe Standard Time", "08:00"), ("", "09:00"), (" ", "09:00")],
)
def test_floating_times_have_the_zone_of_the_calendar_if_it_states_one(zone, begin):
    """Also as Windows calls it."""
    (event,) = read(HOUR.replace("Z", ""), more=f"X-WR-TIMEZONE:{zone}")

    assert (f"2026-11-27T{begin}", "UTC" if zone.strip() else "") == (event.opens, event.zone)


@pytest.mark.parametrize("zone", ["Mars/Phobos", "../../etc/passwd", "UTC|X-WR-TIMEZONE:Europe/Berlin", "A" * 5000])
def test_a_calendar_in_a_zone_that_nobody_knows_is_refused(zone):
    with pytest.raises(IcsError, match=r"X-WR-TIMEZONE: .*: one IANA name such as Europe/Berlin is accepted"):
        read(CLOSED, more=f"X-WR-TIMEZONE:{zone}")


def test_what_takes_too_much_memory_is_no_fault_of_a_rule(monkeypatch):
    """The process that reads says so, with its limit."""

    def of(_):
        raise MemoryError

    monkeypatch.setattr("recurring_ical_events.of", of)
    with pytest.raises(MemoryError):
        read(CLOSED)


def test_several_calendars_in_one_text_are_all_read():
    assert 2 == len(read_ics(ics(CLOSED) + ics(SALE), around(NOW)))


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (SALE.replace("Europe/Berlin", "Mars/Base"), "event Sale: DTSTART: the time zone Mars/Base is not known"),
        (SALE + "|EXDATE;TZID=Mars/Base:20261127T090000", "event Sale: EXDATE: the time zone Mars/Base is not known"),
        (SALE + "|RRULE:FREQ=SECONDLY", "event Sale: RRULE recurs SECONDLY: HOURLY and longer is accepted"),
        (SALE + "|RRULE:FREQ=MINUTELY;COUNT=3", "RRULE recurs MINUTELY"),
        (SALE + "|RRULE:FREQ=DAILY;UNTIL=foo", "event Sale: RRULE: "),
        (CLOSED.replace("20261224", "20261324"), "event Closed: DTSTART: "),
        ("SUMMARY:Sale", "event Sale: DTSTART is missing"),
        (CLOSED + "|RRULE:FREQ=HOURLY", "occur more than 5000 times within 500 days"),
        (HOUR + "|RRULE:FREQ=DAILY;INTERVAL=0", "event Sale: RRULE: INTERVAL is below 1: 1 and more is accepted"),
        (HOUR + "|RRULE:FREQ=DAILY;BYHOUR=25", "event Sale: RRULE: "),
        (HOUR + "|RRULE:COUNT=3", "event Sale: RRULE: "),
        (HOUR + "|RRULE:RSCALE=HEBREW;FREQ=YEARLY", "event Sale: RRULE: "),
        (HOUR + "|EXRULE:FREQ=DAILY;COUNT=2", "event Sale: EXRULE is not read: state the dates that are left out"),
        (HOUR + "|DTSTART:20261128T090000Z", "event Sale: DTSTART stands there 2 times: once is accepted"),
        (HOUR + "|STATUS:CONFIRMED|STATUS:CANCELLED", "event Sale: STATUS stands there 2 times"),
        (HOUR + "|SEQUENCE:abc", "event Sale: SEQUENCE: "),
        (HOUR + "|SEQUENCE:" + "9" * 5000, "event Sale: SEQUENCE: "),
        (BEGIN + "|DTEND:20251127T090000Z", "event Sale: it ends before it begins: a DTEND behind DTSTART is accepted"),
        (BEGIN + "|DURATION:-P3D", "event Sale: it ends before it begins"),
        (
            BEGIN + "|DTEND:20261127T110000",
            "DTSTART is a time with a zone, DTEND is a time without a zone: two of one kind",
        ),
        (BEGIN + "|DTEND;VALUE=DATE:20261128", "DTSTART is a time with a zone, DTEND is a date: two of one kind"),
        (SALE.replace("Europe/Berlin", "A" * 5000), "a time zone has no name but a long text"),
    ],
)
def test_a_calendar_with_one_bad_event_is_refused_as_a_whole(event, told):
    """Without that event an `exclude` would open a window on a closed day."""
    with pytest.raises(IcsError) as raised:
        read(CLOSED, event)

    assert told in str(raised.value)


def test_too_many_occurrences_are_told_with_the_days_that_were_read():
    """Of a preview of two years. Found: it named the 500 days that the operator reads."""
    with pytest.raises(IcsError, match="occur more than 5000 times within 730 days"):
        read_ics(ics(CLOSED + "|RRULE:FREQ=HOURLY"), Span(NOW, NOW + 730 * DAY))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "it holds no whole calendar"),
        (b"<html>502 Bad Gateway</html>", "it is no iCalendar text"),
        (ics(CLOSED).replace(b"END:VCALENDAR\r\n", b""), "it holds no whole calendar"),
        (ics(CLOSED)[:-40], "it holds no whole calendar"),
        (b"\xff\xfe", "UTF-8 text is accepted"),
        (b"BEGIN:VEVENT\r\nEND:VEVENT\r\n", "it holds no whole calendar"),
        (b"x" * (BYTES_MAX + 1), "more than 4 MiB"),
        (ics(*["DTSTART:20261127T090000Z"] * 10_001), "it has 10001 events: 10000 are accepted"),
    ],
)
def test_what_is_no_calendar_is_refused(text, told):
    with pytest.raises(IcsError) as raised:
        read_ics(text, around(NOW))

    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("description", "bounds"),
    [
        ("Doors at 9\\nminReplicas: 20\\nheadroomPercent = 50", (20, 50)),
        ("<p>minReplicas: 20</p><br>headroomPercent:50", (20, 50)),
        ("we need minReplicas: 20", (None, 0)),
        ("maxReplicas: 0\\nminReplicas: -1", (None, 0)),
        ("headroomPercent: 999999999", (None, 1000)),
    ],
)
def test_bounds_stand_on_lines_of_their_own_and_only_those_that_raise(description, bounds):
    (event,) = read(f"{CLOSED}|DESCRIPTION:{description}")

    assert bounds == (event.floor, event.headroom_percent)


def test_an_event_of_nine_centuries_is_cut_to_times_that_can_be_planned():
    (event,) = read("DTSTART;VALUE=DATE:19000101|DTEND;VALUE=DATE:28000101")

    assert ("1970-01-01T00:00", "2200-01-01T00:00") == (event.opens, event.closes)


def test_at_least_72_days_behind_and_400_ahead_are_read_on_each_day():
    for day in range(60):
        now = NOW + day * DAY
        span = around(now)
        assert 72 * DAY <= now - span.begin < 101 * DAY
        assert 400 * DAY <= span.end - now
