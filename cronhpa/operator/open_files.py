"""The limit of open files, which is also the limit of connections."""

from __future__ import annotations

import logging
import resource
import sys
from contextlib import suppress

LOG = logging.getLogger(__name__)

# Watches, requests, metric reads, listeners, the store and the workers' pipes need some hundreds at most.
_WANTED = 1024


def raise_open_files() -> int:
    """
    Raises the soft limit of open files to the hard limit, and returns it.

    Low soft limits protect programs that use select(2), which this one does not. Go programs raise theirs, too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS refuses a soft limit of "unlimited".
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = open_files()
    if files < _WANTED:
        LOG.warning(
            "only %d files may be open at once: allow %d or more (ulimit -n), or requests to the API may have to wait",
            files,
            _WANTED,
        )
    return files


def open_files() -> int:
    """The current limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
