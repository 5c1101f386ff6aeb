"""
Makes the series of the published forecast figures from the files of the repositories that they come from.

    python benchmarks/traces/convert.py CLONES OUT [NAME...]

CLONES holds a git clone of each repository, in a folder of the repository's name. OUT gets a NAME.csv.gz for each
series, `timestamp,value`; all twenty without a NAME. Each is compared with the digest of the series that the figures
were made from: exits with 1 where one differs, or its repository is missing.

Only bank_calls_5m needs a package that is not in requirements.lock: `pip install rdata`.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import itertools
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

MINUTE = timedelta(minutes=1)
Points = Iterable[tuple[datetime, float]]
Rows = list[tuple[str, float | None]]


@dataclass(frozen=True)
class Recipe:
    """
    A series: the file it is made from, and how.

    points: reads the file. every: the grid; a point belongs to the grid's last instant at or before it. decimals: what
    values are rounded to. digest: of the series that the published figures were made from.
    """

    name: str
    repository: str
    commit: str
    path: str
    points: Callable[[bytes], Points]
    every: timedelta
    decimals: int
    digest: str

    def rows(self, source: bytes) -> Rows:
        """(instant as ISO 8601, value or None where there is none), on the whole grid from the first point on."""
        at = defaultdict(list)
        for instant, value in self.points(source):
            at[instant - (instant - datetime.min.replace(tzinfo=UTC)) % self.every].append(value)
        first, last = min(at), max(at)
        instants = (first + i * self.every for i in range((last - first) // self.every + 1))
        return [
            (
                f"{instant:%Y-%m-%dT%H:%M:%SZ}",
                float(np.round(np.mean(at[instant]), self.decimals)) if at.get(instant) else None,
            )
            for instant in instants
        ]


def digest(rows: Rows) -> str:
    """Of instants and numbers, however a number is written: 482 and 482.0 are alike."""
    text = "".join(f"{instant},{'' if value is None else repr(value)}\n" for instant, value in rows)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> Rows:
    """A series as it was written."""
    with gzip.open(path, "rt", newline="") as file:
        return [(row["timestamp"], float(row["value"]) if row["value"] else None) for row in csv.DictReader(file)]


def write(path: Path, rows: Rows) -> None:
    text = "".join(f"{instant},{'' if value is None else f'{value:.12g}'}\n" for instant, value in rows)
    path.write_bytes(gzip.compress(f"timestamp,value\n{text}".encode(), mtime=0))


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _lines(source: bytes) -> Iterator[list[str]]:
    return itertools.islice(csv.reader(io.StringIO(source.decode())), 1, None)


def iso(source: bytes) -> Points:
    """An instant in ISO 8601 and its value. An instant that is there twice gets the mean: a clock's repeated hour."""
    return ((_utc(line[0]), float(line[1])) for line in _lines(source))


def seconds_since(epoch: str) -> Callable[[bytes], Points]:
    return lambda source: ((_utc(epoch) + timedelta(seconds=int(a)), float(b)) for a, b, *_ in _lines(source))


def every_five_minutes_from(begin: str) -> Callable[[bytes], Points]:
    """The first column: a file without instants."""
    return lambda source: ((_utc(begin) + 5 * i * MINUTE, float(line[0])) for i, line in enumerate(_lines(source)))


def minute_counts(source: bytes) -> Points:
    """Counts by the minute; a minute that is split over two log files has two rows, which are added."""
    counts: defaultdict[datetime, float] = defaultdict(float)
    for instant, value in iso(source):
        counts[instant] += value
    return counts.items()


def _counts_per_second(source: bytes) -> list[int]:
    with tarfile.open(fileobj=io.BytesIO(source)) as archive:
        file = archive.extractfile("workload.txt")
        assert file is not None, "workload.txt is no file"
        return [int(text) for text in file.read().split()]


def _summed(begin: datetime, seconds: list[int]) -> Points:
    return ((begin + i * MINUTE, sum(seconds[60 * i : 60 * i + 60])) for i in range(-(-len(seconds) // 60)))


def twitter(source: bytes) -> Points:
    """Whole minutes from 1 August 2021; a minute without any message is a missing archive file."""
    seconds = _counts_per_second(source)
    whole = seconds[: len(seconds) // 60 * 60]
    return ((instant, count) for instant, count in _summed(_utc("2021-08-01"), whole) if count)


def nasa(source: bytes) -> Points:
    """
    July from its second second to 28 July, then August, in UTC.

    The file joins the two months without the 3.4 days between them. August begins 14:52:01 before the longest run of
    seconds without a request: the server was shut down at 14:52:01 on 1 August. July's last minute is not whole.
    """
    seconds = _counts_per_second(source)
    _, shutdown = max((length, begin) for begin, length in _silences(seconds))
    august = shutdown - (14 * 3600 + 52 * 60 + 1)
    july = [0, *seconds[:august]]
    yield from _summed(_utc("1995-07-01T04:00:00"), july[: len(july) // 60 * 60])
    yield from _summed(_utc("1995-08-01T04:00:00"), seconds[august:])


def _silences(seconds: list[int]) -> Iterator[tuple[int, int]]:
    """(begin, length) of each run of seconds without a request."""
    begin = 0
    for is_silent, run in itertools.groupby(seconds, key=lambda count: count == 0):
        length = len(list(run))
        if is_silent:
            yield begin, length
        begin += length


def bank_calls(source: bytes) -> Points:
    """Rows exist only while the bank is open."""
    import rdata  # noqa: PLC0415  # for this series alone

    table = rdata.conversion.convert(rdata.parser.parse_data(source))["bank_calls"]
    return (
        (datetime.fromtimestamp(at, UTC), calls) for at, calls in zip(table["DateTime"], table["Calls"], strict=True)
    )


CRANE = ("gocrane/crane", "2b0ddae8ebbca49788d77ece632d73b252533ef9")
MICROSOFT = ("microsoft/cloud-monitoring-dataset", "6a07a53c2fac495fb6831811df4c980d6c04bd10")
NAB = ("numenta/NAB", "ea702d75cc2258d9d7dd35ca8e5e2539d71f3140")
WIKIPEDIA = ("mooselab/web-app-workloads", "421f6347cce28461ad50929fa03678d9444f7e6c")
DATACENTER = ("alejandrofdez-us/DataCenter-Traces-Datasets", "003bb8e7ce9aaf4ed16ddf1652bc1a279c8ac2e6")
WEB = ("reconfigurable-ml-pipeline/web-service-datasets", "7404ad6643602943511e75ab3095fb1ccc990fd1")
WORLD_CUP = ("nimamahmoudi/worldcup98-dataset", "82460213f0d5a86fa57b6d4b0b5f260e606e713b")
BANK = ("robjhyndman/fpp3package", "aa01750d3bc320aa927dfc745227590f8d0e2c50")

_UNIX = seconds_since("1970-01-01")
_CRANE_FILES = "pkg/prediction/dsp/test_data"
RECIPES = (
    Recipe(
        "aws_elb_requests_5m",
        *NAB,
        "data/realAWSCloudwatch/elb_request_count_8c0756.csv",
        iso,
        5 * MINUTE,
        6,
        "075297d18b397e27",
    ),
    Recipe(
        "azure_vm_cpu_5m",
        *DATACENTER,
        "azure_v2/vm_cpu_readings_month_aggregated_cpu_mem.csv",
        seconds_since("2019-01-01"),
        5 * MINUTE,
        1,
        "3d4b891b14d26073",
    ),
    Recipe("bank_calls_5m", *BANK, "data/bank_calls.rda", bank_calls, 5 * MINUTE, 6, "f78b7aeb7928a6fa"),
    Recipe(
        "google_cluster_cpu_5m",
        *DATACENTER,
        "google2019/instance_usage_grouped_300_seconds_month.csv",
        every_five_minutes_from("2019-05-01"),
        5 * MINUTE,
        6,
        "5db1aa35f08f5c90",
    ),
    Recipe("k8s_app01_cpu_1m", *CRANE, f"{_CRANE_FILES}/input1.csv", _UNIX, MINUTE, 5, "7e5f7bf6908a14bf"),
    Recipe("k8s_app06_cpu_1m", *CRANE, f"{_CRANE_FILES}/input6.csv", _UNIX, MINUTE, 5, "372a1bf9095379f5"),
    Recipe("k8s_app08_cpu_1m", *CRANE, f"{_CRANE_FILES}/input8.csv", _UNIX, MINUTE, 5, "8a77f55deaf211a5"),
    Recipe("k8s_app09_cpu_1m", *CRANE, f"{_CRANE_FILES}/input9.csv", _UNIX, MINUTE, 5, "49b2167f8386632c"),
    Recipe("k8s_app11_cpu_1m", *CRANE, f"{_CRANE_FILES}/input11.csv", _UNIX, MINUTE, 5, "ab7dc5a8ce7c919e"),
    Recipe("k8s_app12_cpu_1m", *CRANE, f"{_CRANE_FILES}/input12.csv", _UNIX, MINUTE, 5, "8594b9875d2979ac"),
    Recipe(
        "ms_data_ingress_1m", *MICROSOFT, "data/data-ingress-rate/ingress-01.csv", iso, MINUTE, 1, "bef969540e704c39"
    ),
    Recipe(
        "ms_ecommerce_api_1h",
        *MICROSOFT,
        "data/ecommerce-api-incoming-rps/api-01.csv",
        iso,
        60 * MINUTE,
        3,
        "204baaf888eacdcf",
    ),
    Recipe(
        "ms_mongo_app_rps_1m",
        *MICROSOFT,
        "data/mongodb-application-rps/mongo-01.csv",
        iso,
        MINUTE,
        2,
        "825876a218a11997",
    ),
    Recipe(
        "ms_mongo_machine_rps_1m",
        *MICROSOFT,
        "data/mongodb-machine-rps/machine-01.csv",
        iso,
        MINUTE,
        2,
        "7a9834b09224ffc5",
    ),
    Recipe("nasa_http_1m", *WEB, "dataset/nasa/workload.tbz2", nasa, MINUTE, 0, "a283e6fb78bb61f3"),
    Recipe("nyc_taxi_30m", *NAB, "data/realKnownCause/nyc_taxi.csv", iso, 30 * MINUTE, 0, "9c5be658164e89ea"),
    Recipe("tweets_aapl_5m", *NAB, "data/realTweets/Twitter_volume_AAPL.csv", iso, 5 * MINUTE, 0, "d87282a4363f2a1b"),
    Recipe("twitter_stream_1m", *WEB, "dataset/twitter_trace/workload.tbz2", twitter, MINUTE, 0, "3f89d22e3b8b7a39"),
    Recipe("wc98_requests_1m", *WORLD_CUP, "invocation_count.csv", minute_counts, MINUTE, 0, "69267a9efc330c4a"),
    Recipe(
        "wikipedia_views_1h",
        *WIKIPEDIA,
        "data/wikipedia/wikipedia_20_resample_1h.csv",
        iso,
        60 * MINUTE,
        0,
        "f53c026ca3021837",
    ),
)


def main(clones: Path, out: Path, names: list[str]) -> int:
    unknown = set(names) - {recipe.name for recipe in RECIPES}
    if unknown:
        print(f"{', '.join(sorted(unknown))}: no such series; there are {', '.join(recipe.name for recipe in RECIPES)}")
        return 2
    out.mkdir(parents=True, exist_ok=True)
    differ = 0
    for recipe in RECIPES:
        if names and recipe.name not in names:
            continue
        clone = clones / recipe.repository.partition("/")[2]
        shown = subprocess.run(
            ["git", "-C", str(clone), "show", f"{recipe.commit}:{recipe.path}"], capture_output=True, check=False
        )
        if shown.returncode:
            told = shown.stderr.decode().strip()
            print(f"{recipe.name}: {told}; {clone} must be a clone of github.com/{recipe.repository}")
            differ += 1
            continue
        rows = recipe.rows(shown.stdout)
        write(out / f"{recipe.name}.csv.gz", rows)
        if digest(rows) != recipe.digest:
            print(f"{recipe.name}: digest {digest(rows)}, the published figures were made from {recipe.digest}")
            differ += 1
    return int(differ > 0)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
