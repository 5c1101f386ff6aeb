"""
A dask cluster to fit on, for fleets that outgrow one machine. Its workers need cronhpa[forecast] of this version.

Dask unpickles what it receives: whoever controls the scheduler can run code in the process that connects to it.
Therefore connections use certificates, and only a worker process connects.

Imported in worker processes only: dask brings numpy with it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from distributed import Client
from distributed.security import Security

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from cronhpa.forecasting.messages import DaskCluster

_CONNECT_SECONDS = 5


@contextmanager
def connected(cluster: DaskCluster) -> Iterator[Executor]:
    """The cluster's executor. Raises OSError if its scheduler does not answer or cannot be authenticated."""
    security = None
    if cluster.scheduler.startswith("tls://"):
        security = Security(  # type: ignore[no-untyped-call]  # dask has no types
            tls_ca_file=cluster.ca_file,
            tls_client_cert=cluster.cert_file,
            tls_client_key=cluster.key_file,
            require_encryption=True,
        )
    with Client(  # type: ignore[no-untyped-call]  # dask has no types
        cluster.scheduler, timeout=_CONNECT_SECONDS, set_as_default=False, security=security
    ) as client:
        # A fit is a pure function of its history, but the history is new each day: a cache would never hit.
        executor: Executor = client.get_executor(pure=False)
        yield executor
