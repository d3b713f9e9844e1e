"""Which nodes are kept from autoscalers because devices there are held behind our gate, and for how long."""

from typing import Any

import pytest

from controller.state.knownnodes import DO_NOT_DISRUPT
from driver.kube.api import NODES, Conflict, Forbidden, Unavailable
from tests.unit.controller.loop.world import ControllerWorld

OURS = "lode.dev/do-not-disrupt"
BOTH = {DO_NOT_DISRUPT: "true", OURS: "true"}
THEIRS = {DO_NOT_DISRUPT: "false"}


class HeldBehindTheGate:
    """A controller whose pod has its devices on n1, but cannot lose its gate as long as ``blocked``."""

    def __init__(self, *, enabled: bool = True, **options: Any):
        self.world = ControllerWorld(**options, autoscaling={"enabled": enabled})
        self.blocked = True
        self.add("p")

    def add(self, pod: str) -> None:
        self.world.add_claim(pod)
        self.world.add_pod(pod, pod)
        self.start()

    def start(self) -> None:
        """A new run of the controller."""
        self.world.start()
        self.world.meddler.before = self.meddle

    def meddle(self, what: str, _: object) -> None:
        if what == "patch pods" and self.blocked:
            raise Unavailable("the API server does not answer")

    def let_go(self) -> None:
        self.blocked = False
        self.world.settle(10)
        self.world.bind("p", "n1")
        self.world.settle(5)

    @property
    def annotations(self) -> dict[str, str]:
        return dict(self.world.api.get(NODES, "n1")["metadata"].get("annotations") or {})

    def annotate(self, **values: Any) -> None:
        keys = {"theirs": DO_NOT_DISRUPT, "ours": OURS, "other": "example.com/note"}
        patch = {"metadata": {"annotations": {keys[name]: value for name, value in values.items()}}}
        self.world.api.patch(NODES, "n1", patch)


def test_a_node_is_protected_while_devices_are_held_behind_the_gate_for_long() -> None:
    holding = HeldBehindTheGate()
    holding.annotate(other="kept")
    holding.world.settle(4)
    assert holding.world.devices("p") == ["n1/gpu-0"]
    assert holding.annotations == {"example.com/note": "kept"}
    holding.world.settle(4)
    assert holding.annotations == {**BOTH, "example.com/note": "kept"}
    holding.let_go()
    assert holding.annotations == {"example.com/note": "kept"}


def test_a_pod_that_is_let_go_at_once_costs_no_write_about_its_node() -> None:
    holding = HeldBehindTheGate()
    holding.blocked = False
    holding.world.settle(2)
    holding.world.bind("p", "n1")
    holding.world.settle(60)
    assert not any("nodes" in call for call in holding.world.meddler.calls)


def test_a_node_is_not_protected_unless_the_operator_wants_it() -> None:
    holding = HeldBehindTheGate(enabled=False)
    holding.world.settle(60)
    assert holding.world.devices("p") == ["n1/gpu-0"]
    assert holding.annotations == {}


@pytest.mark.parametrize("value", ["true", "false", "10m", ""])
def test_what_others_have_said_about_a_node_is_left_as_it_is(value: str) -> None:
    holding = HeldBehindTheGate()
    holding.annotate(theirs=value)
    holding.world.settle(30)
    assert holding.annotations == {DO_NOT_DISRUPT: value}
    holding.let_go()
    assert holding.annotations == {DO_NOT_DISRUPT: value}


def test_what_others_say_after_a_node_was_protected_stays_when_it_is_given_back() -> None:
    holding = HeldBehindTheGate()
    holding.world.settle(30)
    holding.annotate(theirs="false")
    holding.let_go()
    assert holding.annotations == THEIRS


def test_a_protection_that_somebody_takes_over_stays() -> None:
    holding = HeldBehindTheGate()
    holding.world.settle(30)
    holding.annotate(ours=None)
    holding.let_go()
    assert holding.annotations == {DO_NOT_DISRUPT: "true"}


def test_a_protection_that_somebody_removes_is_set_again_while_the_node_is_held() -> None:
    holding = HeldBehindTheGate()
    holding.world.settle(30)
    holding.annotate(theirs=None)
    holding.world.settle(5)
    assert holding.annotations == BOTH


@pytest.mark.parametrize("enabled", [True, False])
def test_the_next_run_gives_back_what_a_killed_one_has_protected(enabled: bool) -> None:
    holding = HeldBehindTheGate()
    holding.world.settle(30)
    holding.world.settings = holding.world.settings.model_validate(
        {"controller": {"autoscaling": {"enabled": enabled}}}
    )
    assert holding.annotations == BOTH
    holding.start()
    holding.let_go()
    assert holding.annotations == {}


def test_the_next_run_leaves_a_node_protected_that_is_still_held() -> None:
    holding = HeldBehindTheGate()
    holding.world.settle(30)
    holding.start()
    holding.world.settle(30)
    assert holding.annotations == BOTH
    assert not any("nodes" in call for call in holding.world.meddler.calls)


def test_a_change_of_others_at_the_same_moment_is_seen_before_the_node_is_protected() -> None:
    holding = HeldBehindTheGate()
    tries = []

    def meddle(what: str, about: object) -> None:
        if what == "patch nodes":
            tries.append(about)
            if len(tries) == 1:
                holding.annotate(theirs="false")
        holding.meddle(what, about)

    holding.world.meddler.before = meddle
    holding.world.settle(30)
    assert holding.annotations == THEIRS
    assert len(tries) == 1


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        pytest.param(Forbidden("no right", status=403, reason="Forbidden"), 2, id="refused"),
        pytest.param(Conflict("changed", status=409, reason="Conflict"), 60, id="changed meanwhile"),
        pytest.param(Unavailable("no answer"), 11, id="no answer"),
    ],
)
def test_a_node_that_could_not_be_written_is_tried_again(error: Exception, tries: int) -> None:
    holding = HeldBehindTheGate()
    made = []

    def meddle(what: str, about: object) -> None:
        if what == "patch nodes":
            made.append(about)
            raise error
        holding.meddle(what, about)

    holding.world.meddler.before = meddle
    holding.world.settle(70)
    assert tries <= len(made) <= tries + 6
    holding.world.meddler.before = holding.meddle
    holding.world.settle(70)
    assert holding.annotations == BOTH


def test_a_protected_node_that_is_deleted_is_forgotten() -> None:
    holding = HeldBehindTheGate()
    holding.world.settle(30)
    holding.blocked = False
    holding.world.remove_pod("p")
    holding.world.api.delete(NODES, "n1")
    holding.world.settle(60)
    assert holding.world.controller.next_due() is None
