"""
Which changed operator or constant of core/metrics and core/behavior does no test notice?

    make mutation            goes on where it was stopped; FRESH=1 begins anew, as after a change of the tests

mutmut changes one thing at a time. Two sieves: the tests of these rules, a second for each mutant, then for what they
let pass the recorded lives, up to a minute. What passes both is in survivors.toml with the reason, or it is a failure;
so is an entry that is noticed, or is not a mutant any more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files

MUTANTS = Path("mutants")
LISTED = Path("tests/mutation/survivors.toml")
NOTICED = {"killed", "timeout", "segfault"}
KILLED = next(code for code, status in status_by_exit_code.items() if status == "killed")


class Change(NamedTuple):
    """What a mutant is, whatever its number: a number moves with every line that is written above it."""

    function: str
    before: str
    after: str


def change(mutant: str, path: Path) -> Change:
    # mutmut calls a function x_name, and a method xǁClassǁname.
    module, _, name = mutant.removeprefix("cronhpa.core.").partition("__mutmut_")[0].rpartition(".")
    name = name[1:].replace("ǁ", ".").removeprefix(".").removeprefix("_")
    lines = [line for line in get_diff_for_mutant(mutant, path=path).splitlines() if line[:3] not in {"---", "+++"}]
    before, after = (
        "\n".join(line[1:].strip() for line in lines if line.startswith(sign) and line[1:].strip()) for sign in "-+"
    )
    return Change(f"{module}.{name}", before, after)


def tried() -> Iterator[SourceFileMutationData]:
    for path in walk_mutatable_files():
        of_file = SourceFileMutationData(path=path)
        of_file.load()
        yield of_file


def survivors() -> dict[str, Change]:
    """The mutants that were tried and not noticed, by mutmut's names."""
    return {
        mutant: change(mutant, of_file.path)
        for of_file in tried()
        for mutant, code in of_file.exit_code_by_key.items()
        if code is not None and status_by_exit_code[code] not in NOTICED
    }


def mark(mutants: Iterable[str], code: int | None) -> None:
    """code: how the tests ended; None: to be tried again."""
    names = set(mutants)
    for of_file in tried():
        of_this_file = names & set(of_file.exit_code_by_key)
        if of_this_file:
            of_file.exit_code_by_key.update(dict.fromkeys(of_this_file, code))
            of_file.save()


def listed() -> Counter[Change]:
    entries = tomllib.loads(LISTED.read_text())["survivor"]
    assert all(entry["reason"] for entry in entries)
    return Counter(Change(entry["function"], entry["before"], after) for entry in entries for after in entry["after"])


def unlisted() -> dict[str, Change]:
    left = listed()
    reported = {}
    for mutant, what in survivors().items():
        if left[what]:
            left[what] -= 1
        else:
            reported[mutant] = what
    return reported


def test() -> None:
    """The first sieve, for every mutant that has no verdict yet."""
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", "1"]
    ended = subprocess.run(command, check=False, env={**os.environ, "HYPOTHESIS_PROFILE": "mutation"}).returncode
    if ended:
        raise SystemExit(f"mutmut ended with {ended}; what it says above is about the tests without any mutant")


def replay(mutants: Iterable[str]) -> None:
    """The second sieve. Each verdict is kept at once, so that an interruption costs one mutant."""
    root = MUTANTS.resolve()
    command = [sys.executable, "-m", "mutation.replayed", *mutants]
    paths = {"PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    with subprocess.Popen(command, cwd=root, env={**os.environ, **paths}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            mutant, life = line.split(maxsplit=1)
            is_noticed = life.strip() != "none"
            print(
                f"  {mutant} differs in {life.strip()}" if is_noticed else f"  {mutant} differs in no life", flush=True
            )
            if is_noticed:
                mark([mutant], KILLED)
    assert process.returncode == 0


def main(*, fresh: bool) -> int:
    if fresh:
        shutil.rmtree(MUTANTS, ignore_errors=True)
    if MUTANTS.exists():
        mark(unlisted(), None)
    test()
    unnoticed = unlisted()
    if unnoticed:
        print(f"{len(unnoticed)} passed the tests and are not in {LISTED}: replaying the recorded lives")
        replay(unnoticed)
    statuses = Counter(status_by_exit_code[code] for of_file in tried() for code in of_file.exit_code_by_key.values())
    unexplained = unlisted()
    gone = listed() - Counter(survivors().values())
    for mutant, (function, before, after) in unexplained.items():
        print(f"no test notices {mutant}: write one, or list it with its reason\n  {function}\n- {before}\n+ {after}")
    for what in gone.elements():
        print(
            f"{LISTED} lists what is noticed or no mutant any more\n  {what.function}\n- {what.before}\n+ {what.after}"
        )
    killed, timeouts = statuses["killed"] + statuses["segfault"], statuses["timeout"]
    survived = statuses.total() - killed - timeouts
    print(
        f"mutants {statuses.total()}: killed {killed}, timeouts {timeouts}, "
        f"survived {survived}, of them {len(unexplained)} without a reason"
    )
    return int(bool(unexplained or gone))


if __name__ == "__main__":
    sys.exit(main(fresh="--fresh" in sys.argv))
