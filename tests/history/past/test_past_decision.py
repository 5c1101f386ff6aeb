"""
cronhpa.history.past.past_decision, cronhpa.history.past.json_lines: what is packed comes back; what is damaged is
named.
"""

import gzip
import json
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from core.situations import situations
from cronhpa.core.model.record import Record, decode, encode
from cronhpa.history.past.json_lines import BYTES_MAX
from cronhpa.history.past.past_decision import PastDecision, is_full, pack, unpack

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["2026-11-23T08:00:00Z", "007", "\0", "a\nb", "a\u2028b"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
texts = plain.map(lambda value: Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")))
decisions = st.builds(
    PastDecision,
    at=st.integers(0, 2**63 - 1),
    body=texts,
    inputs=texts,
    release=st.text(alphabet="0123456789.rc", max_size=8),
    left_out=st.integers(0, 10**6),
)


@given(st.lists(decisions, min_size=1, max_size=6))
def test_packed_decisions_are_unpacked_to_the_last_byte(several):
    """Numbers of any length, line ends and a zero character among the texts of people included."""
    assert several == unpack(pack(several))


@pytest.mark.slow
@given(st.lists(situations(), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_the_reconciliation_of_any_situation_comes_back_as_the_same_record(several):
    records = [Record(spec, seen, None, memory, now) for spec, seen, _, memory, now in several]  # JSON has no NaN
    kept = [PastDecision(record.now, Raw(b"{}"), Raw(encode(record).encode())) for record in records]

    assert records == [decode(bytes(record.inputs)) for record in unpack(pack(kept))]


block = pack([PastDecision(7, Raw(b'{"a":[1,2]}')), PastDecision(8, Raw(b'{"a":[1,3]}'))])


def test_zcat_reads_a_block():
    told = subprocess.run(["zcat"], input=block, capture_output=True, check=True).stdout

    assert [
        {"at": 7, "body": {"a": [1, 2]}, "inputs": None, "release": "", "left_out": 0},
        {"at": 8, "body": {"a": [1, 3]}, "inputs": None, "release": "", "left_out": 0},
    ] == [json.loads(line) for line in told.splitlines()]


def test_a_block_is_full_at_128_kib_of_json():
    """Two decisions without inputs, 4 bytes of `null` each: 7 + 4 + 131,057 + 4 = 131,072 = 2 ** 17."""

    def of(length):
        return PastDecision(7, Raw(b'"' + b"x" * (length - 2) + b'"'))

    assert not is_full([of(7), of(131_056)])
    assert is_full([of(7), of(131_057)])


def problem_of(read, data):
    """The first word of the ValueError, None where it is read; any other error is the test's."""
    try:
        assert read(data)
    except ValueError as problem:
        return str(problem).split()[0]
    return None


@given(st.integers(0, len(block) - 1), st.integers(0, 255))
def test_a_damaged_block_is_named_or_read_and_nothing_else(place, byte):
    damaged = block[:place] + bytes([byte]) + block[place + 1 :]

    assert problem_of(unpack, damaged) in {None, "decisions"}


@given(st.binary(max_size=200))
def test_any_bytes_are_named_as_damaged(data):
    for text in (data, block[:10] + data, gzip.compress(data)):
        with pytest.raises(ValueError, match="decisions"):
            unpack(text)


@pytest.mark.parametrize("length", range(len(block)))
def test_a_block_that_is_cut_off_is_named(length):
    with pytest.raises(ValueError, match=r"decisions are (cut off|damaged)"):
        unpack(block[:length])


def test_a_small_block_that_unpacks_to_gigabytes_is_not_unpacked():
    bomb = gzip.compress(bytes(BYTES_MAX + 1))

    with pytest.raises(ValueError, match="more than 16777216 bytes"):
        unpack(bomb)
