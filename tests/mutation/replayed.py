"""
The second sieve: which of these mutants behaves otherwise in the recorded lives of an upstream HPA?

    python -m mutation.replayed MUTANT...    (in mutants/, where the mutated code is)

prints for each mutant the first life that differs, or `none`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from mutmut.mutation.trampoline import set_mutant_under_test

import cronhpa
from conformance.trajectories import lines, replay

VECTORS = Path(__file__).parents[1] / "conformance" / "vectors"


def differs(line: bytes) -> bool:
    try:
        return any(differences for _, differences in replay(msgspec.json.decode(line)))
    except Exception:  # noqa: BLE001  # a mutant may raise anything, and that is a difference
        return True


def first_that_differs(lives: list[bytes], mutant: str) -> str | None:
    """mutant: as mutmut names it; "" for the code as it is."""
    set_mutant_under_test(mutant)
    return next((msgspec.json.decode(line)["name"] for line in lives if differs(line)), None)


def main(mutants: list[str]) -> None:
    assert Path(cronhpa.__file__).is_relative_to(Path.cwd()), "run it in mutants/: the code as it is would be replayed"
    # The shortest lives first: most mutants differ in any life.
    lives = sorted(lines(VECTORS / "trajectories.jsonl.xz"), key=len)
    assert first_that_differs(lives, "") is None
    assert first_that_differs(lives, "fail") is not None
    for mutant in mutants:
        print(mutant, first_that_differs(lives, mutant) or "none", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
