"""cronhpa.sources.prometheus: the number of an object in a Prometheus answer, or why there is none."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.core.model.observation import Absent
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.prometheus import read_vector

NOON = parse_instant("2026-03-01T12:00:00Z")
LABELS = ("namespace", "deployment")
HISTOGRAM = (
    b'{"status":"success","data":{"resultType":"vector","result":'
    b'[{"metric":{"namespace":"prod","deployment":"shop"},"histogram":[1,{}]}]}}'
)
LABELS_IN_A_LIST = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":[],"value":[1,"1"]}]}}'


def vector(*series):
    result = [{"metric": metric, "value": [NOON / SECOND - age, number]} for metric, number, age in series]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def shop(number, age=0.0, namespace="prod", deployment="shop"):
    return ({"namespace": namespace, "deployment": deployment, "more": "x"}, number, age)


def value(body, labels=LABELS, of=("prod", "shop"), now=NOON):
    return read_vector(body, labels).value(of, now, 120)


def test_a_number_is_read_in_thousandths():
    assert 1235 == value(vector(({}, "1.2346", 0)), (), ())
    assert 7000 == value(json.dumps({"status": "success", "data": {
        "resultType": "scalar", "result": [NOON / SECOND, "7"]}}).encode(), (), ())  # fmt: skip


def test_of_an_answer_about_many_objects_each_gets_its_own():
    body = vector(shop("3"), shop("4", namespace="test"), shop("5", deployment="cart"))

    assert [3000, 4000, 5000] == [value(body, of=of) for of in (("prod", "shop"), ("test", "shop"), ("prod", "cart"))]


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        (vector(), "NoSeries", 'no series of its query\'s answer has namespace="prod", deployment="shop"'),
        (vector(({}, "3", 0)), "NoSeries", "no series"),
        (vector(shop("3"), shop("3")), "NotOne", "several series for one object"),
        (vector(shop("NaN")), "NoNumber", "its number is nan"),
        (vector(shop("+Inf")), "NoNumber", "its number is inf"),
        (vector(shop("-Inf")), "NoNumber", "its number is -inf"),
        (vector(shop("many")), "NoNumber", "'many' is no number"),
        (vector(shop("1_000")), "NoNumber", "'1_000' is no number"),
        (vector(shop("\u0664\u0662")), "NoNumber", "is no number"),
        (vector(shop("-0.001")), "Negative", "below zero"),
        (vector(shop("1e17")), "TooLarge", "larger than any quantity"),
        (vector(shop("3", age=121)), "Stale", "more than 120 s away from the operator's clock"),
        (vector(shop("3", age=-121)), "Stale", "more than 120 s away"),
        (vector(shop("3", age=float("inf"))), "Malformed", "none of Prometheus' HTTP API"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "NoNumbers", "gives a matrix"),
        (HISTOGRAM, "NoNumber", "'a histogram' is no number"),
        (b'{"status":"error","error":"no\\nway"}', "QueryRefused", r"refused the query: no\u000away"),
        (LABELS_IN_A_LIST, "Malformed", "none of Prometheus' HTTP API"),
        (b"<html>", "Malformed", "none of Prometheus' HTTP API"),
        (b"[" * 100_000, "Malformed", "none of Prometheus' HTTP API"),
        (b"\xff", "Malformed", "none of Prometheus' HTTP API"),
        (b"{}", "Malformed", "none of Prometheus' HTTP API"),
        (b"", "Malformed", "none of Prometheus' HTTP API"),
    ],
)  # fmt: skip
def test_what_is_no_number_of_the_object_is_none_with_the_reason(body, reason, words):
    try:
        number = value(body)
    except NoAnswerError as error:
        number = Absent(error.reason, error.message)

    assert isinstance(number, Absent)
    assert reason == number.reason
    assert words in number.message


def test_where_one_number_is_meant_two_series_are_none():
    number = value(vector(({"a": "1"}, "3", 0), ({"a": "2"}, "4", 0)), (), ())

    assert isinstance(number, Absent)
    assert "several series where one is meant, such as a sum(...) of them" in number.message


def many(series, count):
    return vector().replace(b"[]", b"[" + b",".join([series] * count) + b"]")


def test_a_series_of_a_dozen_labels_for_each_of_twenty_thousand_objects_is_read():
    """Of a series 11 commas between labels, one before its value and one in it, and one behind it: 14 x 20,000."""
    labels = ",".join(f'"label{number}":"x"' for number in range(12))
    body = many(f'{{"metric":{{{labels}}},"value":[1,"2"]}}'.encode(), 20_000)

    assert 14 * 20_000 == pytest.approx(body.count(b","), abs=3)
    assert "NotOne" == value(body, ("label0",), ("x",)).reason


def test_an_answer_of_more_series_than_twenty_thousand_objects_have_is_not_decoded():
    """Found: eight mebibytes of `{}` took 286 MiB, and kept the interpreter for 0.3 s."""
    with pytest.raises(NoAnswerError, match="its answer has more series or labels than 20,000 objects need") as raised:
        read_vector(many(b"{}", 300_002), LABELS)

    assert "TooLarge" == raised.value.reason


def test_series_are_decoded_one_by_one():
    """A series that is not decoded yet takes 65 bytes with its place in the list. All of them decoded took 455 each."""
    body = many(b'{"metric":{"namespace":"prod","deployment":"shop"},"value":[1772366400,"42"]}', 20_000)
    tracemalloc.start()
    try:
        read_vector(body, LABELS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * 65 * 20_000


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(["success", "vector", "1", "NaN"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "data", "resultType", "result", "metric", "value"]), inner, max_size=4
        )
    ),
)


@given(JSON)
def test_any_json_is_a_number_from_zero_on_or_an_absence(document):
    try:
        number = value(json.dumps(document).encode(), (), ())
    except NoAnswerError:
        return
    assert isinstance(number, Absent) or number >= 0
