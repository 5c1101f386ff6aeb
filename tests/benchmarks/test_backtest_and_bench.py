"""`cronhpa backtest` and the bench on the same series and settings: one path, equal figures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.made_series import write
from cronhpa.cli import app
from cronhpa.core.model.instant import MINUTE, format_instant
from cronhpa.forecasting.columns import AutoscalerModel
from cronhpa.history.database.series import STEP

pytestmark = pytest.mark.usefixtures("benchmark_scripts")

OBJECT = """
apiVersion: cronhpa.io/v1alpha1
kind: CronHPA
metadata: {name: jump, namespace: bench}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: jump}
  minReplicas: 1
  maxReplicas: 10000
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
  forecast: {budgetPercent: 5}
"""


def backtested(series, folder):
    """
    (minutes, pod-hours) of each variant, of the load as the bench scaled it.

    The bench leaves the first point out, which ends a minute that was not recorded.
    """
    begin = series.begin.value
    lines = [f"{format_instant(begin + i * MINUTE)},{float(value)!r}" for i, value in enumerate(series.minutes, 1)]
    (folder / "load.csv").write_text("timestamp,value\n" + "\n".join(lines) + "\n")
    (folder / "jump.yaml").write_text(OBJECT)
    first, last = (format_instant(begin + row * STEP) for row in (series.first_step, len(series.steps)))
    options = ["--history", str(folder / "load.csv"), "--pod-request", "cpu=1", "--pod-startup", "120s"]
    command = ["backtest", str(folder / "jump.yaml"), *options, "--from", first, "--to", last, "-o", "json"]
    result = CliRunner().invoke(app, command)
    assert 0 == result.exit_code, result.output
    by_variant = json.loads(result.stdout)["variants"]
    return [
        (by_variant[name]["underProvisionedMinutes"], by_variant[name]["podHours"]) for name in ("reactive", "forecast")
    ]


@pytest.mark.slow
def test_backtest_gives_the_figures_of_the_bench(tmp_path):
    """Eight days of a jump a day amid noise, in points of a minute; the last one is run."""
    import decided
    import recorded

    rows = np.arange(8 * 1440)
    noise = np.random.default_rng(2).gamma(20.0, 0.05, len(rows))
    series = recorded.read(write(tmp_path / "jump.csv", np.where(rows % 1440 < 360, 3.0, 15.0) * noise, 60))

    plain, (own,) = decided.decided(series, AutoscalerModel(), (5,))

    expected = [(score.under_provisioned_minutes, score.pod_hours) for score in (plain, own)]
    np.testing.assert_allclose(backtested(series, tmp_path), expected, atol=0.01)
    assert expected[1][0] < 0.9 * expected[0][0], "a forecast that changes nothing proves nothing"
