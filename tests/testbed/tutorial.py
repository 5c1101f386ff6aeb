"""
docs/tutorial.md as files and commands; `python -m testbed.tutorial` follows it on the cluster of the kubeconfig.

The release workflow does so on kind, with the chart and the commands that it has just published: all but what makes and
removes the cluster, the checkout and the environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```yaml\n(?P<file>.*?)^```$|^(?P<shell>(?:    [^\n]*\n)+)", re.MULTILINE | re.DOTALL)
_MADE_BY_THE_CALLER = re.compile(r"kind |git clone |make image |python3 -m venv|pip install")
# Its own tests are tests/cli/commands/test_page.py and tests/cluster/test_page_in_cluster.py.
_UNTIL_CTRL_C = {"kubectl cronhpa page"}
EXPLAINED = ("working-hours", "INC-4711", "Learning")
"""What `explain` says, one time after another."""
SHOWN = {
    "kubectl get chpa shop": "Deciding",
    "cronhpa preview shop.yaml": "working-hours",
    "kubectl cronhpa override shop --min 15 --for 2h --reason INC-4711": "INC-4711",
}
"""What the page says is to be seen, by the command that shows it."""


def steps() -> Iterator[tuple[str, str]]:
    """("file", text) and ("shell", command) of the page, in its order, without commands that only Ctrl-C ends."""
    for block in _BLOCK.finditer((PROJECT / "docs" / "tutorial.md").read_text("utf-8")):
        if block["file"]:
            yield "file", block["file"]
            continue
        for line in block["shell"].replace("\\\n", " ").splitlines():
            command = re.sub(r"\s{2,}", " ", line.partition("   #")[0]).strip()
            if command and command not in _UNTIL_CTRL_C:
                yield "shell", command


def follow(steps: Iterator[tuple[str, str]], folder: Path, environment: dict[str, str], *, within_s: float) -> None:
    """
    Save the files of the steps as shop.yaml, and run the commands until they show what the page says.

    Raises AssertionError for a command that fails, or shows something else for `within_s`.
    """
    explained = iter(EXPLAINED)
    for name in ("crds", "benchmarks"):
        (folder / name).symlink_to(PROJECT / name)

    def told(command: str) -> str:
        ended = subprocess.run(
            ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        # What is not there yet comes: the metrics of a new cluster, a pod that has started.
        assert 0 == ended.returncode or "kubectl top" in command, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    for kind, text in steps:
        if kind == "file":
            (folder / "shop.yaml").write_text(text)
            continue
        is_explain = text.startswith("kubectl cronhpa explain shop")
        expected = next(explained) if is_explain else "%" if text == "kubectl top nodes" else SHOWN.get(text, "")
        wait_until(partial(told, text), partial(_has, expected), within_s=within_s, every_s=1)
    assert not list(explained), "the page explains less often than it did"


def _has(expected: str, said: str) -> bool:
    return expected in said


def main() -> None:
    followed = ((kind, text) for kind, text in _told(steps()) if kind == "file" or not _MADE_BY_THE_CALLER.match(text))
    with tempfile.TemporaryDirectory() as folder:
        follow(followed, Path(folder), dict(os.environ), within_s=300)


def _told(steps: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for kind, text in steps:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        yield kind, text


if __name__ == "__main__":
    main()
