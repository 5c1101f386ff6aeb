"""deploy/image.py: the files that are left out, with reasons; the long tests build each variant twice and run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import image
import pytest

from testbed.image import built, environment, inside, unpacked

PROJECT = Path(__file__).parents[2]
LIBRARY = "usr/local/lib/python3.11/dist-packages"
# MB unpacked, as issue and README state them.
LARGEST = {"slim": 150, "full": 450}


def test_what_is_left_out_goes_with_its_folders_and_what_is_like_it_stays(tmp_path):
    gone = (
        "usr/share/doc/libc6/copyright", "usr/lib/x86_64-linux-gnu/gconv/BIG5.so", f"{LIBRARY}/numpy/tests/test_a.py",
        f"{LIBRARY}/kubernetes/client/models/v1_pod.py", f"{LIBRARY}/kubernetes/client/api/core_v1_api.py",
        f"{LIBRARY}/aiohttp/_websocket/reader_c.pxd", f"{LIBRARY}/statsmodels/datasets/co2/co2.csv",
    )  # fmt: skip
    kept = (
        "usr/share/zoneinfo/UTC", f"{LIBRARY}/numpy/testing/a.py", f"{LIBRARY}/kubernetes/client/api/__init__.py",
        f"{LIBRARY}/kubernetes/client/models/v1_object_meta.py", f"{LIBRARY}/statsmodels/datasets/co2/data.py",
        f"{LIBRARY}/tzdata/zoneinfo/Etc/UTC", f"{LIBRARY}/cronhpa/api/schema.py",
    )  # fmt: skip
    for name in (*gone, *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    image.prune(tmp_path)

    assert sorted(kept) == sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert not (tmp_path / "usr/share/doc").exists()


def test_each_thing_that_is_left_out_has_a_reason():
    assert all(len(reason) > 5 for _, reason in image.LEFT_OUT)


def test_a_worker_that_is_spawned_by_the_images_program_does_not_run_it_again(tmp_path):
    """As in the pod: the program is a file, cronhpa.cli calls what spawns, and the worker imports the file."""
    (tmp_path / "cronhpa").mkdir()
    (tmp_path / "cronhpa" / "__init__.py").touch()
    (tmp_path / "cronhpa" / "cli.py").write_text(
        "import multiprocessing, os\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def main():\n"
        "    print('runs')\n"
        "    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context('spawn')) as pool:\n"
        "        print(pool.submit(os.getpid).result() != os.getpid())\n"
    )
    (tmp_path / "program").write_text(image.PROGRAM)

    said = subprocess.run(
        [sys.executable, tmp_path / "program"], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip

    assert "runs\nTrue\n" == said.stdout, said.stderr


IMPORTED = """
import importlib, pkgutil, sys, cronhpa, cronhpa_models
missing = set()
for package in (cronhpa, cronhpa_models):
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not each.name.endswith("__main__"):
            try:
                importlib.import_module(each.name)
            except ModuleNotFoundError as error:
                missing.add(error.name.partition(".")[0])
print(*sorted(missing))
"""
# What the variants do without: docs/how-to/install.md names the build that has it.
ABSENT = {"full": "distributed matplotlib pyarrow\n", "slim": "distributed matplotlib numpy opentelemetry\n"}


@pytest.mark.long
@pytest.mark.parametrize("variant", ["slim", "full"])
def test_the_image_is_built_twice_alike_within_its_size_and_has_all_that_its_modules_import(tmp_path, variant):
    """Takes minutes, and the registries of Debian and of Python packages."""
    options = ["--slim"] if variant == "slim" else []
    first, sizes = built(tmp_path / "first", *options)
    second, _ = built(tmp_path / "second", *options)

    assert first == second
    assert {"linux/amd64", "linux/arm64"} == sizes.keys()
    assert all(size < LARGEST[variant] for size in sizes.values()), sizes
    root = unpacked(tmp_path / "first", tmp_path / "root")
    told = subprocess.run(
        inside(root, "/usr/bin/python3", "-c", IMPORTED), env=environment(), capture_output=True, text=True, check=True
    )
    assert ABSENT[variant] == told.stdout
    # What is imported at its first use: the rules of the CRD by the CEL library, holidays, pictures in text.
    for example in ("office-hours", "holidays"):
        (root / "tmp" / "shop.yaml").write_text((PROJECT / f"crds/examples/{example}.yaml").read_text())
        preview = inside(root, "cronhpa", "preview", "/tmp/shop.yaml")
        subprocess.run(preview, env=environment(), capture_output=True, text=True, check=True)
    if variant == "full":
        (root / "tmp" / "load.csv.gz").write_bytes((PROJECT / "benchmarks/traces/k8s_app11_cpu_1m.csv.gz").read_bytes())
        (root / "tmp" / "shop.yaml").write_text((PROJECT / "crds/examples/forecast.yaml").read_text())
        backtest = [
            "cronhpa",
            "backtest",
            "/tmp/shop.yaml",
            "--pod-request",
            "cpu=500m",
            "--history",
            "/tmp/load.csv.gz",
        ]
        told = subprocess.run(inside(root, *backtest), env=environment(), capture_output=True, text=True, check=True)
        assert "\nforecast " in told.stdout


@pytest.mark.long
def test_what_is_asked_for_beside_is_in_it_by_the_same_locks(tmp_path):
    built(tmp_path / "layout", "--slim", "--platform", image.own_architecture(), "--extras", "parquet")
    root = unpacked(tmp_path / "layout", tmp_path / "root")
    told = subprocess.run(
        inside(root, "/usr/bin/python3", "-c", "import pyarrow.parquet; print(pyarrow.__version__)"),
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert f"\npyarrow=={told.stdout.strip()} " in (PROJECT / "requirements.lock").read_text()


def test_an_extra_that_is_none_is_named_with_those_that_are(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["image.py", "--extras", "dask,cuda"])
    with pytest.raises(SystemExit):
        image.main()

    assert "found dask,cuda; accepted are dask, parquet, plot" in capsys.readouterr().err
