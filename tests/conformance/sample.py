"""
Takes a small sample of recorded lives that still shows everything the whole file shows.

    python -m conformance.sample whole.jsonl.gz sample.jsonl.gz [bytes]
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from conformance.trajectories import read

BYTES_MAX = 900_000
# Each thing to be shown is shown by so many lives, if there are as many and there is room.
TIMES = 40


def shown(life: dict[str, Any]) -> set[str]:
    """What a life shows: each condition and event reason, metric and target, behavior, and kind of trouble."""
    found = {f"flags {sorted(life['flags'].items())}"[:60]}
    for text in (life["spec"], *(tick["spec"] for tick in life["ticks"] if "spec" in tick)):
        found.add("an edited spec" if text is not life["spec"] else "a spec")
        for metric in text.get("metrics") or ():
            source = metric.get(metric["type"][:1].lower() + metric["type"][1:]) or {}
            found.add(f"metric {metric['type']} {source.get('target', {}).get('type')}")
        for direction, rules in (text.get("behavior") or {}).items():
            found |= {f"{direction} {key}" for key in rules}
            found.add(f"{direction} {rules.get('selectPolicy')}")
            found |= {f"{direction} {policy['type']}" for policy in rules.get("policies") or ()}
    for tick in life["ticks"]:
        found |= {f"scale {key}" for key in tick["scale"]}
        found |= {f"error of {kind}" for kind in ("resource", "custom", "external") if "error" in str(tick.get(kind))}
        for item in tick["expect"]["status"].get("conditions", []):
            found.add(f"condition {item['type']} {item['status']} {item['reason']}")
        found |= {f"event {item['reason']}" for item in tick["expect"]["events"]}
    return found


def sample(lives: list[dict[str, Any]], bytes_max: int) -> list[dict[str, Any]]:
    """Greedy: always the life that shows most of what is still owed, by its size."""
    sizes = [len(gzip.compress(json.dumps(life).encode())) for life in lives]
    shows = [shown(life) for life in lives]
    owed = {thing: min(TIMES, sum(thing in one for one in shows)) for one in shows for thing in one}
    unseen = set(owed)

    def worth(index: int) -> float:
        # What nobody has shown yet comes before what was shown too few times.
        return (100 * len(shows[index] & unseen) + sum(owed[thing] > 0 for thing in shows[index])) / sizes[index]

    left, taken, room = set(range(len(lives))), [], bytes_max
    while left:
        best = max(sorted(left), key=worth)
        left.discard(best)
        if not worth(best) or sizes[best] > room:
            continue
        room -= sizes[best]
        taken.append(best)
        unseen -= shows[best]
        for thing in shows[best]:
            owed[thing] = max(0, owed[thing] - 1)
    if unseen:
        raise SystemExit(f"{bytes_max} bytes do not show {sorted(unseen)}: allow more")
    return [lives[index] for index in sorted(taken)]


def main(whole: str, target: str, bytes_max: str = str(BYTES_MAX)) -> None:
    lives = list(read(Path(whole)))
    kept = sample(lives, int(bytes_max))
    text = "".join(json.dumps(life, separators=(",", ":"), sort_keys=True) + "\n" for life in kept)
    # No name and no time in the header: the same lives give the same bytes.
    Path(target).write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    print(f"{len(kept)} of {len(lives)} lives, {sum(len(life['ticks']) for life in kept)} ticks")


if __name__ == "__main__":
    main(*sys.argv[1:])
