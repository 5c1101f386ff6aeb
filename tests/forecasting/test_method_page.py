"""docs/how-to/forecasting-method.md: its method is packed, installed, found and tried as the page says."""

import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from cronhpa_models import catalog
from forecasting.packages import install

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "how-to" / "forecasting-method.md").read_text()
METHOD, TRIAL = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    (name,) = re.findall(r'^    (\w+) = "last_week:last_week"$', PAGE, re.MULTILINE)
    folder = tmp_path / "site"
    install(folder, "last_week", METHOD, f"{name} = last_week")
    monkeypatch.syspath_prepend(str(folder))
    yield name
    sys.modules.pop("last_week", None)


def test_the_method_is_found_by_the_name_that_objects_write(installed):
    selection = catalog.find([installed])

    assert [(installed,)] == [chosen.variants for chosen in selection.chosen]


def test_the_trial_says_what_most_loads_of_the_last_day_stay_below(installed, monkeypatch):
    """Of 288 steps nine in ten are expected below; a day is no law, so three quarters are asked for."""
    monkeypatch.chdir(PROJECT)
    names = {}
    exec(TRIAL, names)

    likely, load = names["likely"], names["load"]
    came = load.reindex(likely.index + pd.Timedelta("5min"))
    assert len(likely) > 280
    assert 0.75 < (came.to_numpy() <= likely[1].to_numpy()).mean()
