"""cronhpa.kube.depth: parts that are nested too deep are left out, and nothing else is."""

import json
import re
import time
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cronhpa.kube.depth import DEPTH_MAX, shallow
from kube.fake_api import FakeApi, answering

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_a_shallow_text_stays_as_it_is(value):
    text = json.dumps(value).encode()

    assert text == shallow(text)


# Of what goes deeper than this, the part beyond DEPTH_MAX is left out.
TOO_DEEP = 200


@given(values, st.sampled_from(["[", '{"a\\"[":']), st.integers(1, 12_000))
@example("", "[", TOO_DEEP - 1)
@example("", "[", TOO_DEEP)
def test_a_part_that_is_too_deep_becomes_an_empty_text_and_its_siblings_stay(value, opening, levels):
    closing = "]" if opening == "[" else "}"
    deep = opening * levels + "1" + closing * levels
    text = f'{{"before":{json.dumps(value)},"deep":{deep},"after":{json.dumps(value)}}}'.encode()

    document = msgspec.json.decode(shallow(text))

    assert value == document["before"] == document["after"]
    inner = document["deep"]
    is_whole = levels < TOO_DEEP
    for _ in range(levels if is_whole else DEPTH_MAX - 1):
        inner = inner[0] if isinstance(inner, list) else next(iter(inner.values()))
    assert inner == (1 if is_whole else "")


def token_by_token(text):
    """What `shallow` must return: "" for each part at level DEPTH_MAX + 1 that goes deeper than TOO_DEEP."""
    parts, level, kept, opening, deepest = [], 0, 0, 0, 0
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', text, re.DOTALL):
        if token[0] in b"[{":
            level += 1
            if level == DEPTH_MAX + 1:
                opening, deepest = token.start(), level
            deepest = max(deepest, level)
        elif token[0] in b"]}":
            if level == DEPTH_MAX + 1 and deepest > TOO_DEEP:
                parts += (text[kept:opening], b'""')
                kept = token.end()
            level -= 1
    return b"".join((*parts, text[kept:]))


def written(pieces):
    """JSON of pieces (levels to open, levels to close, text); no more levels are closed than are open."""
    out, open_now = [b"["], 1
    for ups, downs, text in pieces:
        out += [b"[" * ups, json.dumps(text).encode()]
        down = min(downs, open_now + ups - 1)
        out += [b"]" * down, b","]
        open_now += ups - down
    return b"".join((*out, b"1", b"]" * open_now))


levels = st.sampled_from([0, 1, 2, 3, 99, 100, 101, 102, 198, 199, 200, 201, 202, 1200])
texts = st.sampled_from(["", "[", "]]", '"', "\\", '\\"[', "a" * 2050]) | st.text(max_size=5)


@pytest.mark.slow
@given(st.lists(st.tuples(levels, levels, texts), max_size=30))
@settings(max_examples=300)
def test_a_scan_by_blocks_leaves_out_the_same_parts_as_a_scan_by_tokens(pieces):
    text = written(pieces)

    assert token_by_token(text) == shallow(text)


def test_a_text_that_ends_within_a_deep_part_is_no_json():
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(shallow(b"[" * 5000))


@pytest.mark.parametrize("text", [b"a" * 200_000, b'\\"' * 100_000])
@pytest.mark.parametrize("end", [b'"' + b"]" * 1200, b""])
def test_a_long_string_beside_a_deep_part_takes_neither_memory_nor_time(text, end):
    """A status may be as long as an object may be. A string without its end: an answer that was cut off."""
    answer = b"[" * 1200 + b'"' + text + end
    tracemalloc.start()
    begun = time.thread_time()

    shallow(answer)

    seconds, peak = time.thread_time() - begun, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 1
    assert peak < 2 * len(answer)


@pytest.mark.slow
@pytest.mark.parametrize("repeated", ["[],", "[[]],", "[" * 101 + "]" * 101 + ","])
def test_a_megabyte_takes_less_than_half_the_time_of_a_scan_by_tokens(repeated):
    """As long as a status may be: a scan by tokens took half a second of each read, and all objects waited for it."""
    text = ("[" * 99 + repeated * (1_400_000 // len(repeated)) + "1," + "[" * 1500 + "]" * 1599).encode()
    begun = time.thread_time()
    cut = shallow(text)
    between = time.thread_time()
    expected = token_by_token(text)
    taken, by_tokens = between - begun, time.thread_time() - between

    assert expected == cut
    assert taken < by_tokens / 2


async def test_one_object_that_is_too_deep_does_not_end_the_list_of_all():
    deep = '{"metadata":{"name":"deep"},"status":{"memory":' + "[" * 1500 + "]" * 1500 + "}}"
    api = FakeApi()
    api.answers["/apis/x/v1/things"] = answering('{"items":[' + deep + ',{"metadata":{"name":"other"}}]}')
    async with api.client() as client:
        listed = [text async for items, _ in client.pages("/apis/x/v1/things") for text in items]

    assert ["deep", "other"] == [msgspec.json.decode(text)["metadata"]["name"] for text in listed]
