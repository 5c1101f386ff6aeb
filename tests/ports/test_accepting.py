"""cronhpa.ports.accepting: at which addresses a port listens, and which connection gives way to a new one."""

import socket
from contextlib import closing
from types import SimpleNamespace

import pytest

from cronhpa.ports.accepting import gives_way, listening_socket


@pytest.mark.parametrize(
    ("peer", "held", "place"),
    [
        ("a", "", None),
        ("a", "ab", None),
        ("a", "aab", 0),
        ("b", "aab", None),
        ("c", "aabb", 0),
        ("c", "abb", None),
        ("c", "baba", 0),
        ("c", "babx", 0),
    ],
    ids=[
        "an empty port",
        "room for all",
        "an address that has all it may",
        "another address beside it",
        "no room, the oldest of those who hold most",
        "one place is left",
        "the oldest holds as many as the other",
        "the oldest of the address that holds most",
    ],
)
def test_the_oldest_of_the_address_that_holds_most_gives_way(peer, held, place):
    """Four places, two for one address; each letter is a connection of that address, the oldest first."""
    connections = [SimpleNamespace(peer=peer) for peer in held]

    chosen = gives_way(peer, connections, connections=4, per_peer=2)

    assert chosen is (None if place is None else connections[place])


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_all_addresses_are_those_of_both_families(family):
    """Found: the operator listened at IPv4 alone, so in a cluster of IPv6 no probe reached it, and it never started."""
    with closing(listening_socket("::", 0)) as listening, socket.socket(family) as caller:
        port = listening.getsockname()[1]
        caller.connect(("127.0.0.1" if family is socket.AF_INET else "::1", port))


def test_without_ipv6_all_addresses_are_those_of_ipv4(monkeypatch):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    with closing(listening_socket("::", 0)) as listening:
        assert "0.0.0.0" == listening.getsockname()[0]
