"""Packages with methods, made and installed by tests as their users install them."""

import subprocess
import sys
import zipfile

THETA = """
import json

import numpy as np


class Theta:
    '''statsmodels' Theta: its path of three days after the fit, and normal intervals around it.'''

    name, variants, needs = "Theta", ("Theta",), ("statsmodels",)

    def fit(self, load, *, steps_per_day, windows):
        from statsmodels.tsa.forecasting.theta import ThetaModel

        if len(load) < 2 * steps_per_day or np.isnan(load).any():
            return None
        found = ThetaModel(load, period=steps_per_day).fit()
        steps = 3 * steps_per_day + windows[-1] + 1
        upper = found.prediction_intervals(steps, alpha=0.2)["upper"]
        return Fitted(load, windows, np.asarray(found.forecast(steps)), np.asarray(upper))

    def decode(self, state):
        return Fitted(*(np.array(part) for part in json.loads(state)))


class Fitted:
    def __init__(self, load, windows, middle, upper):
        self.load, self.windows, self.middle, self.upper = load, tuple(windows), middle, upper

    def distribution(self, later, origins, windows=None):
        from cronhpa_models.method import Distribution

        ahead = origins.position.astype(int) + 1 - len(self.load)
        paths = (self.middle, self.upper, 2 * self.upper - self.middle)
        load = [[[path[i : i + reach].max() for path in paths] for i in ahead] for reach in self.windows[:windows]]
        load = np.maximum(load, 0.0)
        return Distribution(load, np.broadcast_to([0.5, 0.9, 1.0], (1, *load.shape)))

    def encode(self):
        parts = (self.load, np.array(self.windows), self.middle, self.upper)
        return json.dumps([part.tolist() for part in parts]).encode()


theta = Theta()
"""


def install(folder, package, code, *names):
    """A wheel of one module, put into a folder by pip. names: the entry points, as `Name = attribute`."""
    points = "".join(f"{name.split(' = ')[0]} = {package}:{name.split(' = ')[1]}\n" for name in names)
    about = f"{package}-1.0.dist-info"
    files = {
        f"{package}.py": code,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[cronhpa.methods]\n{points}",
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"])
    wheel = folder.parent / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        for name, text in files.items():
            out.writestr(name, text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
