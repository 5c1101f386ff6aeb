"""The same load run with less and less of what an object has."""

from __future__ import annotations

from core.situations import at, schedule, spec
from cronhpa.core.model.spec import ForecastSettings, Mode, Override
from cronhpa.simulation.compare import Variant, variants


def test_an_object_is_run_with_what_it_has():
    day, settings = schedule("day", floor=3), ForecastSettings(mode=Mode.PREVIEW)
    full = spec(
        schedules=(day,), forecast=settings, mode=Mode.PREVIEW, override=Override(at("12:00"), "INC-1", floor=9)
    )

    by_variant = variants(full)

    assert [Variant.REACTIVE, Variant.SCHEDULED, Variant.FORECAST] == list(by_variant)
    assert [(), (day,), (day,)] == [variant_spec.schedules for variant_spec in by_variant.values()]
    assert [None, None, ForecastSettings()] == [variant_spec.forecast for variant_spec in by_variant.values()]
    assert {(Mode.ACTIVE, None)} == {(variant_spec.mode, variant_spec.override) for variant_spec in by_variant.values()}
    assert [Variant.REACTIVE] == list(variants(spec()))
    assert [Variant.SCHEDULED] == list(variants(spec(metrics=(), schedules=(day,))))
