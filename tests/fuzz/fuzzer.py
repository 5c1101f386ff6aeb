"""One harness under atheris: `python -m fuzz.fuzzer NAME CORPUS... -OPTION=VALUE...`, options of libFuzzer."""

from __future__ import annotations

import logging
import sys
import warnings

import atheris

with atheris.instrument_imports(include=["cronhpa", "yaml", "croniter"]):
    from fuzz.harnesses import HARNESSES

if __name__ == "__main__":
    logging.disable()
    warnings.simplefilter("ignore")
    name, *rest = sys.argv[1:]
    atheris.Setup([sys.argv[0], *rest], HARNESSES[name])
    atheris.Fuzz()
