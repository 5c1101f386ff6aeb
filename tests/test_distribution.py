"""tests/distribution.py: which tests one worker of `make test` runs together."""

from __future__ import annotations

from collections import Counter

from distribution import TESTS_IN_A_UNIT, units_of


def test_a_file_of_cluster_tests_is_never_parted():
    tests = [f"tests/cluster/test_a.py::test[{number}]" for number in range(2 * TESTS_IN_A_UNIT)]

    assert 1 == len(set(units_of(tests).values()))


def test_other_tests_go_out_by_file_and_a_large_one_in_parts():
    small = [f"tests/core/test_a.py::test[{number}]" for number in range(3)]
    large = [f"tests/core/test_b.py::test[{number}]" for number in range(TESTS_IN_A_UNIT + 4)]

    sizes = Counter(units_of([*small, *large]).values())

    assert [3, TESTS_IN_A_UNIT, 4] == list(sizes.values())
