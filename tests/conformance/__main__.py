"""
`python -m conformance DIRECTORY`: any directory of recordings, against this project.

A directory holds trajectories, specs and quantities, each as .jsonl.xz or as .jsonl.gz. Prints the first difference of
each kind, and exits with 1 if anything differs.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from conformance import quantities, specs, trajectories
from testbed.control_plane import ControlPlane


def main(directory: Path) -> int:
    """Prints one line, and before it where each kind differs first; 0 where nothing does."""
    missing = [kind for kind in KINDS if recording(directory, kind) is None]
    if missing:
        print(
            f"{directory}: found no {', '.join(missing)}; a directory of recordings holds {', '.join(KINDS)}, "
            f"each with a name that ends with {' or '.join(SUFFIXES)}"
        )
        return 2
    lives_file, specs_file, quantities_file = (path for kind in KINDS if (path := recording(directory, kind)))
    with ProcessPoolExecutor(1) as pool:
        lives = pool.submit(trajectories.score, lives_file)
        with ControlPlane() as plane:
            plane.install_crds()
            verdicts = [specs.is_alike(*pair) or pair for pair in specs.judged(specs_file, specs.Server(plane))]
        texts = [row["text"] for row in trajectories.read(quantities_file)]
        unlike = quantities.differences(quantities_file)
        score = lives.result()
    refused = [verdict for verdict in verdicts if verdict is not True]
    for kind, first in (("trajectories", score.first_difference), ("specs", refused[:1]), ("quantities", unlike[:3])):
        if first:
            print(f"{kind} differ first in: {first}")
    print(
        f"trajectories {score.trajectories_matched}/{score.trajectories} ticks {score.ticks_matched}/{score.ticks} "
        f"specs {len(verdicts) - len(refused)}/{len(verdicts)} quantities {len(texts) - len(unlike)}/{len(texts)}"
    )
    return int(bool(score.first_difference or refused or unlike))


def recording(directory: Path, kind: str) -> Path | None:
    """The file of this kind, by the first suffix that exists."""
    return next((path for suffix in SUFFIXES if (path := directory / f"{kind}{suffix}").exists()), None)


KINDS = ("trajectories", "specs", "quantities")
SUFFIXES = (".jsonl.xz", ".jsonl.gz")

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
