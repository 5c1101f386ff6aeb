"""deploy/plugin.py: the commands in one file for each platform, and what installs it."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import plugin
import pytest
import release
import yaml

PROJECT = Path(__file__).parents[2]
MACHINES = {
    ("linux", "amd64"): ("ELF", 62),
    ("linux", "arm64"): ("ELF", 183),
    ("darwin", "amd64"): ("Mach-O", 0x01000007),
    ("darwin", "arm64"): ("Mach-O", 0x0100000C),
}


def machines(head):
    """What the header of a compiled module says that it is made for; a universal one of macOS is for several."""
    if head.startswith(b"\x7fELF"):
        return {("ELF", struct.unpack_from("<H", head, 18)[0])}
    if head.startswith(b"\xcf\xfa\xed\xfe"):
        return {("Mach-O", struct.unpack_from("<I", head, 4)[0])}
    if head.startswith(b"\xca\xfe\xba\xbe"):
        (count,) = struct.unpack_from(">I", head, 4)
        return {("Mach-O", struct.unpack_from(">I", head, 8 + 20 * number)[0]) for number in range(count)}
    return set()


@pytest.fixture
def archives(tmp_path):
    """Files of no worth, by platform."""
    made = {}
    for system, architecture in plugin.PLATFORMS:
        file = made[system, architecture] = tmp_path / f"kubectl-cronhpa-{system}-{architecture}.tar.gz"
        file.write_text(file.name)
    return made


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_krew_finds_a_file_for_linux_and_macos_on_both_processors(archives):
    manifest = yaml.safe_load(plugin.krew(archives, "0.2.0"))

    assert "v0.2.0" == manifest["spec"]["version"]
    assert {
        (each["selector"]["matchLabels"]["os"], each["selector"]["matchLabels"]["arch"]): (each["uri"], each["sha256"])
        for each in manifest["spec"]["platforms"]
    } == {
        platform: (f"https://github.com/cronhpa/cronhpa/releases/download/v0.2.0/{file.name}", digest(file))
        for platform, file in archives.items()
    }


def test_homebrew_gets_each_file_with_its_digest(archives):
    text = plugin.formula(archives, "0.2.0")
    blocks = re.findall(r"on_(macos|linux) do\n(.*?)\n  end", text, re.DOTALL)
    found = {
        ({"macos": "darwin"}.get(system, system), {"arm": "arm64", "intel": "amd64"}[processor]): (url, sha256)
        for system, block in blocks
        for processor, url, sha256 in re.findall(r'on_(\w+) do\s+url "(.+?)"\s+sha256 "(.+?)"', block)
    }

    assert {platform: digest(file) for platform, file in archives.items()} == {
        platform: sha256 for platform, (_, sha256) in found.items()
    }
    assert all(url.endswith(f"/v0.2.0/{archives[platform].name}") for platform, (url, _) in found.items())
    # Each block of Ruby ends: what opens one is `do` at the end of a line, a class or a method.
    assert len(re.findall(r"\bdo(?: \|\w+\|)?$|^class |^\s+def ", text, re.MULTILINE)) == len(
        re.findall(r"^\s*end$", text, re.MULTILINE)
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Takes minutes: packages for three Pythons on four platforms."""
    folder = tmp_path_factory.mktemp("release") / "built"
    release.build(folder, helm="helm", skipped={*release.STEPS} - {"wheel", "plugin"})
    return folder


def one_file(built, platform, folder):
    with tarfile.open(built / f"kubectl-cronhpa-{'-'.join(platform)}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    assert {"LICENSE", plugin.NAME} == {path.name for path in folder.iterdir()}
    return folder / plugin.NAME


@pytest.mark.long
@pytest.mark.parametrize("platform", plugin.PLATFORMS, ids="-".join)
def test_each_compiled_module_is_of_the_files_platform_and_there_for_each_python(built, platform, tmp_path):
    with zipfile.ZipFile(one_file(built, platform, tmp_path)) as zipped:
        modules = [name for name in zipped.namelist() if name.endswith(".so")]
        heads = {name: zipped.open(name).read(64) for name in modules}
    pythons = {f"3.{found[1]}" for name in modules if (found := re.search(r"cpython-3(\d+)-", name))}

    assert len(modules) > 40
    assert set(plugin.PYTHONS) == pythons
    assert [] == [name for name, head in heads.items() if MACHINES[platform] not in machines(head)]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the file for this machine is one for Linux")
def test_the_file_of_this_machine_runs_on_each_python_that_is_here(built, tmp_path):
    """Of Pythons that are missing CI has each."""
    machine = "arm64" if subprocess.check_output(["uname", "-m"], text=True).strip() == "aarch64" else "amd64"
    file = one_file(built, ("linux", machine), tmp_path / "unpacked")
    interpreters = {supported: shutil.which(f"python{supported}") for supported in plugin.PYTHONS}
    interpreters[f"{sys.version_info.major}.{sys.version_info.minor}"] = sys.executable

    for version, python in interpreters.items():
        if python is not None:
            (tmp_path / version).mkdir()
            (tmp_path / version / "python3").symlink_to(Path(python).resolve())
            ended = subprocess.run(
                [file, "preview", PROJECT / "crds" / "examples" / "holidays.yaml"],
                env={"PATH": f"{tmp_path / version}:/usr/bin:/bin", "SHIV_ROOT": str(tmp_path / "root" / version)},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert (0, "") == (ended.returncode, ended.stderr)
            assert ended.stdout.startswith("desk: ")


@pytest.mark.parametrize(("version", "says"), [((3, 9, 6), "python3 on the PATH is 3.9"), ((3, 12, 1), "")], ids=str)
def test_a_python_that_is_too_old_is_named(version, says):
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.version_info = {version}\n{plugin.CHECK}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (1 if says else 0) == ended.returncode
    assert says in ended.stderr
