"""calendars/feeds.py, calendars/ics_process.py: calendars while the operator runs, from files and over HTTP."""

import asyncio
import gzip
import sys
import time

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from calendars.calendar_texts import CLOSED, ics
from cronhpa.calendars import feeds as feeds_module
from cronhpa.calendars.feeds import CalendarFeeds
from cronhpa.calendars.ics import BYTES_MAX, IcsError, around
from cronhpa.calendars.ics_process import UnansweredError, read_in_process
from cronhpa.core.model.calendar import Calendar
from cronhpa.core.model.instant import DAY, parse_instant
from cronhpa.core.schedules.calendar_days import whole_days

NOW = parse_instant("2026-11-27T12:00:00Z")
OTHER = "SUMMARY:Fair|DTSTART;VALUE=DATE:20270110"


class Followed:
    """Feeds that are followed, with a clock that a test moves, and what they told."""

    def __init__(self, path):
        self.now, self.changes = NOW, 0
        self.feeds = CalendarFeeds(path, lambda: self.now, self._note)

    def _note(self):
        self.changes += 1

    def titles(self, name="company"):
        calendar = self.feeds.calendars.get(name)
        return None if calendar is None or calendar.events is None else [event.title for event in calendar.events]

    def problem(self, name="company"):
        return self.feeds.calendars[name].problem

    def begin(self):
        return self.feeds.calendars["company"].begin if self.feeds.calendars else None

    def problem_if_any(self):
        return self.problem() if self.feeds.calendars else ""

    async def becomes(self, *wanted, of=None, within_s=120):
        """Until `of` gives one of these; the titles by default."""
        of = of or self.titles
        async with asyncio.timeout(within_s):
            while of() not in wanted:  # noqa: ASYNC110 - what it waits for has no event
                await asyncio.sleep(0.02)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "calendars.yaml"


@pytest.fixture
async def followed(path, monkeypatch):
    monkeypatch.setattr(feeds_module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(feeds_module, "AGAIN_SECONDS", 0.05)
    # On a busy machine the start of the reading process takes as long as a slow calendar.
    monkeypatch.setattr(feeds_module, "SLOW_SECONDS", 3600.0)
    made = Followed(path)
    task = asyncio.create_task(made.feeds.follow())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Answering(TestServer):
    """Answers every GET with `body` and `status`."""

    def __init__(self):
        super().__init__(web.Application())
        self.body, self.status, self.asked = ics(CLOSED), 200, []
        self.app.router.add_get("/{path:.*}", self._answer)

    async def _answer(self, request):
        self.asked.append(request)
        return web.Response(body=self.body, status=self.status, headers={"Location": "/elsewhere"})


@pytest.fixture
async def server():
    made = Answering()
    await made.start_server()
    yield made
    await made.close()


def of_file(path, file, name="company"):
    path.write_text(f"calendars: {{{name}: {{file: {file}}}}}")


async def test_no_cache_holds_a_calendar_that_has_changed(path, followed, tmp_path):
    """A hostile feed would fill the memory with its former versions."""
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    path.write_text(f"calendars: {{company: {{file: {file}}}}}")
    await followed.becomes(["Closed"])
    former = followed.feeds.calendars["company"]
    whole_days(former, "Europe/Berlin")

    file.write_bytes(ics(OTHER))
    await followed.becomes(["Fair"])

    alone = sys.getrefcount(Calendar("company")) + 1  # by its name here
    assert alone == sys.getrefcount(former)


async def test_a_file_is_read_and_read_again_when_it_changes(followed, path, tmp_path):
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    of_file(path, file)
    await followed.becomes(["Closed"])
    assert followed.feeds.is_settled

    file.write_bytes(ics(OTHER))

    await followed.becomes(["Fair"])
    assert followed.changes >= 2


async def test_a_broken_file_keeps_the_last_good_one_and_says_so_and_since_when(followed, path, tmp_path, caplog):
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    of_file(path, file)
    await followed.becomes(["Closed"])

    file.write_bytes(ics(OTHER, "SUMMARY:Sale|DTSTART;TZID=Mars/Base:20261127T090000"))
    await followed.becomes("", of=lambda: "" if followed.problem() else None)
    followed.now += DAY // 2
    await asyncio.sleep(0.3)

    calendar = followed.feeds.calendars["company"]
    assert ["Closed"] == followed.titles()
    assert "the time zone Mars/Base is not known" in calendar.problem
    assert NOW == calendar.since == followed.feeds.read_at["company"]
    assert 1 == sum("Mars/Base" in record.getMessage() for record in caplog.records)

    file.write_bytes(ics(OTHER))
    await followed.becomes(["Fair"])
    assert ("", None) == (followed.problem(), followed.feeds.calendars["company"].since)
    assert {"company": NOW + DAY // 2} == followed.feeds.read_at


async def test_a_file_that_is_gone_keeps_what_was_read(followed, path, tmp_path):
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    of_file(path, file)
    await followed.becomes(["Closed"])

    file.unlink()

    await followed.becomes("it cannot be read: No such file or directory", of=followed.problem)
    assert ["Closed"] == followed.titles()


async def test_the_events_are_those_around_today(followed, path, tmp_path):
    """A weekly event: four weeks later the first four have gone and others have come; in between they stay."""
    file = tmp_path / "company.ics"
    file.write_bytes(ics("DTSTART;VALUE=DATE:20200101|RRULE:FREQ=WEEKLY"))
    of_file(path, file)
    await followed.becomes(None, of=lambda: None if followed.titles() else "")
    before = followed.feeds.calendars["company"].events

    followed.now = around(NOW).begin + 100 * DAY - 1
    await asyncio.sleep(0.3)
    assert before == followed.feeds.calendars["company"].events
    followed.now += 1

    await followed.becomes(before[4:], of=lambda: followed.feeds.calendars["company"].events[:-4])


async def test_events_of_the_days_before_the_reading_are_over(followed, path, tmp_path):
    """Otherwise they would take the places of those to come."""
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    of_file(path, file)

    await followed.becomes(parse_instant("2026-11-27T00:00:00Z"), of=followed.begin)
    followed.now += DAY
    await followed.becomes(parse_instant("2026-11-28T00:00:00Z"), of=followed.begin)


async def test_a_calendar_that_is_no_longer_named_is_forgotten(followed, path, tmp_path):
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    of_file(path, file)
    await followed.becomes(["Closed"])

    path.write_text("calendars: {}")

    await followed.becomes({}, of=lambda: followed.feeds.calendars)


async def test_a_broken_settings_file_keeps_the_former_calendars(followed, path, tmp_path):
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    of_file(path, file)
    await followed.becomes(["Closed"])

    path.write_text("calendars: {company: {fle: x}}")
    await followed.becomes(True, of=lambda: "did you mean file?" in followed.feeds.problem)
    file.write_bytes(ics(OTHER))

    await followed.becomes(["Fair"])


async def test_without_its_settings_file_there_are_no_calendars_and_nothing_waits(followed):
    await followed.becomes(True, of=lambda: followed.feeds.is_settled)

    assert {} == followed.feeds.calendars


async def test_a_calendar_that_is_added_later_and_hangs_holds_up_nobody(followed, path):
    """Found: every decision waited for its deadline, as at the start."""
    path.write_text("calendars: {}")
    await followed.becomes(True, of=lambda: followed.feeds.is_settled)
    asked = asyncio.Event()

    async def hang(*_):
        asked.set()
        await asyncio.sleep(60)

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    path.write_text(f"calendars: {{company: {{url: 'http://127.0.0.1:{server.sockets[0].getsockname()[1]}/c.ics'}}}}")
    async with asyncio.timeout(20):
        await asked.wait()

    assert followed.feeds.is_settled
    server.close()


async def test_a_feed_is_read_over_http_with_its_login(followed, path, server, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    url = server.make_url("/c.ics?key=1")
    path.write_text(f"calendars: {{company: {{url: '{url}', tokenFile: {tmp_path / 'token'}}}}}")

    await followed.becomes(["Closed"])

    assert ("Bearer secret", "1") == (server.asked[0].headers["Authorization"], server.asked[0].query["key"])


async def test_the_address_of_a_feed_may_be_a_secret(followed, path, server, tmp_path):
    (tmp_path / "address").write_text(f"{server.make_url('/private-1234/c.ics')}\n")
    path.write_text(f"calendars: {{company: {{urlFile: {tmp_path / 'address'}}}}}")

    await followed.becomes(["Closed"])
    server.status = 503
    path.write_text(f"calendars: {{company: {{urlFile: {tmp_path / 'address'}, refreshSeconds: 60}}}}")

    await followed.becomes("it answered 503", of=followed.problem)
    assert ["Closed"] == followed.titles()


async def test_a_secret_address_is_in_no_log_where_its_server_answers_no_http(followed, path, tmp_path, caplog):
    async def garbage(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 what\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(garbage, "127.0.0.1", 0) as server:
        (tmp_path / "address").write_text(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/private-1234/c.ics")
        path.write_text(f"calendars: {{company: {{urlFile: {tmp_path / 'address'}}}}}")
        await followed.becomes("the connection broke before the answer was whole", of=followed.problem_if_any)

    assert "(ClientResponseError: Bad status line)" in caplog.text
    assert "private-" not in caplog.text


@pytest.mark.parametrize("secret", ["s3cr$t", "$3cret", "s3cret$"])
async def test_a_secret_address_that_cannot_be_used_is_told_to_nobody(followed, path, tmp_path, caplog, secret):
    """Found: tenants read the whole path of an address with a dollar sign in the conditions of their objects."""
    (tmp_path / "address").write_text(f"https://calendar.example/private-{secret}/c.ics")
    path.write_text(f"calendars: {{company: {{urlFile: {tmp_path / 'address'}}}}}")

    told = "its address cannot be used: it holds a $: a calendar's address has no placeholders, write %24"
    await followed.becomes(told, of=followed.problem_if_any)
    assert "private-" not in caplog.text


async def test_a_slow_calendar_that_changes_at_each_look_takes_a_twentieth_of_the_time(
    path, followed, tmp_path, monkeypatch
):
    """Read in 0.1 s: looked at again after two seconds, not after 0.05."""
    texts = []

    async def slow(text, now):
        texts.append(text)
        file.write_bytes(ics(f"SUMMARY:{len(texts)}|DTSTART;VALUE=DATE:20261224"))
        await asyncio.sleep(0.1)
        raise IcsError("slow")

    monkeypatch.setattr(feeds_module, "read_in_process", slow)
    monkeypatch.setattr(feeds_module, "SLOW_SECONDS", 0.05)
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    path.write_text(f"calendars: {{company: {{file: {file}}}}}")

    await followed.becomes("slow", of=followed.problem_if_any)
    await asyncio.sleep(1.5)
    assert 1 == len(texts)
    await followed.becomes(2, of=lambda: len(texts))


async def test_a_calendar_whose_process_is_killed_once_is_read_again_and_says_what_was(
    path, followed, tmp_path, monkeypatch, caplog
):
    """Found: one kill for memory, and the calendar was refused for up to four weeks, with a hint at its rules."""
    processes = []
    start = asyncio.create_subprocess_exec

    async def killed_at_first(*command, **options):
        process = await start(*command, **options)
        if not processes:
            process.kill()
        processes.append(process)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", killed_at_first)
    file = tmp_path / "company.ics"
    file.write_bytes(ics(CLOSED))
    of_file(path, file)

    await followed.becomes(["Closed"])

    assert 2 == len(processes)
    assert "" == followed.problem()
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "the process that reads it was killed: see whether the operator has enough memory" in told
    assert "rules" not in told


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, b"", "it answered 404"),
        (302, b"", "it answered 302, which points elsewhere and is not followed"),
        (200, b"<html>Sign in</html>", "it is no iCalendar text: "),
        (200, b"x" * (BYTES_MAX + 1), f"its answer is longer than {BYTES_MAX} bytes"),
    ],
)
async def test_a_feed_that_was_never_good_says_why(followed, path, server, status, body, told):
    server.status, server.body = status, body
    path.write_text(f"calendars: {{company: {{url: '{server.make_url('/c.ics')}'}}}}")

    await followed.becomes(True, of=lambda: "company" in followed.feeds.calendars and told in followed.problem())

    assert followed.titles() is None
    assert followed.feeds.is_settled


async def test_a_feed_of_100_mb_is_not_read_to_its_end(followed, path, server):
    sent = 0

    async def endless(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1600):
            await response.write(b"x" * 65_536)
            sent += 65_536
        return response

    own = TestServer(web.Application())
    own.app.router.add_get("/c.ics", endless)
    await own.start_server()
    path.write_text(f"calendars: {{company: {{url: '{own.make_url('/c.ics')}'}}}}")

    await followed.becomes(True, of=lambda: "company" in followed.feeds.calendars and bool(followed.problem()))
    problem = followed.problem()  # before the feed is looked at again, without its server
    await own.close()

    assert "longer than" in problem
    assert sent < 4 * BYTES_MAX


async def test_a_small_packed_feed_that_stands_for_much_more_is_not_unpacked_to_its_end(followed, path):
    packed = gzip.compress(b"X" * 2**28)

    async def answer(_):
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    own = TestServer(web.Application())
    own.app.router.add_get("/c.ics", answer)
    await own.start_server()
    path.write_text(f"calendars: {{company: {{url: '{own.make_url('/c.ics')}'}}}}")

    await followed.becomes(True, of=lambda: "company" in followed.feeds.calendars and bool(followed.problem()))
    problem = followed.problem()
    await own.close()

    assert f"its answer is longer than {BYTES_MAX} bytes" == problem


async def test_a_feed_that_never_ends_is_given_up(followed, path):
    async def slow(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"BEGIN:VCALENDAR\r\n")
            await asyncio.sleep(0.01)

    own = TestServer(web.Application())
    own.app.router.add_get("/c.ics", slow)
    await own.start_server()
    path.write_text(f"calendars: {{company: {{url: '{own.make_url('/c.ics')}', timeoutSeconds: 0.3}}}}")

    await followed.becomes(
        "it gave no answer within 0.3 s", of=lambda: "company" in followed.feeds.calendars and followed.problem()
    )
    await own.close()


async def test_nobody_listens(followed, path):
    path.write_text("calendars: {company: {url: 'http://127.0.0.1:9/c.ics'}}")

    await followed.becomes(
        "it cannot be reached: Connection refused",
        of=lambda: "company" in followed.feeds.calendars and followed.problem(),
    )


async def test_reading_leaves_the_event_loop_to_others():
    text = ics(*[f"SUMMARY:{number}|DTSTART;VALUE=DATE:20261224" for number in range(2000)])
    longest, turns = 0.0, 0
    reading = asyncio.create_task(read_in_process(text, around(NOW)))
    while not reading.done():
        begun = time.thread_time()  # CPU of this thread, since other work must not decide
        await asyncio.sleep(0.01)
        longest, turns = max(longest, time.thread_time() - begun), turns + 1

    assert turns > 5  # the process takes longer to start
    assert 2000 == len(await reading)
    assert longest < 0.5


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            "import time; time.sleep(60)",
            "got less than 1 s of the processor in 3 s: see whether the operator's node is",
        ),
        ("import os; os.kill(os.getpid(), 9)", "was killed: see whether the operator has enough memory"),
        ("print('{')", "ended without an answer, with 0: report it with the calendar's text"),
        ("import os; os.abort()", "ended without an answer, with -6: report it"),
    ],
)
async def test_what_the_process_does_not_say_itself_is_told_as_what_it_is(program, told, monkeypatch):
    start = asyncio.create_subprocess_exec
    monkeypatch.setattr(
        asyncio, "create_subprocess_exec", lambda *_, **options: start(sys.executable, "-c", program, **options)
    )

    with pytest.raises(UnansweredError) as raised:
        await read_in_process(ics(CLOSED), around(NOW), seconds=1)

    assert told in str(raised.value)


@pytest.mark.slow
async def test_a_rule_that_takes_for_ever_ends_with_its_process():
    """Every hour since the year 1: 17 million steps before today."""
    text = ics("DTSTART:00010101T000000Z|DURATION:PT1H|RRULE:FREQ=HOURLY;BYMINUTE=0,1,2,3,4,5,6,7,8,9")

    with pytest.raises(IcsError) as raised:
        await read_in_process(text, around(NOW), seconds=2, wait_factor=60)

    assert "its events cannot be expanded within 2 s: shorten rules" in str(raised.value)
    assert not isinstance(raised.value, UnansweredError)
