"""cronhpa.kube.shard_scope: the shard of a namespace, and the selector that a server divides by."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.kube.errors import ClusterError
from cronhpa.kube.shard_scope import ShardScope, shard_of, shard_selector

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=63)
RANGE = re.compile(r"shardRange\(object\.metadata\.namespace, '(0x[0-9a-f]{16,17})', '(0x[0-9a-f]{16,17})'\)")


def hashed(text):
    """FNV-1a of 64 bits, by the definition in the draft of its authors (draft-eastlake-fnv)."""
    value = 14695981039346656037
    for byte in text.encode():
        value = ((value ^ byte) * 1099511628211) & (2**64 - 1)
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    # The test vectors of the draft.
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_the_hash_that_the_tests_compare_with_is_fnv_1a(text, expected):
    assert expected == hashed(text)


@given(NAMES, st.integers(1, 64))
def test_a_shard_is_the_range_of_the_hash_that_its_selector_states(namespace, shards):
    shard = shard_of(namespace, shards, by_server=True)
    ((begin, end),) = RANGE.findall(shard_selector({shard}, shards))

    assert int(begin, 16) <= hashed(namespace) < int(end, 16)


@given(st.integers(2, 64), st.data())
def test_a_selector_covers_its_shards_and_no_other(shards, data):
    held = data.draw(st.sets(st.integers(0, shards - 1), min_size=1))
    namespaces = data.draw(st.lists(NAMES, min_size=20, max_size=20))
    ranges = [(int(begin, 16), int(end, 16)) for begin, end in RANGE.findall(shard_selector(held, shards))]

    for namespace in namespaces:
        covered = any(begin <= hashed(namespace) < end for begin, end in ranges)
        assert covered == (shard_of(namespace, shards, by_server=True) in held)


def test_shards_side_by_side_are_one_range():
    assert (
        "shardRange(object.metadata.namespace, '0x0000000000000000', '0x3000000000000000') || "
        "shardRange(object.metadata.namespace, '0xf000000000000000', '0x10000000000000000')"
    ) == shard_selector({0, 1, 2, 15}, 16)


def test_one_shard_is_everything_and_asks_for_no_part():
    scope = ShardScope()

    assert scope.holds("any")
    assert scope.is_whole
    assert not scope.is_empty
    assert {} == scope.params()


def test_a_scope_reports_each_change_and_holds_the_given_shards():
    scope, told = ShardScope(16, by_server=True), []
    scope.on_change(lambda: told.append(scope.version))
    assert scope.is_empty
    assert not scope.holds("shop")

    scope.hold({scope.shard_of("shop")})

    assert scope.holds("shop")
    assert [1] == told
    assert list(scope.params()) == ["shardSelector"]
    assert 2 == scope.hold(range(16))
    assert {} == scope.params()


def test_a_server_that_refuses_the_selector_is_not_sent_it_again_and_other_faults_change_nothing():
    scope = ShardScope(16, by_server=True)
    scope.hold({scope.shard_of("shop")})
    scope.note_refusal(ClusterError(500, "InternalError", "no"))
    assert scope.params()

    scope.note_refusal(ClusterError(400, "BadRequest", "unknown function shardRange"))

    assert {} == scope.params()
    assert scope.holds("shop")


@pytest.mark.parametrize("pattern", ["team-{}", "fleet-{:02}", "tenant-{:03}", "{}-prod"])
def test_numbered_namespaces_are_in_all_shards(pattern):
    """100 names, 6 a shard on average."""
    held = Counter(shard_of(pattern.format(number), 16) for number in range(100))

    assert 16 == len(held)
    assert max(held.values()) <= 15


def test_by_the_servers_hash_numbered_namespaces_share_a_shard():
    """The reason against it as the default: the last characters of a name hardly change the upper bits of FNV-1a."""
    assert 2 == len({shard_of(f"team-{number}", 16, by_server=True) for number in range(100)})


def test_without_the_servers_hash_the_server_is_asked_for_everything():
    scope = ShardScope(16)
    scope.hold({3})

    assert {} == scope.params()
