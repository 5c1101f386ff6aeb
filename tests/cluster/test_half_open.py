"""The operator with few files and peers that hold connections: probes, the API server's return and the log."""

import contextlib
import resource
import socket
import time

import pytest

from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Scaled

pytestmark = pytest.mark.usefixtures("no_operator")

FILES = 256
HELD, RENEWED = 400, 50  # on each port: at first, and each half second after it


@pytest.fixture
def short_of_files(control_plane, namespace, tmp_path):
    """An operator of its own that was started with a soft limit of 256 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    operator = Operator(kubeconfig, tmp_path, namespaces=namespace)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
    try:
        operator.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with contextlib.ExitStack() as stack:
        stack.push(operator.__exit__)
        yield operator


@contextlib.contextmanager
def held(ports, sent):
    """Connections to each port that have sent so much; `renew` makes some of them anew."""
    made = []

    def connect(count):
        for port in ports:
            for _ in range(count):
                sock = socket.create_connection(("127.0.0.1", port), timeout=5)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                with contextlib.suppress(OSError):
                    sock.sendall(sent)
                made.append(sock)
        while len(made) > 2 * HELD * len(ports):
            made.pop(0).close()

    connect(HELD)
    try:
        yield lambda: connect(RENEWED)
    finally:
        for sock in made:
            sock.close()


@pytest.mark.slow
def test_the_soft_limit_of_files_is_raised_to_the_hard_one(short_of_files):
    soft, hard = resource.prlimit(short_of_files.pid, resource.RLIMIT_NOFILE)

    assert hard == soft
    assert FILES < soft


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [b"GET /healthz HTTP/1.1\r\nHost: op", b"GET /metrics HTTP/1.1\r\nHost: op\r\n\r\n"], ids=["half", "slow"]
)
def test_connections_that_are_held_take_neither_probes_nor_the_api(
    control_plane, plant, namespace, short_of_files, sent
):
    """
    The hard limit is 256 now. The API server is restarted, so each connection to it is a new one; 2 cores of pods that
    use 50 % of one need 4 of them.
    """
    operator = short_of_files
    resource.prlimit(operator.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    shop = Scaled(control_plane, namespace, replicas=1)
    load = plant.add_target(namespace, shop.labels, 0.5)
    # Controllers may wait for half a minute after an API server that was restarted.
    shop.says("ScalingActive", "True", "ValidMetricFound", within_s=90)
    before = operator.log.stat().st_size
    with held(operator.ports, sent) as renew:
        control_plane.restart("kube-apiserver")
        plant.set_load(load, 2.0)
        deadline = time.monotonic() + 60
        while shop.replicas != 4 and time.monotonic() < deadline:
            renew()
            assert "ok\n" == operator.probe()
            assert "ok\n" == operator.get("/healthz")
            time.sleep(0.5)

        assert 4 == shop.replicas
        assert "cronhpa_connections_dropped_total" in operator.get("/metrics")
    assert operator.log.stat().st_size - before < 50_000
