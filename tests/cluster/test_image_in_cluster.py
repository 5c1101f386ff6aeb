"""The operator of the image, in the image's own files, on a real API server."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
import urllib.request

import pytest
from image import own_architecture

from cronhpa.core.model.instant import DAY, MINUTE, format_instant
from testbed.image import built, environment, inside, unpacked
from testbed.twin import Scaled
from testbed.wait import wait_until

# As the chart states it.
STORE = "/var/lib/cronhpa/history.db"
ALWAYS = {"name": "always", "start": "0 0 * * *", "durationMinutes": 1440, "minReplicas": 3}


class Image:
    """An unpacked image whose programs run as in a pod: its files, its user, the account's token, nothing else."""

    def __init__(self, tmp_path, control_plane, *options):
        built(tmp_path / "image", *options, "--platform", own_architecture())
        self.root, self._log = unpacked(tmp_path / "image", tmp_path / "root"), tmp_path / "log"
        account = self.root / "var/run/secrets/kubernetes.io/serviceaccount"
        account.mkdir(parents=True)
        token = control_plane.kubectl("create", "token", "cronhpa", "--namespace", "cronhpa-system", "--duration=1h")
        (account / "token").write_text(token.strip())
        (account / "namespace").write_text("cronhpa-system")
        (account / "ca.crt").write_text(control_plane.ca_file.read_text())
        host, port = control_plane.url.removeprefix("https://").split(":")
        ports = dict.fromkeys((f"CRONHPA_{name}_PORT" for name in ("LISTEN", "PROBE", "HISTORY", "PAGE")), "0")
        self._environment = environment(
            KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port, CRONHPA_STORE=STORE, **ports
        )

    def told(self, *command):
        return subprocess.check_output(inside(self.root, *command), env=self._environment, text=True)

    @contextlib.contextmanager
    def operator(self):
        with self._log.open("wb") as log:
            running = subprocess.Popen(
                inside(self.root, "cronhpa", "run"), env=self._environment, stdout=log, stderr=log
            )
        try:
            yield
        finally:
            running.terminate()
            ended = running.wait(20)
        assert 0 == ended, self._log.read_text()

    def page_url(self):
        found = wait_until(
            lambda: re.search(r"serving the page on (127\.0\.0\.1:\d+)", self._log.read_text()), within_s=60
        )
        return f"http://{found[1]}"


@pytest.mark.long
def test_the_operator_of_the_image_scales_on_a_real_api_server(tmp_path, control_plane, namespace, no_operator):
    image = Image(tmp_path, control_plane, "--slim")
    shop = Scaled(control_plane, namespace, "shop", replicas=1, metrics=None, schedules=[ALWAYS])

    with image.operator():
        wait_until(lambda: shop.replicas == 3, within_s=60)


@pytest.mark.long
def test_the_page_of_the_image_decides_the_last_week_again(tmp_path, control_plane, plant, namespace, no_operator):
    """In a worker that the operator spawns: once the image's program was what a worker ran, and no what-if ended."""
    image = Image(tmp_path, control_plane)
    shop = Scaled(control_plane, namespace, "shop", replicas=1, syncPeriodSeconds=60)
    shop.load = plant.add_target(namespace, shop.labels, 0.3)
    begin = time.time_ns() - 3 * DAY
    lines = (f"{format_instant(begin + step * 5 * MINUTE)},{1 + step % 288 // 96}\n" for step in range(3 * 288))
    (image.root / "tmp" / "load.csv").write_text("timestamp,value\n" + "".join(lines))
    image.told("cronhpa", "history", "import", f"{namespace}/shop", "/tmp/load.csv", "--store", STORE)
    control_plane.kubectl("create", "serviceaccount", "viewer", "-n", namespace)
    control_plane.kubectl(
        "create", "rolebinding", "viewer", "--clusterrole=view", f"--serviceaccount={namespace}:viewer", "-n", namespace
    )
    token = control_plane.kubectl("create", "token", "viewer", "-n", namespace, "--audience", "cronhpa.io").strip()
    spec = control_plane.get(f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas/shop")["spec"]

    def asked(path, body=None):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{image.page_url()}/api/{path}", data=None if body is None else json.dumps(body).encode(), headers=headers
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    with image.operator():
        shop.says("Ready", "True", "Deciding", within_s=60)
        wanted = {"namespace": namespace, "name": "shop", "yaml": json.dumps({"spec": {**spec, "minReplicas": 9}})}
        run = asked("what-if", wanted)["run"]
        told = wait_until(lambda: asked(f"what-if/{run}").get("result"), within_s=180, every_s=1)

    assert "problems" not in told
    as_it_is, changed = told["asItIs"], told["changed"]
    assert 9 == min(count for _, count in changed["replicas"]) > min(count for _, count in as_it_is["replicas"])
