"""Which fit is the newest of a series, and which fits are forgotten."""

from cronhpa.core.model.instant import DAY
from cronhpa.history.load.fits import Fit, FitInfo
from history.samples import API, NOON, WEB, raw


def infos(fit, *series, digest="spec", choice=b"choice"):
    return {member: FitInfo(fit.fitted_at, digest, choice) for member in series}


def test_a_newer_fit_takes_the_place_of_the_older_for_its_series_only(store):
    both, newer = Fit("m", NOON, NOON, b"both"), Fit("m", NOON + DAY, NOON + DAY, b"newer")
    store.fits.save(both, infos(both, WEB, API))
    store.fits.save(newer, infos(newer, WEB, digest="edited", choice=b"other"))

    assert [(newer, [WEB]), (both, [API])] == store.fits.newest([WEB, API])
    assert {WEB: FitInfo(NOON + DAY, "edited", b"other"), API: FitInfo(NOON, "spec", b"choice")} == store.fits.infos()


def test_a_fit_that_is_nobodys_newest_is_gone(store):
    for fit in (Fit("m", NOON, NOON, b"old"), Fit("m", NOON + DAY, NOON, b"new")):
        store.fits.save(fit, infos(fit, WEB, API))

    assert [(b"new",)] == raw(store.address, "SELECT state FROM fit")
