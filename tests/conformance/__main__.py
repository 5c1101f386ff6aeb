"""`python -m conformance DIRECTORY`: any directory of recordings, against this project."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from conformance import quantities, specs, trajectories
from testbed.control_plane import ControlPlane


def main(directory: Path) -> int:
    """Prints one line, and before it where each kind differs first; 0 where nothing does."""
    missing = [name for name in FILES if not (directory / name).exists()]
    if missing:
        print(f"{directory}: {', '.join(missing)} not found; a directory of recordings holds {', '.join(FILES)}")
        return 2
    with ProcessPoolExecutor(1) as pool:
        lives = pool.submit(trajectories.score, directory / FILES[0])
        with ControlPlane() as plane:
            plane.install_crds()
            verdicts = [
                specs.is_alike(*pair) or pair for pair in specs.judged(directory / FILES[1], specs.Server(plane))
            ]
        texts = [row["text"] for row in trajectories.read(directory / FILES[2])]
        unlike = quantities.differences(directory / FILES[2])
        score = lives.result()
    refused = [item for item in verdicts if item is not True]
    for kind, first in (("trajectories", score.first_difference), ("specs", refused[:1]), ("quantities", unlike[:3])):
        if first:
            print(f"{kind} differ first in: {first}")
    print(
        f"trajectories {score.trajectories_matched}/{score.trajectories} ticks {score.ticks_matched}/{score.ticks} "
        f"specs {len(verdicts) - len(refused)}/{len(verdicts)} quantities {len(texts) - len(unlike)}/{len(texts)}"
    )
    return int(bool(score.first_difference or refused or unlike))


FILES = ("trajectories.jsonl.gz", "specs.jsonl.gz", "quantities.jsonl.gz")

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
