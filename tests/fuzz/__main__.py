"""
`make fuzz`: coverage-guided fuzzing of all harnesses or of those that are named, each in a process of its own.

What atheris finds new goes to build/fuzz/NAME, what broke a harness to build/fuzz/NAME-broken/: copy that into
tests/fuzz/corpus/NAME with the fix, and it is a regression test from then on.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
BUILD = HERE.parents[1] / "build" / "fuzz"
# An input that takes longer, or more, is a bug as well.
SECONDS_MAX = 20
MIB_MAX = 2048
# PyYAML takes 30 ms for four kilobytes: what is short is tried oftener.
LENGTH_MAX = {"documents": 512}


def main() -> int:
    arguments = argparse.ArgumentParser(prog="make fuzz")
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--seconds", type=int, default=60, help="for each harness; 0: until the inputs are done")
    arguments.add_argument("--inputs", type=int, default=1_000_000)
    given = arguments.parse_args()
    names = given.names or sorted(path.name for path in CORPUS.iterdir())
    broken = []
    for name in names:
        ended, told = run(name, given.seconds, given.inputs)
        inputs = re.findall(r"(?:stat::number_of_executed_units:|Done) +([0-9]+)", told)
        print(f"{name}: {inputs[-1] if inputs else '?'} inputs, {'broken' if ended else 'nothing found'}", flush=True)
        if ended:
            print(told[-4000:])
            broken.append(name)
    return int(bool(broken))


def run(name: str, seconds: int, inputs: int) -> tuple[int, str]:
    """The exit code of one harness, and what it said."""
    kept, broken = BUILD / name, BUILD / f"{name}-broken"
    for folder in (kept, broken):
        folder.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}", f"-runs={inputs}", f"-timeout={SECONDS_MAX}", f"-rss_limit_mb={MIB_MAX}",
        f"-max_len={LENGTH_MAX.get(name, 4096)}", "-print_final_stats=1", "-verbosity=0", f"-artifact_prefix={broken}/",
    ]  # fmt: skip
    command = [sys.executable, "-m", "fuzz.fuzzer", name, str(kept), str(CORPUS / name), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
