"""The soft limit of open files is raised to the hard one, and a low hard one is logged."""

import subprocess
import sys

SCRIPT = """
import logging, resource
from cronhpa.operator.open_files import open_files, raise_open_files
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))
print(open_files(), raise_open_files(), open_files())
"""


def limits(soft, hard):
    """What a process says that begins with these limits: before, raised to, after; and what it logs."""
    script = SCRIPT.replace("SOFT", str(soft)).replace("HARD", str(hard))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return ended.stdout.split(), ended.stderr


def test_the_soft_limit_is_raised_to_the_hard_one():
    assert (["256", "1024", "1024"], "") == limits(256, 1024)


def test_a_low_hard_limit_is_logged_with_what_to_do():
    soft_limits, logged = limits(128, 512)

    assert ["128", "512", "512"] == soft_limits
    assert "only 512 files may be open at once: allow 1024 or more (ulimit -n)" in logged
