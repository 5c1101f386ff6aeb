"""
The samples of one metric on a page of the Prometheus or the OpenMetrics text format.

A page may be megabytes long, and the parsers of prometheus_client are slow: only the lines of the metric are kept while
the page arrives, and only those are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

from msgspec import Struct
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from cronhpa.sources.no_answer import NoAnswerError

ACCEPT = "text/plain;version=0.0.4;q=1,application/openmetrics-text;version=1.0.0;q=0.5"
# Real pages have some thousand lines; one with the histograms of every path, 4 MiB.
PAGE_BYTES = 2**22
_LINE_BYTES = 2**16
# Lines cost more than bytes: a page of nothing but line ends is a few kB when compressed, and would be parsed for long.
_LINES_MAX = 100_000
# One metric of one pod has some hundred lines.
_KEPT_BYTES = 2**16
_KEPT_LINES = 2000
# What a family's samples may be called after its own name.
_SUFFIXES = ("_total", "_count", "_sum", "_bucket", "_created", "_info", "_gsum", "_gcount")
_CUMULATIVE = {"counter": ("", "_total"), "histogram": ("_count", "_sum", "_bucket"), "summary": ("_count", "_sum")}
_END = b"# EOF"


class PageSample(Struct, frozen=True):
    labels: tuple[tuple[str, str], ...]
    """Labels as sorted pairs."""
    value: float
    at: float | None = None
    """Seconds since the epoch where the page states them."""


class MetricSamples(Struct, frozen=True):
    samples: tuple[PageSample, ...]
    is_cumulative: bool
    """Whether the values count up from a start, so that only their rate is a load."""


def _any_of(names: set[str]) -> str:
    return "|".join(sorted(map(re.escape, names)))


class PageReader:
    """Takes a page part by part and keeps the lines of one metric. Raises NoAnswerError for a page that is too long."""

    def __init__(self, metric: str) -> None:
        families = {metric, *(metric.removesuffix(suffix) for suffix in _SUFFIXES)} - {""}
        # OpenMetrics' parser reads whole families: it refuses a histogram without its last bucket.
        names = families | {f"{family}{suffix}" for family in families for suffix in _SUFFIXES}
        self._metric = metric
        # One search over all lines: a loop over them takes half a microsecond for each, whatever stands in it. The
        # literal line feed makes the search skip from line to line in C.
        self._line = re.compile(
            (
                rf"\n((?:(?:{_any_of(names)})|#[ \t]++(?:TYPE|UNIT|HELP)[ \t]++(?:{_any_of(families)}))"
                r"(?![a-zA-Z0-9_:])[^\n]*+|# EOF[ \t\r\f\v]*+(?=\n))"
            ).encode()
        )
        # The last line, which more bytes may follow, behind the line feed before it.
        self._begun = b"\n"
        self._lines: list[bytes] = []
        self._size = self._count = self._kept = 0
        self._has_end = False

    def take(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > PAGE_BYTES:
            raise NoAnswerError("TooLarge", f"its page is longer than {PAGE_BYTES} bytes")
        self._count += part.count(b"\n")
        if self._count > _LINES_MAX:
            raise NoAnswerError("TooLarge", f"its page has more than {_LINES_MAX} lines")
        text = self._begun + part
        last = text.rindex(b"\n")
        self._begun = text[last:]
        if len(self._begun) > _LINE_BYTES:
            raise NoAnswerError("TooLarge", f"a line of its page is longer than {_LINE_BYTES} bytes")
        self._keep(text, last + 1)

    def _keep(self, text: bytes, end: int) -> None:
        """Keeps the metric's whole lines of the text up to `end`, where the last line feed before it ends."""
        for found in self._line.finditer(text, 0, end):
            line = found[1]
            if line.startswith(_END):
                self._has_end = True
                continue
            self._kept += len(line)
            if self._kept > _KEPT_BYTES:
                raise NoAnswerError("TooLarge", f"its page has more than {_KEPT_BYTES} bytes of {self._metric}")
            self._lines.append(line)
            if len(self._lines) > _KEPT_LINES:
                raise NoAnswerError("TooLarge", f"its page has more than {_KEPT_LINES} lines of {self._metric}")

    def samples(self, content_type: str, labels: Mapping[str, str]) -> MetricSamples:
        """The samples of the metric that have these labels. Raises NoAnswerError where there is none."""
        rest, self._begun = self._begun + b"\n", b"\n"
        self._keep(rest, len(rest))
        is_openmetrics = content_type.partition(";")[0].strip().lower() == "application/openmetrics-text"
        if is_openmetrics and not self._has_end:
            raise NoAnswerError("Malformed", "its page ends before # EOF: it is not whole")
        lines = [*self._lines, _END] if is_openmetrics else self._lines
        try:
            text = b"\n".join(lines).decode() + "\n"
            samples, is_cumulative = self._parsed(text, is_openmetrics=is_openmetrics, labels=labels)
        except Exception:  # noqa: BLE001 - the parsers raise anything for a text of another format
            raise NoAnswerError("Malformed", f"its lines of {self._metric} are no exposition format") from None
        if not samples:
            selection = "".join(f' with {label}="{value}"' for label, value in labels.items())
            raise NoAnswerError("NoSample", f"its page has no {self._metric}{selection}")
        return MetricSamples(tuple(samples), is_cumulative)

    def _parsed(self, text: str, *, is_openmetrics: bool, labels: Mapping[str, str]) -> tuple[list[PageSample], bool]:
        families = (
            openmetrics_families(text)  # type: ignore[no-untyped-call]  # prometheus_client types the other one alone
            if is_openmetrics
            else prometheus_families(text)
        )
        samples: list[PageSample] = []
        is_cumulative = False
        for family in families:
            # The parser of the Prometheus format adds _total to a counter that was written without it.
            is_munged = family.type == "counter" and family.name == self._metric and not is_openmetrics
            name = f"{self._metric}_total" if is_munged else self._metric
            for sample in family.samples:
                if sample.name != name or any(sample.labels.get(key) != of for key, of in labels.items()):
                    continue
                at = None if sample.timestamp is None else float(sample.timestamp)
                samples.append(PageSample(tuple(sorted(sample.labels.items())), float(sample.value), at))
                suffix = sample.name.removeprefix(family.name)
                is_cumulative = suffix in _CUMULATIVE.get(family.type, ())
        return samples, is_cumulative


def current(samples: MetricSamples, now_seconds: float, max_age_seconds: int) -> MetricSamples:
    """The samples unchanged. Raises NoAnswerError if one is not finite, negative or too old."""
    for sample in samples.samples:
        if not isfinite(sample.value):
            raise NoAnswerError("NoNumber", f"its number is {sample.value}")
        if sample.value < 0:
            raise NoAnswerError("Negative", "its number is below zero, and no load is")
        if sample.at is not None and not abs(now_seconds - sample.at) <= max_age_seconds:
            raise NoAnswerError("Stale", f"its number is more than {max_age_seconds} s away from the operator's clock")
    return samples


def combined(values: list[float], how: str) -> float:
    """The number of a pod from the values of its samples, of which there is at least one."""
    match how:
        case "max":
            return max(values)
        case "average":
            return sum(values) / len(values)
        case _:
            return sum(values)
