"""Methods that fail in one place or answer nonsense, as those of other packages may."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cronhpa_models.catalog import ChosenMethod
from cronhpa_models.last_value import LastValue
from cronhpa_models.method import Distribution

SOUND = LastValue()


class BrokenError(Exception):
    """What a broken method raises."""


@dataclass(frozen=True)
class Odd:
    """LastValue by another name, but for what is broken. broken: verbs that raise. answer: of a sound distribution."""

    broken: tuple[str, ...] = ()
    answer: object = field(default=lambda sound: sound)
    encoded: object = field(default=lambda state: state)
    name = "Odd"
    variants = ("Odd",)
    needs = ()

    def fit(self, load, *, steps_per_day, windows):
        self.check("fit")
        fitted = SOUND.fit(load, steps_per_day=steps_per_day, windows=windows)
        return None if fitted is None else OddFitted(self, fitted)

    def decode(self, state):
        self.check("decode")
        return OddFitted(self, SOUND.decode(state))

    def check(self, verb):
        if verb in self.broken:
            raise BrokenError(verb)


@dataclass(frozen=True)
class OddFitted:
    method: Odd
    fitted: Any

    @property
    def load(self):
        self.method.check("load")
        return self.fitted.load

    @property
    def windows(self):
        return self.fitted.windows

    def distribution(self, later, origins, windows=None):
        self.method.check("distribution")
        return self.method.answer(self.fitted.distribution(later, origins, windows))

    def encode(self):
        self.method.check("encode")
        return self.method.encoded(self.fitted.encode())


def chosen(method):
    return ChosenMethod(method, method.variants)


def falling_cdf(sound):
    return Distribution(sound.load, sound.cdf[..., ::-1])


def unknown_cdf(sound):
    return Distribution(sound.load, np.full_like(sound.cdf, np.nan))


def half_known_load(sound):
    load = sound.load.copy()
    load[..., 0] = np.nan
    return Distribution(load, sound.cdf)


def infinite_load(sound):
    return Distribution(np.full_like(sound.load, np.inf), sound.cdf)


def negative_load(sound):
    return Distribution(-sound.load - 1, sound.cdf)


def one_origin_less(sound):
    return Distribution(sound.load[:, 1:], sound.cdf[:, :, 1:])


def no_bins(sound):
    return Distribution(sound.load[..., :0], sound.cdf[..., :0])


def no_variant(sound):
    return Distribution(sound.load, sound.cdf[0])


def no_distribution(_sound):
    return None


def words(_sound):
    return Distribution("high", "certain")
