"""The numbers of docs/explanation/decision.md: the manifest on the page is decided, each number is compared."""

import re
from pathlib import Path

import yaml

from core.situations import at, pod, sample
from cronhpa.api.parse import parse_spec
from cronhpa.core.decide import decide
from cronhpa.core.metrics.observe import observe
from cronhpa.core.model.decision import Role, Rule
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Scale
from cronhpa.core.model.spec import ControllerOptions

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "decision.md").read_text()


def test_the_page_on_one_decision_has_its_numbers():
    """8:00 in Berlin on a Monday in November is 7:00 UTC; a request is 1000 milli-CPU, of which 900 are used."""
    manifest = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
    spec = parse_spec(manifest["spec"], "default", ControllerOptions())
    now = at("07:00")
    pods = [pod(f"shop-{number}", started=at("06:00")) for number in range(4)]
    used = {listed_pod.name: sample(900, clock="07:00") for listed_pod in pods}

    decision = decide(spec, observe(spec, Scale(4, 4, "app=shop"), pods, [used], now), None, Memory(), now)

    asked = {
        str(proposal.source): proposal.replicas
        for proposal in decision.proposals
        if proposal.role in {Role.TARGET, Role.FLOOR}
    }
    assert {"Metric": 6, "Schedule": 10} == {name: asked[name] for name in ("Metric", "Schedule")}
    assert (4, 10, 8) == (decision.current, decision.merged, decision.desired)
    assert "Schedule/working-hours" == str(decision.decided_by)
    assert Rule.SCALE_UP_LIMIT == decision.limited
    for text in (
        "a target of 6",
        "a floor of 10",
        "= **10**",
        "4 + max(4, 4) = **8**",
        "from 4 to 8",
        "`ScaleUpLimit`",
    ):
        assert text in PAGE
