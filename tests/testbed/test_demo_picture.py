"""The picture that the demo ends with."""

from xml.etree import ElementTree as ET

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cronhpa.cli.picture.style import RC
from testbed.demo.observation import Verdict
from testbed.demo.picture import draw, drawn
from testbed.demo.twins import CRONHPA, TWINS, UPSTREAM
from testbed.test_demo_parts import moment, pods

# 4 pods carry 2 cores. The load is 3 from 0:10 on; the CronHPA has 8 pods by then, the upstream at 0:25.
MOMENTS = [
    moment(second, 3.0 if second >= 10 else 1.0,
           upstream=pods(8, generation=2) if second >= 25 else pods(4, starting=4 * (second >= 15)),
           cronhpa=pods(8, generation=2) if second >= 8 else pods(4, starting=4), verdict=Verdict("Forecast/cpu"))
    for second in range(31)
]  # fmt: skip
TOLD = [
    (1.0, "forecast floor rises to 8 (3.6 / 0.45 = 8)"),
    (2.0, "CronHPA scales 4 to 8, decided by Forecast/cpu"),
    (10.0, "upstream HPA is short of pods: 3 cores of load, its ready pods carry 2"),
    (15.0, "upstream HPA scales 4 to 8 (cpu 75 %)"),
    (25.0, "upstream HPA carries the load again"),
]


def test_the_picture_has_both_twins_their_shortage_and_what_each_did(tmp_path):
    draw(MOMENTS, TOLD, "demo", tmp_path / "demo.svg")

    texts = " ".join(" ".join(ET.parse(tmp_path / "demo.svg").getroot().itertext()).split())
    for said in (
        "namespace demo",
        "upstream HPA: short of pods for 15 s",
        "CronHPA: short of pods for 0 s",
        "scales 4 to 8, decided by Forecast/cpu",
        "scales 4 to 8 (cpu 75 %)",
    ):
        assert said in texts


def test_red_is_where_a_twin_was_short_and_nowhere_else():
    """From 0:10 to 0:25, between the 2 cores that are carried and the 3 of the load."""
    with rc_context(RC):
        figure, _ = drawn(MOMENTS, TOLD, "demo")
    red = {
        name: [
            path.get_extents()
            for collection in axes.collections
            if collection.get_alpha()
            for path in collection.get_paths()
        ]
        for name, axes in zip(TWINS, figure.axes, strict=False)
    }

    (box,) = red[UPSTREAM]
    assert (10, 25, 2, 3) == (box.x0, box.x1, box.y0, box.y1)
    assert [] == red[CRONHPA]


def test_no_event_is_written_on_another():
    crowd = [(second / 4, f"CronHPA scales {second} to {second + 1}, decided by Forecast/cpu") for second in range(60)]
    with rc_context(RC):
        figure, labels = drawn(MOMENTS, crowd, "demo")
        canvas = FigureCanvasAgg(figure)
        labels.place(figure)
        figure.draw_without_rendering()
        renderer = canvas.get_renderer()
        extents = [text.get_window_extent(renderer) for text in labels.shown()]

    assert extents
    assert [] == [1 for number, one in enumerate(extents) for other in extents[number + 1 :] if one.overlaps(other)]
