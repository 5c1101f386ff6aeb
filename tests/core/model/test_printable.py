"""Texts from outside are shown without effects on a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.printable import printable, shortened, without_secrets, without_url_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("läuft, 10\u00a0000 店 🎄", "läuft, 10\u00a0000 店 🎄"),
        ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
        ("\x9b2J", "\\u009b2J"),
        ("a\r\nb\tc", "a\\u000d\\u000ab\\u0009c"),
        ("\u2028\u2029\x85", "\\u2028\\u2029\\u0085"),
        ("\u202etxt.exe\u2066", "\\u202etxt.exe\\u2066"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_not_shown_stands_as_json_escapes_it(text, shown):
    assert shown == printable(text)


@given(st.text())
def test_what_is_printable_holds_no_character_that_does_something(text):
    assert {unicodedata.category(character)[0] for character in printable(text)} <= set("LMNPSZ")
    assert not {"\u2028", "\u2029"} & set(printable(text))


@given(st.text(), st.booleans())
def test_json_stays_the_same_json(text, ascii_alone):
    assert text == json.loads(printable(json.dumps(text, ensure_ascii=ascii_alone)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http://alice:s3cr3t@prometheus:9090/x", "http://prometheus:9090/x"),
        ("https://alice@x and http://b:p@ss@y", "https://x and http://y"),
        ("'tls://u:p@[::1]:8786'", "'tls://[::1]:8786'"),
        ("http://x/a@b?c@d", "http://x/a@b?..."),
        ('get "https://x/a?token=s3cr3t": 503', 'get "https://x/a?...": 503'),
        ("http://x?token=s3cr3t#s3cr3t and http://y#s3cr3t", "http://x?... and http://y#..."),
        ("http://u:p\"@x/a, http://u:p'@[::1]:1/b?", "http://x/a, http://[::1]:1/b?"),
        ("mail a@b", "mail a@b"),
    ],
)
def test_an_address_is_told_without_user_password_and_query(text, told):
    assert told == without_url_secrets(text)


@given(st.text(), st.integers(3, 20))
def test_a_text_is_told_to_its_end_or_says_that_there_is_more(text, length):
    told = shortened(text, length)

    assert len(told) <= length
    assert told == text or (len(text) > length and told.endswith("...") and text.startswith(told[:-3]))


@pytest.mark.parametrize("secret", ["hunter2-hunter2", 'q"uote\\d', "schlüssel", "a/b+c=="])
def test_an_answer_that_repeats_a_login_is_told_without_it(secret):
    """As it stands, and as JSON writes it, with letters beyond ASCII escaped or not."""
    for said in (secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        body = f"no user has {said}".encode()

        assert b"no user has" == without_secrets(body, [secret])[:11]
        assert secret.encode() not in without_secrets(body, [secret])
        assert json.dumps(secret)[1:-1].encode() not in without_secrets(body, [secret])


def test_an_answer_keeps_its_words_where_a_secret_is_too_short_to_be_one():
    assert b"a bad query" == without_secrets(b"a bad query", ["a", ""])
