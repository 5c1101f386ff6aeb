"""`cronhpa run`: the operator."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

import typer

from cronhpa.cli.terminal.command_classes import PlainCommand
from cronhpa.cli.terminal.console import fail, say


def _monotonic() -> float:
    """Seconds of a clock that goes on while the machine is suspended, if the system has one: a Lease goes on, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def run(  # noqa: PLR0913, PLR0917 - its options
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="Kubeconfig. Default: the pod's account, else kubectl's.")
    ] = None,
    namespaces: Annotated[str | None, typer.Option(help="Namespaces to act in, comma-separated. Default: all.")] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Load history and forecasts: a SQLite file or postgresql://... Default: cronhpa-history.db."),
    ] = None,
    listen_port: Annotated[
        int | None, typer.Option(help="Port of /healthz, /readyz and /metrics. Default: 8080.")
    ] = None,
    probe_port: Annotated[int | None, typer.Option(help="Port of /healthz and /readyz alone. Default: 8081.")] = None,
    leader_elect: Annotated[
        bool | None, typer.Option(help="Whether replicas elect the one that decides, by a Lease. Default: they do.")
    ] = None,
    leader_elect_lease_duration: Annotated[
        str | None, typer.Option(help="Time without a renewal after which another may lead. Default: 15s.")
    ] = None,
    leader_elect_renew_deadline: Annotated[
        str | None, typer.Option(help="Time without a renewal after which a leader stops writing. Default: 10s.")
    ] = None,
    leader_elect_retry_period: Annotated[
        str | None, typer.Option(help="Time between two renewals. Default: 2s.")
    ] = None,
    leader_elect_resource_name: Annotated[str | None, typer.Option(help="Name of the Lease. Default: cronhpa.")] = None,
    leader_elect_resource_namespace: Annotated[
        str | None, typer.Option(help="Namespace of the Lease. Default: the pod's, else the context's.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error. Default: info.")] = None,
) -> None:
    """
    Run the operator until it gets SIGTERM or SIGINT.

        cronhpa run --kubeconfig ~/.kube/config --namespaces prod
        CRONHPA_SYNC_PERIOD=30s cronhpa run

    Settings are environment variables, listed below with their defaults; an option overrides its variable.

    Exit codes: 0 a signal ended it; 1 the cluster or the store cannot be used; 2 a setting is wrong.
    """
    from pydantic import ValidationError

    from cronhpa.api.spec_errors import found_and_accepted
    from cronhpa.cli.commands.version import recorded_commit
    from cronhpa.kube.clock import Clock
    from cronhpa.kube.errors import ClusterError
    from cronhpa.operator import app
    from cronhpa.operator.controller_settings import variable_of
    from cronhpa.operator.monitoring import log
    from cronhpa.operator.settings import Settings, unknown_variables

    arguments: dict[str, Any] = {
        "kubeconfig": kubeconfig,
        "namespaces": namespaces,
        "store": store,
        "listen_port": listen_port,
        "probe_port": probe_port,
        "leader_elect": leader_elect,
        "leader_elect_lease_duration": leader_elect_lease_duration,
        "leader_elect_renew_deadline": leader_elect_renew_deadline,
        "leader_elect_retry_period": leader_elect_retry_period,
        "leader_elect_resource_name": leader_elect_resource_name,
        "leader_elect_resource_namespace": leader_elect_resource_namespace,
        "log_level": log_level,
    }
    unknown = [*unknown_variables(os.environ)]
    for problem in unknown:
        say(problem, err=True)
    if unknown:
        raise typer.Exit(2)
    try:
        settings = Settings(**{key: value for key, value in arguments.items() if value is not None})
    except ValidationError as error:
        for wrong in error.errors(include_url=False):
            name = variable_of("_".join(str(part) for part in wrong["loc"]))
            # An address may hold a password, and a malformed one may hold it anywhere.
            is_secret = bool({"prometheus_url", "store"} & {*wrong["loc"]})
            say(f"{name}: {found_and_accepted(wrong, is_secret=is_secret)}", err=True)
        raise typer.Exit(2) from error
    # The one place where the operator gets the system's clocks.
    clock = Clock(time.time_ns, _monotonic)
    log.configure(settings.log_format, settings.log_level, clock.monotonic)
    try:
        raise typer.Exit(app.main(settings, clock, recorded_commit()))
    except (ClusterError, OSError) as error:
        fail("run", error)


class RunCommand(PlainCommand):
    """The command whose help ends with a list of all settings, which is made when the help is printed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.epilog = settings_text()
        super().format_help(ctx, formatter)


def settings_text() -> str:
    """A list of the environment variables, as Markdown: name, default, description."""
    from cronhpa.operator.controller_settings import variable_of
    from cronhpa.operator.settings import Settings

    lines = []
    for name, field in Settings.model_fields.items():
        default = "none" if field.default is None or field.default == "" else field.default
        lines.append(f"- `{variable_of(name)}` ({default}): {field.description}")
    return "\n".join(lines)
