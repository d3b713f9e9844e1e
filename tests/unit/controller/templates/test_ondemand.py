"""Which templates on demand are made and removed, and what is known of those that do not exist yet."""

import pytest

from controller.reconcile.decisions import Reason
from controller.reconcile.podclaims import claim_of_template, wait_for_template
from controller.refusal import Refusal
from controller.templates import MakeTemplate, RemoveTemplate, decide_template
from driver.adoption import template_spec
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, Object
from driver.kube.reflector import Unreadable
from tests.unit.controller.filled_state import GATE, NAMES, FilledState, pod

GPU = "lode.gpu"
KEY = f"default/{GPU}"
MOST = 3


class Filled(FilledState):
    """A state with pods that name templates, and with templates."""

    def add_pod(self, name: str = "p", template: str = GPU, gates: tuple[str, ...] = (GATE,), **status: object) -> None:
        raw = pod(name, gates=gates)
        raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        raw["status"] |= status
        self.put(PODS, raw)

    def add_template(self, name: str = GPU, *, ours: bool = True) -> None:
        labels = {NAMES.on_demand: "true"} if ours else {}
        metadata: Object = {"namespace": "default", "name": name, "labels": labels}
        self.put(RESOURCE_CLAIM_TEMPLATES, {"metadata": metadata, "spec": template_spec(GPU, NAMES)})

    def decide(self, others: int = 0) -> str:
        """What is decided about ``lode.gpu``."""
        decision = decide_template(self.state, KEY, others, MOST)
        return {MakeTemplate: "make", Refusal: "refuse", RemoveTemplate: "remove"}.get(type(decision), "nothing")


@pytest.fixture
def filled() -> Filled:
    return Filled()


def test_one_that_a_pod_at_our_gate_names_is_made_with_its_meaning_and_our_label(filled: Filled) -> None:
    filled.add_pod()
    decision = decide_template(filled.state, KEY, 0, MOST)
    assert isinstance(decision, MakeTemplate)
    metadata = {"name": GPU, "namespace": "default", "labels": {"lode.dev/on-demand": "true"}}
    assert decision.template["metadata"] == metadata
    assert decision.template["spec"] == template_spec(GPU, NAMES)


@pytest.mark.parametrize("gates", [(), ("example.com/queue",)])
def test_nobody_else_has_one_made(filled: Filled, gates: tuple[str, ...]) -> None:
    filled.add_pod(gates=gates)
    assert filled.decide() == "nothing"


def test_a_pod_that_has_ended_uses_none(filled: Filled) -> None:
    filled.add_pod(phase="Succeeded")
    assert filled.decide() == "nothing"
    filled.add_template()
    assert filled.decide() == "remove"


@pytest.mark.parametrize(
    ("ours", "used", "decision"), [(True, False, "remove"), (True, True, "nothing"), (False, False, "nothing")]
)
def test_only_ours_is_removed_and_only_if_nobody_uses_it(filled: Filled, ours: bool, used: bool, decision: str) -> None:
    filled.add_template(ours=ours)
    if used:
        filled.add_pod(gates=())
    assert filled.decide() == decision


def test_none_is_removed_while_templates_cannot_be_read(filled: Filled) -> None:
    filled.add_template()
    filled.state.apply(Unreadable(RESOURCE_CLAIM_TEMPLATES))
    assert filled.decide() == "nothing"


@pytest.mark.parametrize(("others", "decision"), [(MOST - 1, "make"), (MOST, "refuse"), (MOST + 1, "refuse")])
def test_a_namespace_has_a_bound(filled: Filled, others: int, decision: str) -> None:
    filled.add_pod()
    assert filled.decide(others) == decision


def test_a_pod_is_told_what_is_wrong_with_the_name(filled: Filled) -> None:
    assert wait_for_template(filled.state, "default", GPU) is None
    assert wait_for_template(filled.state, "default", "unicorn") is None
    wait = wait_for_template(filled.state, "default", "lode.unicorn")
    assert wait is not None
    assert wait.reason is Reason.TEMPLATE_INVALID
    filled.add_template("lode.unicorn", ours=False)
    assert wait_for_template(filled.state, "default", "lode.unicorn") is None, "somebody has made it"


def test_the_claim_of_one_that_does_not_exist_is_that_of_one_that_was_made(filled: Filled) -> None:
    meant = claim_of_template(filled.state, KEY)
    filled.add_template()
    assert meant == claim_of_template(filled.state, KEY) is not None
    assert claim_of_template(filled.state, "default/other") is None
    assert claim_of_template(filled.state, "default/lode.unicorn") is None
