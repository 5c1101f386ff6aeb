"""cronhpa.sources.url: the number in an answer, or why there is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import SECOND
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.url import UrlDefinition, read_number
from sources.answering_sources import NOON

# The answers that KEDA's own test of its metrics-api trigger has.
JSON = b'{"components":[{"id": "82328e93e", "tasks": 32, "str": "64", "k":"1k","wrong":"NaN"}],"count":2.43}'
YAML = b"{components: [{id: 82328e93e, tasks: 32, str: '64', k: 1k, wrong: NaN}], count: 2.43}"
PAGE = b"""\
# HELP queue_size Total number of items
# TYPE queue_size gauge
queue_size{queue="zero"} 0
queue_size{queue="one"} 1
queue_size{queue="two",instance="a"} 2
queue_size{queue="two",instance="b"} 20
# TYPE done_total counter
done_total 10
untyped_size 10\r
old_size 7 1000
"""


def read(body, kind="text/plain", **fields):
    return read_number(body, kind, UrlDefinition.model_validate({"url": "http://h/", **fields}), NOON / SECOND)


def why(body, kind="text/plain", **fields):
    with pytest.raises(NoAnswerError) as none:
        read(body, kind, **fields)
    return none.value.reason, none.value.message


@pytest.mark.parametrize(("format_", "body"), [("json", JSON), ("yaml", YAML)])
@pytest.mark.parametrize(
    ("value", "milli"),
    [
        ("count", 2430),
        ("components.0.tasks", 32_000),
        ("components.0.str", 64_000),
        ("components.0.k", 1_000_000),
        ("components.#", 1000),
    ],
)
def test_a_path_finds_a_number_or_a_quantity_as_keda_reads_it(format_, body, value, milli):
    assert milli == read(body, format=format_, value=value)


@pytest.mark.parametrize(
    ("body", "milli"),
    [(b"42", 42_000), (b" 1.5e3\n", 1_500_000), (b"\xef\xbb\xbf0", 0), (b"250m", 250), (b"1Ki", 1_024_000)],
)
def test_a_text_alone_is_a_number_or_a_quantity(body, milli):
    assert milli == read(body, format="text")


@pytest.mark.parametrize(
    ("fields", "milli"),
    [
        ({"metric": "queue_size", "labels": {"queue": "one"}}, 1000),
        ({"metric": "queue_size", "labels": {"queue": "two", "instance": "b"}}, 20_000),
        ({"metric": "queue_size", "combine": "sum"}, 23_000),
        ({"metric": "queue_size", "combine": "max"}, 20_000),
        ({"metric": "queue_size", "labels": {"queue": "two"}, "combine": "average"}, 11_000),
        ({"metric": "untyped_size"}, 10_000),
    ],
)
def test_a_page_has_a_sample_or_several_that_are_combined(fields, milli):
    assert milli == read(PAGE, format="prometheus", **fields)


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        (b"", "NoNumber", "its answer is empty"),
        (b" \n", "NoNumber", "its answer is empty"),
        (b"<html>internal</html>", "Malformed", "its answer is no JSON"),
        (b'{"a": 1} trailing', "Malformed", "its answer is no JSON"),
        (b'{"a": NaN}', "Malformed", "its answer is no JSON"),
        (b'{"a": Infinity}', "Malformed", "its answer is no JSON"),
        (b'{"a": 1', "Malformed", "its answer is no JSON"),
        (b"\xff", "Malformed", "its answer is no JSON"),
        (b"[" * 100_000, "Malformed", "its answer is no JSON"),
        (b"{}", "NoSuchPath", "its answer has no a"),
        (b"[1]", "NoSuchPath", "its answer has no a"),
        (b"7", "NoSuchPath", "its answer has no a"),
        (b'{"a": null}', "NoNumber", "a is null, and no number"),
        (b'{"a": true}', "NoNumber", "a is true or false, and no number"),
        (b'{"a": [1]}', "NoNumber", "a is an array, and no number"),
        (b'{"a": {"b": 1}}', "NoNumber", "a is an object, and no number"),
        (b'{"a": ""}', "NoNumber", "a is a text that is no number and no quantity"),
        (b'{"a": "NaN"}', "NoNumber", "a is a text that is no number and no quantity"),
        (b'{"a": "+Inf"}', "NoNumber", "a is a text that is no number and no quantity"),
        (b'{"a": "secret\\nevil"}', "NoNumber", "a is a text that is no number and no quantity"),
        (b'{"a": -1}', "Negative", "its number is below zero"),
        (b'{"a": "-1"}', "Negative", "its number is below zero"),
        (b'{"a": 1e300}', "TooLarge", "its number is larger than any quantity"),
        (b'{"a": ' + b"9" * 400 + b"}", "TooLarge", "its number is larger than any quantity"),
    ],
)
def test_what_is_no_number_is_none_with_the_reason(body, reason, words):
    problem = why(body, value="a")

    assert reason == problem[0]
    assert words in problem[1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"a: .nan", "NoNumber"),
        (b"a: .inf", "NoNumber"),
        (b"a: -.inf", "NoNumber"),
        (b"a: !!python/object/apply:os.system [ls]", "Malformed"),
        (b"a: !!int x", "Malformed"),
        (b"a: &a [*a]", "NoNumber"),
        (b"a: 1\n---\na: 2", "Malformed"),
        (b"a: [" + b"1," * 11_000 + b"1]", "Malformed"),
        (b"a: 2026-01-01", "NoNumber"),
        (b"\xff", "Malformed"),
        (b"a: [", "Malformed"),
    ],
)
def test_a_yaml_that_is_no_good_is_no_value(body, reason):
    assert reason == why(body, format="yaml", value="a")[0]


@pytest.mark.parametrize("body", [b"NaN", b"inf", b"1 2", b"<html>", b"1,5", b"0x10", b"\xff\xfe1"])
def test_a_text_that_is_no_number_is_none_and_is_not_repeated(body):
    reason, words = why(body, format="text")

    assert reason in {"NoNumber", "Malformed"}
    assert words in {"its answer is a text that is no number and no quantity", "its answer is no UTF-8 text"}


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        ({"metric": "queue_size"}, "NotOne", "its page has several samples of queue_size"),
        ({"metric": "gone"}, "NoSample", "its page has no gone"),
        ({"metric": "queue_size", "labels": {"queue": "none"}}, "NoSample", 'no queue_size with queue="none"'),
        ({"metric": "done_total"}, "Counter", "done_total counts up from a start, and its rate alone is a load"),
        ({"metric": "old_size"}, "Stale", "more than 120 s away"),
    ],
)
def test_a_page_without_the_one_sample_is_no_value(fields, reason, words):
    problem = why(PAGE, format="prometheus", **fields)

    assert reason == problem[0]
    assert words in problem[1]


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-1"])
def test_a_sample_that_is_no_load_is_no_value(number):
    assert why(f"m {number}\n".encode(), format="prometheus", metric="m")[0] in {"NoNumber", "Negative"}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


def answered(document, **fields):
    try:
        return read(json.dumps({"a": document}).encode(), value="a", **fields)
    except NoAnswerError as none:
        return none


@given(JSON_VALUES, st.sampled_from(["json", "yaml"]))
def test_any_answer_is_a_load_or_refused(document, format_):
    answer = answered(document, format=format_)

    assert answer.message.isprintable() if isinstance(answer, NoAnswerError) else answer >= 0
