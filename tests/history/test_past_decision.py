"""cronhpa.history.past_decision: what is packed comes back, byte for byte; what is damaged is told."""

import hashlib
import json
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from core.situations import situations
from cronhpa.core.record import Record, decode, encode
from cronhpa.history.past_decision import BLOB_BYTES_MAX, NOTHING, PastDecision, pack, unpack
from history.decision_dictionary import FILE, OBJECTS, dictionary
from history.decision_dictionary import decisions as examples

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["2026-11-23T08:00:00Z", "007", "p95 load 15.27 within 75 s / 0.45 per pod = 34", "\0", "=1,-2"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
texts = plain.map(lambda value: Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")))
decisions = st.builds(
    PastDecision,
    at=st.integers(0, 2**63 - 1),
    body=texts,
    turn=texts,
    release=st.text(alphabet="0123456789.rc", max_size=8),
    left_out=st.integers(0, 10**6),
)


@given(st.lists(decisions, min_size=1, max_size=6))
def test_packed_decisions_are_unpacked_to_the_last_byte(several):
    """Leading zeros, numbers of any length and a zero character among the texts of people included."""
    assert several == unpack(pack(several))


@given(st.lists(situations(), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_the_turn_of_any_situation_comes_back_as_the_same_record(several):
    records = [Record(spec, seen, None, memory, now) for spec, seen, _, memory, now in several]  # JSON has no NaN
    kept = [PastDecision(record.now, Raw(b"{}"), Raw(encode(record).encode())) for record in records]

    assert records == [decode(bytes(record.turn)) for record in unpack(pack(kept))]


def test_decisions_that_differ_in_their_numbers_alone_take_a_few_bytes_each():
    """The skeleton is written once, equal numbers once, others as steps: two bytes for each of a hundred."""

    def decision(number):
        body = {"status": {"desiredReplicas": number, "time": 10**18 + 15 * 10**9 * number}}
        return PastDecision(10**18 + 15 * 10**9 * number, Raw(json.dumps(body).encode()), NOTHING, "0.1.0")

    assert len(pack([decision(number) for number in range(100)])) < len(pack([decision(1)])) + 2 * 100


blob = pack([PastDecision(7, Raw(b'{"a":[1,2]}')), PastDecision(8, Raw(b'{"a":[1,3]}'))])


def problem_of(read, data):
    """The first word of the ValueError, None where it is read; any other error is the test's."""
    try:
        assert read(data)
    except ValueError as problem:
        return str(problem).split()[0]
    return None


@given(st.integers(0, len(blob) - 1), st.integers(0, 255))
def test_a_damaged_blob_is_named_or_read_and_nothing_else(place, byte):
    damaged = blob[:place] + bytes([byte]) + blob[place + 1 :]

    assert problem_of(unpack, damaged) in {None, "decisions"}


@given(st.binary(max_size=200))
def test_any_bytes_are_named_as_damaged_or_read(data):
    for text in (data, blob[:1] + data):
        with pytest.raises(ValueError, match="decisions"):
            unpack(text)


@pytest.mark.parametrize("length", range(1, len(blob)))
def test_a_blob_that_is_cut_off_is_named(length):
    with pytest.raises(ValueError, match=r"decisions are (cut off|damaged)"):
        unpack(blob[:length])


def test_a_small_blob_that_unpacks_to_gigabytes_is_not_unpacked():
    bomb = blob[:1] + zlib.compress(bytes(BLOB_BYTES_MAX + 1))

    with pytest.raises(ValueError, match="more than 16777216 bytes"):
        unpack(bomb)


def test_a_form_of_a_later_release_is_named():
    with pytest.raises(ValueError, match=r"written in form b'\\t': this release reads forms up to b'\\x02'"):
        unpack(b"\t" + blob[1:])


@pytest.mark.parametrize(
    ("name", "digest"),
    [("decision_dictionary.txt", "3e6ecf89cb4bf6be"), ("decision_dictionary_2.txt", "caaa72461ce4b010")],
)
def test_the_dictionary_of_each_form_is_the_one_that_blobs_were_written_with(name, digest):
    """Another dictionary needs another form: no blob of this one could be read any more."""
    assert digest == hashlib.sha256(FILE.with_name(name).read_bytes()).hexdigest()[:16]


def test_a_blob_of_the_first_form_is_read():
    first = bytes.fromhex(
        "0178bbd787fe3b9b3ce96614894318484315f8c7176a6b5756c3ec99346991add1625b2383898b6ccd274e65"
        "67605c6aa067a867c00000a6312be2"
    )

    assert [
        PastDecision(
            7,
            Raw(b'{"metadata":{"namespace":"default","name":"app"},"spec":{"minReplicas":2,"maxReplicas":20}}'),
            Raw(b'{"now":7}'),
            "0.1.0",
        )
    ] == unpack(first)


def test_the_dictionary_is_near_enough_to_what_is_decided_today():
    """Single decisions of its own examples take at most a sixth more than under a dictionary of today."""
    today = dictionary()
    packed = [pack([example]) for text, readings in OBJECTS for example in examples(text, readings)]

    def packed_today(blob):
        packing = zlib.compressobj(zdict=today)
        plain = zlib.decompressobj(zdict=FILE.read_bytes()).decompress(blob[1:])
        return len(packing.compress(plain)) + len(packing.flush())

    assert 6 * sum(map(len, packed)) <= 7 * sum(map(packed_today, packed))
