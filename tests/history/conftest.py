"""A store that tests of the history fill, in each database that it may be in."""

from __future__ import annotations

import pytest

from cronhpa.history.store import Store

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session", params=DATABASES)
def new_address(request, tmp_path_factory):
    """A function that returns the address of a new empty store in one of the databases at each call."""
    if request.param == "postgresql":
        return request.getfixturevalue("new_schema")
    return lambda: tmp_path_factory.mktemp("store") / "history.db"


@pytest.fixture
def address(new_address):
    return new_address()


@pytest.fixture
def store(address):
    opened = Store(address)
    yield opened
    opened.close()


@pytest.fixture
def file_store(tmp_path):
    """A store that is a file."""
    opened = Store(tmp_path / "history.db")
    yield opened
    opened.close()
