"""A store that tests of the history fill."""

from __future__ import annotations

import pytest

from cronhpa.history.store import Store


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "history.db")
    yield opened
    opened.close()
