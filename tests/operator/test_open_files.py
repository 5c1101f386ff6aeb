"""The limit of open files: raised where it may be, told of where it is small."""

from __future__ import annotations

import logging
import resource

import pytest

from cronhpa.operator.open_files import open_files, raise_open_files


@pytest.fixture
def limits():
    """Sets the soft limit; the hard one stays, so that the test can give back what it found."""
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda soft: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, found[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, found)


def test_the_soft_limit_is_raised_to_the_hard_one(limits):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits(256)
    assert 256 == open_files()

    raised = raise_open_files()

    assert open_files() == raised
    assert (hard, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)


@pytest.mark.parametrize(("files", "told"), [(1023, ["only 1023 files may be open at once"]), (1024, [])])
def test_a_limit_that_is_too_small_is_told_with_what_to_do(files, told, monkeypatch, caplog):
    """A hard limit that was lowered stays low, so it is the system that is played here."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))

    with caplog.at_level(logging.WARNING):
        assert files == raise_open_files()

    assert told == [record.getMessage().partition(":")[0] for record in caplog.records]


def test_a_hard_limit_that_the_system_does_not_take_is_no_end(limits, monkeypatch):
    """macOS says "unlimited" and refuses it."""

    def refuse(*_):
        raise ValueError("current limit exceeds maximum limit")

    limits(256)
    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", refuse)

        assert 256 == raise_open_files()
