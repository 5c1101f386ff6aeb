"""
What a kind of source is: a `Definition`, which the file of sources states, and the `MetricSource` that it opens.

A new kind is one file with both, and its line in `registry`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol, Self

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.observation import Absent, Pod, Sample
from cronhpa.core.model.spec import TargetRef
from cronhpa.sources.page_process import PageProcess


class MeasuredObject(Struct, frozen=True):
    """An object with its target, the target's pods, and how often it is decided upon."""

    namespace: str
    name: str
    target: TargetRef
    pods: tuple[Pod, ...]
    period: Nanoseconds

    @property
    def texts(self) -> dict[str, str]:
        """The values of the placeholders and join labels of a definition."""
        target = self.target
        return {"namespace": self.namespace, "name": self.name, "kind": target.kind, "target": target.name}


class MetricSource(Protocol):
    """A source in force. Its connections are opened by the first request."""

    @property
    def requests(self) -> int:
        """How many were sent."""

    async def value(self, measured: MeasuredObject) -> int | Mapping[str, Sample] | Absent:
        """
        The measurement of an object, or why there is none.

        External: one number in milli-units. Pods: the samples by pod name. It ends by a deadline of its own: the
        object's reconciliation waits for it. A tenant reads the message of an Absent: no address, path or login.
        """

    async def close(self) -> None:
        """Ends all requests; later ones get no answer."""


class SourceContext(Struct, frozen=True):
    """What all sources of an operator share."""

    clock: Callable[[], Nanoseconds]
    page_process: PageProcess


class StrictModel(BaseModel):
    """A part of the file of sources: a field that is not known is an error."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=False, strict=False
    )


class TlsFields(StrictModel):
    """The authorities whose certificates are trusted, and the operator's own certificate."""

    ca_file: Path | None = Field(
        None, description="a PEM file: the authorities that are trusted instead of the system's"
    )
    cert_file: Path | None = Field(None, description="a PEM file: the operator's own certificate (mTLS)")
    key_file: Path | None = Field(None, description="a PEM file: the key of certFile")
    server_name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,253}$",
        description="the name in the server's certificate, where the URL's differs",
    )

    @property
    def tls_files(self) -> tuple[Path, ...]:
        return tuple(file for file in (self.ca_file, self.cert_file, self.key_file) if file is not None)

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("certFile and keyFile go together: name both or none")
        return self


class Definition(StrictModel):
    """
    The fields of one source in the file of sources.

    The chart's NetworkPolicy opens the ports of fields that are called `url` and `port`, and of no others.
    """

    metric_type: ClassVar[Literal["External", "Pods"]]
    """The `type` of the metrics that a source of this kind answers."""
    action: ClassVar[str]
    """What a source of this kind does, after "it", for whoever asks for it by the other type."""

    @abstractmethod
    def open(self, name: str, context: SourceContext) -> MetricSource:
        """The source of this name."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What is asked, and how often, for `cronhpa sources check`. It names no secret."""

    @property
    def watched_files(self) -> tuple[Path, ...]:
        """The files that it reads, such as those of its TLS: the source is opened anew when one changes."""
        return ()

    def with_defaults(self, prometheus_url: str | None) -> Self:
        """The definition with what the operator's settings add. Raises ValueError where these must and do not."""
        del prometheus_url
        return self

    def past_query(self, url: str) -> str | None:
        """The PromQL by which the Prometheus at a URL gives one object's past, too; None where there is none."""
        del url
        return None


class TlsDefinition(TlsFields, Definition):
    """A source with TLS."""

    @property
    def watched_files(self) -> tuple[Path, ...]:
        return self.tls_files


def text_of(parse: Callable[[str], object]) -> AfterValidator:
    """Accepts a text for which this raises no ValueError."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def differs_by_object(placeholders: Collection[str]) -> bool:
    """Whether objects ask different questions by a text with these placeholders: $metric is the source's own name."""
    return not {*placeholders} <= {"metric"}


def requests_of(placeholders: Collection[str]) -> str:
    """For a summary: how many requests a source sends each period whose text has these placeholders."""
    if not differs_by_object(placeholders):
        return "one request for all objects"
    names = ", ".join(sorted({"namespace", *placeholders} - {"metric"}))
    return f"a request for each {names}"


# Of Prometheus' data model.
Label = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]
SAMPLE_NAME = r"^[a-zA-Z_:][a-zA-Z0-9_:]*$"
SAMPLE_NAME_MAX = 253
