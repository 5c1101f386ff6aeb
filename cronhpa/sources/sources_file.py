"""The file of sources while the operator runs: read again when it changes. A broken file leaves the former sources."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from cronhpa.sources.metric_sources import MetricSources
from cronhpa.sources.parse import BYTES_MAX, SourcesError, parse_sources
from cronhpa.sources.source import Definition

LOG = logging.getLogger(__name__)

# The kubelet brings a ConfigMap's change within a minute or so.
LOOK_SECONDS = 5.0


class _Read(Struct, frozen=True):
    definitions: Mapping[str, Definition] = {}
    digests: Mapping[str, bytes] = {}
    """Of the `watched_files` of each source."""
    problem: str = ""


class SourcesFile:
    """default_url: the Prometheus of sources without a `url`."""

    def __init__(self, path: Path, sources: MetricSources, *, default_url: str | None = None) -> None:
        self._path, self._sources, self._default_url = path, sources, default_url
        self._in_force: _Read | None = None

    async def follow(self) -> None:
        """Looks at the file for ever; ends by being cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Puts the present file in force. A file that cannot be used is logged once and changes nothing."""
        read = await asyncio.to_thread(self._read)
        if read.problem:
            if read.problem != self._sources.problem:
                consequence = "the former ones stay in force" if self._in_force is not None else "there are no sources"
                LOG.error("the file of sources cannot be used, %s: %s", consequence, read.problem)
        elif self._in_force != read:
            await self._sources.replace(read.definitions, read.digests)
            LOG.info("sources: %s", ", ".join(sorted(read.definitions)) or "none")
            self._in_force = read
        self._sources.problem = read.problem

    def _read(self) -> _Read:
        try:
            with self._path.open("rb") as file:
                content = file.read(BYTES_MAX + 1)
            definitions = parse_sources(content.decode(), str(self._path), default_url=self._default_url)
            return _Read(definitions, {name: _digest(source) for name, source in definitions.items()})
        except UnicodeDecodeError as error:
            return _Read(problem=f"{self._path}: {error.reason} at byte {error.start}: UTF-8 text is accepted")
        except (OSError, SourcesError) as error:
            return _Read(problem=str(error))


def _digest(definition: Definition) -> bytes:
    digest = hashlib.sha256()
    for path in definition.watched_files:
        try:
            digest.update(b"\0" + path.read_bytes())
        except OSError:
            # The source says so when it is asked; a Secret may be mounted later.
            digest.update(b"\1")
    return digest.digest()
