"""deploy/monitoring/rules.yaml: when each alert fires and when it does not, by the real promtool."""

from __future__ import annotations

import subprocess

import pytest

from testbed.build import promtool
from testbed.control_plane import PROJECT

pytestmark = pytest.mark.long  # its first run builds Prometheus


@pytest.mark.parametrize("command", [("check", "rules", "rules.yaml"), ("test", "rules", "rules_test.yaml")])
def test_promtool_accepts_the_rules_and_their_unit_tests(command):
    folder = PROJECT / "deploy" / "monitoring"
    done = subprocess.run([promtool(), *command], cwd=folder, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
