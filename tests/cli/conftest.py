"""Shared by tests of commands: an API server, and no access to the developer's own cluster."""

import pytest
from typer.testing import CliRunner

from cli.forked import ForkedCommands
from cli.served import ServedApi, serving, write_kubeconfig
from cronhpa.cli import app


@pytest.fixture
def served():
    with serving(ServedApi()) as api:
        yield api


@pytest.fixture
def cronhpa(served, tmp_path):
    """Runs a command against the fake API server: the current context states the namespace prod, `dev` states none."""
    file = write_kubeconfig(tmp_path / "kubeconfig", served.server, {"prod": "prod", "dev": None})

    def run(*arguments, given=None):
        words = [str(argument) for argument in arguments]
        clustered = words[0] in {"create", "explain", "override", "adopt", "convert", "preview", "backtest", "history"}
        where = ["--kubeconfig", str(file)] if clustered and "--kubeconfig" not in words else []
        return CliRunner().invoke(app, [*words, *where], input=given, color=True)

    return run


@pytest.fixture(scope="session")
def forked(tmp_path_factory):
    """Runs commands, each in a process of its own."""
    with ForkedCommands(tmp_path_factory.mktemp("forked")) as commands:
        yield commands
