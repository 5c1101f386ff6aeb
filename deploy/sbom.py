"""
A CycloneDX SBOM of an image: the Python packages of its lock, and the Debian packages of its base, with their hashes.

Run by the Python of build/tools, which has cyclonedx: `make sbom`. The same locks give the same bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from debian import Package, locked

PROJECT = Path(__file__).parents[1].resolve()
SCHEMA = SchemaVersion.V1_6


def component(package: Package) -> dict[str, object]:
    """A Debian package as a component, named by its purl."""
    version = quote(package.version, safe="")
    purl = f"pkg:deb/debian/{quote(package.name, safe='')}@{version}?arch={package.architecture}&distro=debian-12"
    return {
        "bom-ref": purl,
        "hashes": [{"alg": "SHA-1", "content": package.sha1}, {"alg": "SHA-256", "content": package.sha256}],
        "name": package.name,
        "purl": purl,
        "type": "library",
        "version": package.version,
    }


def main(lock: Path, output: Path) -> None:
    python = subprocess.check_output(
        [
            Path(sys.executable).parent / "cyclonedx-py", "requirements", "--pyproject", PROJECT / "pyproject.toml",
            "--output-reproducible", "--spec-version", SCHEMA.to_version(), "--output-format", "JSON", lock,
        ],
        # cyclonedx warns that a list without a dependency graph is incomplete.
        env=os.environ | {"PYTHONWARNINGS": "ignore::UserWarning"},
    )  # fmt: skip
    bom = json.loads(python)
    bom["components"] += [component(package) for package in locked()]
    text = json.dumps(bom, indent=2, sort_keys=True) + "\n"
    if problem := JsonStrictValidator(SCHEMA).validate_str(text):
        raise SystemExit(f"{output} is no CycloneDX {SCHEMA.to_version()}: {problem}")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, "utf-8")
    sys.stdout.write(f"{output}: {len(bom['components'])} packages\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
