"""
How `make test` gives its tests to pytest-xdist's workers.

Two workers begin with the cluster tests, a file at a time, so that two control planes run and not one for each worker.
The others take all other tests by file, and large files in parts: whoever is free takes the next, and none ends long
after the rest. They run at a lower priority, because what a cluster test waits for has a time limit. It is a little
lower only: from a much lower one they, and the product's workers, which go down by ten more, hardly run beside others.
"""

from __future__ import annotations

import gc
import os
from itertools import groupby

import pytest
from xdist.scheduler import LoadScopeScheduling

CLUSTER = "tests/cluster/"
CONTROL_PLANES = 2
TESTS_IN_A_UNIT = 20
NICE = 3


def units_of(tests: list[str]) -> dict[str, str]:
    """The unit of work of each test by its node id: its file, or a numbered part of it."""
    units = {}
    for file, of_file in groupby(tests, key=lambda test: test.partition("::")[0]):
        # A file of cluster tests breaks and mends one control plane: it stays whole.
        size = len(tests) if file.startswith(CLUSTER) else TESTS_IN_A_UNIT
        units |= {test: f"{file} {number // size}" for number, test in enumerate(of_file)}
    return units


class ClusterFirst(LoadScopeScheduling):
    """Gives the cluster tests to the first workers and all others to the rest, until one of the two is out."""

    def schedule(self) -> None:
        """Called when each worker has collected, and again when one is added."""
        if self.collection is None:
            self._units = units_of(next(iter(self.registered_collections.values())))
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]

    def _assign_work_unit(self, node) -> None:
        is_for_cluster = node in self.nodes[:CONTROL_PLANES]
        own = [unit for unit in self.workqueue if unit.startswith(CLUSTER) == is_for_cluster]
        if own:
            self.workqueue.move_to_end(own[0], last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)  # one process without workers runs the tests, too
def pytest_xdist_make_scheduler(config, log):
    """The hook by which pytest-xdist takes a scheduler."""
    config.option.loadscopereorder = False
    return ClusterFirst(config, log)


def pytest_collection_finish():
    """What thousands of collected tests hold stays to the end: the collector need not look through it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Lowers the priority of a worker at its first test that needs no control plane."""
    in_worker, is_lowered = hasattr(item.config, "workerinput"), os.nice(0) >= NICE
    if in_worker and not is_lowered and not item.nodeid.startswith(CLUSTER):
        os.nice(NICE)
