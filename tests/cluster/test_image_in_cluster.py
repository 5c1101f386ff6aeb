"""The operator of the image, in the image's own files, on a real API server."""

from __future__ import annotations

import subprocess

import pytest
from image import own_architecture

from testbed.image import built, environment, inside, unpacked
from testbed.twin import Scaled
from testbed.wait import wait_until

ALWAYS = {"name": "always", "start": "0 0 * * *", "durationMinutes": 1440, "minReplicas": 3}


@pytest.mark.long
def test_the_operator_of_the_image_scales_on_a_real_api_server(tmp_path, control_plane, namespace):
    """As in a pod: its own files, its user, the account's token where the kubelet puts it, no other environment."""
    built(tmp_path / "image", "--slim", "--platform", own_architecture())
    root = unpacked(tmp_path / "image", tmp_path / "root")
    account = root / "var/run/secrets/kubernetes.io/serviceaccount"
    account.mkdir(parents=True)
    token = control_plane.kubectl("create", "token", "cronhpa", "--namespace", "cronhpa-system", "--duration=1h")
    (account / "token").write_text(token.strip())
    (account / "namespace").write_text("cronhpa-system")
    (account / "ca.crt").write_text(control_plane.ca_file.read_text())
    host, port = control_plane.url.removeprefix("https://").split(":")
    stated = environment(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port, **dict.fromkeys(
        (f"CRONHPA_{name}_PORT" for name in ("LISTEN", "PROBE", "HISTORY", "PAGE")), "0",
    ))  # fmt: skip
    shop = Scaled(control_plane, namespace, "shop", replicas=1, metrics=None, schedules=[ALWAYS])
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(inside(root, "cronhpa", "run"), env=stated, stdout=log, stderr=log)
    try:
        wait_until(lambda: shop.replicas == 3, within_s=60)
    finally:
        running.terminate()
        ended = running.wait(20)
    assert 0 == ended, (tmp_path / "log").read_text()
