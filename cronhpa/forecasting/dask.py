"""
A dask cluster to fit on, for those who outgrow one machine. Its workers need cronhpa[forecast] of this version.

Imported in worker processes only: dask brings numpy with it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from distributed import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

_CONNECT_SECONDS = 5


@contextmanager
def connected(address: str) -> Iterator[Executor]:
    """The cluster's executor. Raises OSError where its scheduler does not answer."""
    with Client(address, timeout=_CONNECT_SECONDS, set_as_default=False) as client:  # type: ignore[no-untyped-call]  # dask has no types
        # A fit is a pure function of its history, but its history is new each day: nothing would be found in a cache.
        executor: Executor = client.get_executor(pure=False)
        yield executor
