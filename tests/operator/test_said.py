"""cronhpa.operator.said: a status that is not rendered would have been the same."""

from hypothesis import given, settings
from hypothesis import strategies as st
from lives import Life, cronhpa, deployment, one_pod_each, rules, status, until
from model_api import ModelApi
from virtual_time import live

from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.operator import writer

EDGE = {"name": "rush", "start": "2 7 * * *", "end": "5 7 * * *", "timeZone": "UTC", "minReplicas": 7}


def writes_of(happenings, spec, *, always_renders, start_up=None):
    """
    Every write of a life of so many turns; always_renders: without what is known to say nothing new. start_up: of pods,
    in seconds; None where they are an hour old at once.
    """

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api, **spec)
        api.start_up = start_up
        states, decisions = [], []

        def decided(*given):
            decisions.append(None)
            if always_renders:
                for state in states:
                    state.said = None
            return decide(*given)

        async with Life(api, decide=decided) as life:
            await until(1)
            states.extend(life.inventory)
            for turn, (what, number) in enumerate(happenings):
                match what:
                    case "load":
                        api.load["prod", "shop"] = number
                    case "no metrics":
                        api.load.pop(("prod", "shop"), None)
                    case "forged":
                        api.edit("cronhpas", "prod", "shop", status={"desiredReplicas": number, "forged": "yes"})
                    case "edited":
                        api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 5 + number % 6})
                    case "scaled by hand":
                        api.edit("deployments", "prod", "shop", spec={"replicas": number % 8})
                await until(turn * 15 + 16)
        return api.writes, len(decisions)

    return live(scenario)


loads = st.sampled_from([2300, 2400, 2500, 2500, 2500, 2700, 4000])
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("load"), loads),
        st.tuples(st.just("load"), loads),
        st.tuples(st.just("load"), loads),
        st.tuples(st.sampled_from(["no metrics", "forged", "edited", "scaled by hand"]), st.integers(0, 10)),
    ),
    min_size=1,
    max_size=30,
)
specs = st.sampled_from(
    [
        {},
        {"behavior": rules(one_pod_each(15), one_pod_each(30))},
        {"schedules": [EDGE]},
        {"metrics": None, "schedules": [EDGE]},
        {"mode": "Preview"},
    ]
)


@given(happenings, specs, st.sampled_from([None, 20.0]))
@settings(max_examples=60)
def test_what_is_not_rendered_would_have_changed_nothing(happenings, spec, start_up):
    """A life whose every decision is rendered and compared writes the same, at the same instants."""
    rendered, unrendered = (
        writes_of(happenings, spec, always_renders=always, start_up=start_up) for always in (True, False)
    )

    assert rendered == unrendered


def test_pods_that_became_ready_are_counted_in_the_status_when_its_numbers_are_due():
    """At 41 s five pods become eight, which are Ready at 61 s. The average and the count asked for stay the same."""
    at_once = {**one_pod_each(15), "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=5)
        api.start_up = 20.0
        api.load["prod", "shop"] = 2500
        cronhpa(api, behavior=rules(at_once, at_once))
        async with Life(api):
            await until(30)
            api.load["prod", "shop"] = 4000
            await until(58)
            starting = status(api)["decision"]["metrics"][0]["notReady"]
            await until(58 + 5 * 60)
        return starting, status(api)["decision"]["metrics"][0]["notReady"]

    assert (3, 0) == live(scenario)


def test_a_quiet_life_renders_its_first_statuses_alone(monkeypatch):
    """20 turns at the same load: the first status is written, the second compared, and the others say nothing new."""
    rendered = []

    def counted(*given):
        rendered.append(None)
        return render(*given)

    monkeypatch.setattr(writer, "render", counted)

    writes, decisions = writes_of([("load", 2500)] * 20, {}, always_renders=False)

    assert 1 == len(writes)
    assert decisions >= 20
    assert len(rendered) <= 2


def test_numbers_that_moved_before_the_memory_settled_are_written_when_they_are_due():
    """
    At 30 s five pods become eight, and until 330 s the five that were asked for before count. Meanwhile the load moves
    from 50 % to 52 %, in part after the one write of drifted numbers that falls into these five minutes.
    """

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api)
        async with Life(api):
            await until(30)
            for turn in range(20):
                api.load["prod", "shop"] = 4008 + 8 * turn
                await until(45 + 15 * turn)
            await until(13 * 60)
        return status(api)["currentMetrics"][0]["resource"]["current"]["averageValue"]

    assert "520m" == live(scenario)
