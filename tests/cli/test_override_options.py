"""The options of `cronhpa override`: those that do not make one override are refused before anything is asked."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app

FOR = ("--for", "2h")
WHY = ("--reason", "INC-4711")
REFUSED = {
    "no bound": ((*FOR, *WHY), "--min, --max, --replicas: an override states one of them"),
    "two bounds": (("--min", "1", "--max", "2", *FOR, *WHY), "an override states one of them"),
    "no end": (("--min", "1", *WHY), "--for, --until: an override ends: state one of them"),
    "two ends": (("--min", "1", *FOR, "--until", "18:00", *WHY), "an override ends: state one of them"),
    "no reason": (("--min", "1", *FOR), "--reason: say why, for whoever finds it"),
    "an empty reason": (("--min", "1", *FOR, "--reason", ""), "say why"),
    "fewer than none": (("--min", "-1", *FOR, *WHY), "should be greater than or equal to 0"),
    "set and taken back": (("--clear", "--min", "1", *FOR, *WHY), "an override is either taken back or set"),
}


@pytest.mark.parametrize(("options", "said"), REFUSED.values(), ids=list(REFUSED))
def test_options_that_do_not_make_an_override_are_refused(options, said):
    result = CliRunner().invoke(app, ["override", "shop", *options])

    assert 2 == result.exit_code
    assert said in " ".join(result.stderr.replace("│", " ").split())
