"""calendars/definition.py: the file of calendars, and what is wrong with one."""

import pytest

from cronhpa.calendars.definition import parse_calendars
from cronhpa.sources.parse import SourcesError
from sources.test_parse_sources import SECRET_URLS


def test_a_calendar_is_a_file_or_a_feed():
    stated = parse_calendars(
        "calendars:\n  company: {file: /a.ics}\n"
        "  sales: {url: 'https://x.example/a%40b/c.ics?k=1', refreshSeconds: 60}\n"
        "  fairs: {urlFile: /address}\n",
        "c.yaml",
    )

    assert ["company", "fairs", "sales"] == sorted(stated)
    assert ("/a.ics", 60, 900) == (
        str(stated["company"].file),
        stated["sales"].refresh_seconds,
        stated["fairs"].refresh_seconds,
    )


def test_there_may_be_none():
    assert {} == parse_calendars("calendars: {}", "c.yaml")


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ("{}", "c.yaml:2: calendars.company: exactly one of file, url and urlFile is accepted"),
        ("{file: /a, url: 'http://x/'}", "exactly one of file, url and urlFile is accepted"),
        ("{fle: /a}", "c.yaml:2: calendars.company.fle: there is no such field: did you mean file?"),
        (
            "{url: 'webcal://x/a.ics'}",
            "write https:// in place of webcal://: accepted is http(s)://HOST:PORT/PATH?QUERY",
        ),
        ("/a.ics", "c.yaml:2: calendars.company: it has no fields: fields by name are accepted here"),
        ("{url: 'file:///etc/passwd'}", "it is no http or https URL with a host"),
        ("{url: 'http://user:pw@x/a.ics'}", "it holds a user or a password"),
        ("{url: 'http://x/$namespace'}", "a calendar's address has no placeholders"),
        ("{url: 'http://x/', refreshSeconds: 1}", "refreshSeconds: 1: Input should be greater than or equal to 60"),
        ("{file: /a, tokenFile: /b}", "tokenFile means nothing beside file: leave it out"),
        ("{url: 'http://x/', tokenFile: /a, username: b, passwordFile: /c}", "it has two logins"),
        ("{file: /a}\n  company: {file: /b}", "c.yaml:3: company stands here twice"),
        ("{file: /a}\n  Bad_Name: {file: /b}", "a name has small letters, digits and hyphens, at most 63"),
        ("[", "one YAML document is accepted"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(stated, told):
    with pytest.raises(SourcesError) as raised:
        parse_calendars(f"calendars:\n  company: {stated}\n", "c.yaml")

    assert told in str(raised.value)


@pytest.mark.parametrize("address", [*SECRET_URLS, "webcal://p/private-s3cr3t/c.ics"])
@pytest.mark.parametrize("stated", ["{{url: '{}'}}", "{{urlFile: ['{}']}}", "'{}'"])
def test_a_secret_in_an_address_that_is_refused_is_told_to_nobody(stated, address):
    with pytest.raises(SourcesError) as raised:
        parse_calendars(f"calendars:\n  company: {stated.format(address)}\n", "c.yaml")

    assert str(raised.value).startswith("c.yaml:2: calendars.company")
    assert "s3cr3t" not in str(raised.value)


def test_more_than_a_hundred_are_refused():
    many = "".join(f"  c{number}: {{file: /a}}\n" for number in range(101))

    with pytest.raises(SourcesError):
        parse_calendars(f"calendars:\n{many}", "c.yaml")
