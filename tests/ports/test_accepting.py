"""cronhpa.ports.accepting: which connection gives way to a new one."""

from types import SimpleNamespace

import pytest

from cronhpa.ports.accepting import gives_way


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
