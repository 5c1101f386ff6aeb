"""iCalendar texts, as short as they may be."""


def ics(*events, more=""):
    """A calendar; each event is the lines between its BEGIN and END, separated by |."""
    texts = [f"BEGIN:VEVENT|UID:{number}|{event}|END:VEVENT" for number, event in enumerate(events)]
    lines = "|".join(
        ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:test", *([more] if more else []), *texts, "END:VCALENDAR", ""]
    )
    return lines.replace("|", "\r\n").encode()


CLOSED = "SUMMARY:Closed|DTSTART;VALUE=DATE:20261224|DTEND;VALUE=DATE:20261227"
