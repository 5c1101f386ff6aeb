"""The settings that are flags of the upstream's controller, with its defaults: they decide, also in commands."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from cronhpa.core.model.instant import parse_duration
from cronhpa.core.model.spec import ControllerOptions

PREFIX = "CRONHPA_"


def _as_duration(text: str) -> str:
    if parse_duration(text) <= 0:
        raise ValueError(f"{text!r} must be longer than nothing: write for example 15s")
    return text


def _as_duration_or_zero(text: str) -> str:
    if parse_duration(text) < 0:
        raise ValueError(f"{text!r} must not be below 0s: write for example 15s")
    return text


Duration = Annotated[str, AfterValidator(_as_duration)]
# Flags of the upstream that may be 0s there.
DurationOrZero = Annotated[str, AfterValidator(_as_duration_or_zero)]


class ControllerSettings(BaseSettings):
    """Durations are Go texts such as 15s or 5m."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", validate_default=True)

    sync_period: Duration = Field("15s", description="Time between two reconciliations of an object.")
    tolerance: float = Field(0.1, ge=0, lt=1, description="How far a metric may be off its target before it scales.")
    downscale_stabilization: DurationOrZero = Field("5m", description="Default window of scale-down stabilization.")
    cpu_initialization_period: DurationOrZero = Field(
        "5m", description="Time after a pod's start in which its CPU is distrusted."
    )
    initial_readiness_delay: DurationOrZero = Field(
        "30s", description="Time after a pod's start in which unready means starting."
    )

    @property
    def controller_options(self) -> ControllerOptions:
        return ControllerOptions(
            sync_period=parse_duration(self.sync_period),
            tolerance=self.tolerance,
            downscale_stabilization=parse_duration(self.downscale_stabilization),
            cpu_initialization_period=parse_duration(self.cpu_initialization_period),
            initial_readiness_delay=parse_duration(self.initial_readiness_delay),
        )


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"
