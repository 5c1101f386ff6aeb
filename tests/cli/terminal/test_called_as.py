"""
cronhpa.cli.terminal.console, cronhpa.cli.commands.version, cronhpa.cli.commands.completion

`cronhpa` and `kubectl cronhpa` are one program: its name in what it says, its version, its completion, its help.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.cli.commands.completion import completions
from cronhpa.cli.commands.version import UNKNOWN, commit_of, recorded_commit, release_of, version_text

PROJECT = Path(__file__).parents[3]


def commands(group, *names):
    """The words of each command below a group of commands."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield " ".join((*names, name))


COMMANDS = [*commands(get_command(app))]


def called_as(program, *arguments, folder):
    """What a program of this name prints: kubectl runs `kubectl-cronhpa` from the PATH."""
    script = folder / program
    script.write_text("import sys\nfrom cronhpa.cli import main\nmain()\n")
    environment = {**os.environ, "COLUMNS": "80", "KUBECONFIG": "/nonexistent"}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


# --- the name ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("program", "name"), [("cronhpa", "cronhpa"), ("kubectl-cronhpa", "kubectl cronhpa")])
def test_usage_examples_and_errors_have_the_name_it_was_called_by(tmp_path, program, name):
    helped = called_as(program, "explain", "--help", folder=tmp_path).stdout
    refused = called_as(program, "explain", "shop", folder=tmp_path)
    misused = called_as(program, "explain", "shop", "--no-such", folder=tmp_path)

    assert f" Usage: {name} explain " in helped
    assert f"  {name} explain shop -n prod" in helped
    assert refused.stderr.startswith(f"{name} explain: no way to the Kubernetes API: ")
    assert misused.stderr.startswith(f"Usage: {name} explain ")
    assert (1, 2) == (refused.returncode, misused.returncode)


def test_no_command_writes_its_name_before_a_problem_itself():
    """Found: `cronhpa override: ...` for whoever had typed `kubectl cronhpa override`. `complain` knows the name."""
    names = "|".join({command.split()[0] for command in COMMANDS} | {r"\{command\}"})
    written = re.compile(rf'"cronhpa (?:{names}): ')

    assert [] == [path.name for path in (PROJECT / "cronhpa").rglob("*.py") if written.search(path.read_text("utf-8"))]


# --- help --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example_and_its_exit_codes(command):
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "80"}).stdout
    text = " ".join(shown.split())

    assert re.search(rf"^  cronhpa {command}\b", shown, re.MULTILINE), shown
    assert "Exit codes: 0 " in text
    assert [] == [line for line in shown.splitlines() if len(line) > 80]


def test_the_shell_completes_the_commands_that_help_lists():
    """Each of the first words is offered once: `history` stands for its three commands."""
    assert sorted({command.split()[0] for command in COMMANDS}) == sorted(completions([""]))
    assert sorted(command.split()[1] for command in COMMANDS if command.startswith("history ")) == sorted(
        completions(["history", ""])
    )


# --- the version -------------------------------------------------------------------------------------------------


def git(root, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A work tree with one commit, and the few files that determine the version."""
    root = tmp_path / "checkout"
    (root / "cronhpa" / "cli" / "commands").mkdir(parents=True)
    for name in (
        ".gitignore",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "NOTICE",
        "cronhpa/cli/commands/version.py",
    ):
        shutil.copy(PROJECT / name, root / name)
    (root / "cronhpa" / "__init__.py").touch()
    shutil.copytree(PROJECT / "crds", root / "crds")
    (root / "models" / "cronhpa_models").mkdir(parents=True)
    (root / "models" / "cronhpa_models" / "__init__.py").touch()
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    return root


def test_the_version_is_told_with_commit_and_crd():
    done = CliRunner().invoke(app, ["--version"])

    assert (0, version_text().splitlines()) == (done.exit_code, done.stdout.splitlines())
    assert re.match(r"cronhpa \d+\.\d+\.\d+, commit ", done.stdout)
    assert "CustomResourceDefinition cronhpas.cronhpa.io, version v1alpha1" in done.stdout


def test_a_checkout_tells_its_commit_and_whether_it_was_changed(checkout):
    commit = git(checkout, "rev-parse", "HEAD")

    assert commit == commit_of(checkout)
    (checkout / "README.md").write_text("other words")
    assert commit == commit_of(checkout)
    (checkout / "cronhpa" / "new.py").touch()
    assert f"{commit} with uncommitted changes" == commit_of(checkout)


def test_a_folder_within_somebody_elses_repository_has_no_commit(tmp_path):
    """A virtual environment within a checkout, or an unpacked archive."""
    within = tmp_path / "repository" / "site-packages"
    (within / "cronhpa").mkdir(parents=True)
    shutil.copy(PROJECT / "pyproject.toml", within)
    git(tmp_path / "repository", "init", "-q")

    assert UNKNOWN == commit_of(within)
    assert UNKNOWN == recorded_commit(within / "cronhpa")


def test_the_environment_of_a_git_hook_leads_nowhere_else(checkout, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "two")
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(checkout))

    assert commit == commit_of(checkout)


def test_without_git_a_checkout_has_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")

    assert UNKNOWN == commit_of(checkout)


def test_a_release_is_that_of_the_package_that_runs(checkout, tmp_path):
    """Another installation of this name must not answer."""
    project = (checkout / "pyproject.toml").read_text()
    (checkout / "pyproject.toml").write_text(project.replace('version = "0.1.0"', 'version = "9.9.9"'))

    assert "9.9.9" == release_of(checkout / "cronhpa")
    assert UNKNOWN == release_of(tmp_path / "elsewhere" / "cronhpa")


def built(root, target, folder, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)],
        cwd=root, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done, sorted(folder.glob("*")) if folder.exists() else []


def commit_in(wheel):
    with zipfile.ZipFile(wheel) as opened:
        return opened.read("cronhpa/_commit").decode().strip()


def test_a_wheel_has_the_commit_that_it_was_built_from(checkout, tmp_path):
    """Straight from a checkout, by way of a source distribution, and out of files without a repository."""
    commit = git(checkout, "rev-parse", "HEAD")

    _, (wheel,) = built(checkout, "wheel", tmp_path / "dist")
    _, (sdist,) = built(checkout, "sdist", tmp_path / "sdist")
    shutil.unpack_archive(sdist, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    _, (again,) = built(unpacked, "wheel", tmp_path / "again")
    shutil.rmtree(checkout / ".git")
    _, (bare,) = built(checkout, "wheel", tmp_path / "bare")
    _, (stated,) = built(checkout, "wheel", tmp_path / "stated", CRONHPA_COMMIT="a" * 40)

    assert [commit, commit, UNKNOWN, "a" * 40] == [commit_in(artifact) for artifact in (wheel, again, bare, stated)]


@pytest.mark.parametrize(("stated", "said"), [("main", "40 hex digits"), ("a" * 40, "this checkout is at ")])
def test_a_malformed_commit_is_not_written(checkout, tmp_path, stated, said):
    done, made = built(checkout, "wheel", tmp_path / "dist", CRONHPA_COMMIT=stated)

    assert (True, []) == (done.returncode != 0, made)
    assert said in done.stderr


# --- completion --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["pre"], ["preview"]),
        (["history", ""], ["import", "export", "list", "events", "copy"]),
        (["preview", "--output", ""], ["table", "json"]),
        (["explain", "--kubec"], ["--kubeconfig"]),
        (["preview", "'; rm -rf x"], []),
    ],
)
def test_the_shell_completes_the_next_words(words, found):
    assert found == completions(words)


def test_kubectl_gets_a_line_for_each_and_a_directive_behind_them(tmp_path):
    """4: no names of files besides; 0: those of files, where nothing else is known."""

    def printed(*words):
        command = [sys.executable, "-c", "from cronhpa.cli.commands.completion import main; main()", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()

    assert ["preview", ":4"] == printed("prev")
    assert [":0"] == printed("preview", "shop.y")


# --- words of others ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_gives_a_flag_a_type(command):
    assert "<bool>" not in CliRunner().invoke(app, [*command.split(), "--help"]).stdout


@pytest.mark.parametrize(
    ("typed", "meant"), [("get", "status"), ("describe", "explain"), ("explan", "explain"), ("scale", "override")]
)
def test_a_command_of_kubectl_or_a_misspelt_one_is_answered_with_ours(typed, meant):
    ended = CliRunner().invoke(app, [typed])

    assert 2 == ended.exit_code
    assert f"No such command {typed!r}. Did you mean {meant!r}" in " ".join(ended.stderr.replace("│", " ").split())


def test_the_version_is_a_command_too():
    assert version_text().splitlines() == CliRunner().invoke(app, ["version"]).stdout.splitlines()
