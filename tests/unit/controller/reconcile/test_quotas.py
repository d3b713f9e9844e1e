"""What is decided about pods and gangs in a namespace with quotas; whatever is under way, they are kept to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.reconcile import decide
from controller.reconcile.decisions import PlacePod, Reason, TakeBack, Wait
from controller.reconcile.demand import quota_wait
from controller.state import Promise
from driver.kube.api import RESOURCE_QUOTAS
from driver.model import Allocation, DeviceId, Result
from tests.unit.controller.filled_state import NOW, FilledState

CARD = 100
PODS = tuple(f"p{number}" for number in range(5))


def limit(scene: FilledState, cores: int | str, name: str = "q", **more: str) -> None:
    hard = {"lode.dev/cores": str(cores), **{f"lode.dev/{key}": value for key, value in more.items()}}
    scene.put(RESOURCE_QUOTAS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"hard": hard}})


@pytest.mark.parametrize(("cores", "placed"), [(99, False), (100, True)])
def test_a_quota_is_kept_to_the_last_core(cores: int, placed: bool) -> None:
    scene = FilledState()
    limit(scene, cores)
    scene.claim("a")
    scene.pod("p", "a")
    assert isinstance(decide(scene.state, "default/p", NOW), PlacePod) == placed


def test_the_part_of_a_pod_that_was_allocated_is_taken_back_if_the_rest_is_beyond_its_quota() -> None:
    scene = FilledState()
    limit(scene, 150)
    scene.claim("a", at="n1/gpu-0", by=("p",))
    scene.claim("b")
    scene.pod("p", "a", "b")
    answer = decide(scene.state, "default/p", NOW)
    assert isinstance(answer, TakeBack)
    assert answer.message.endswith("ResourceQuota default/q, lode.dev/cores: asked 100, used 100, limit 150")


def test_a_pod_that_no_node_takes_waits_for_a_node_whatever_its_quota() -> None:
    scene = FilledState(nodes=0)
    limit(scene, 0)
    scene.claim("a")
    scene.pod("p", "a")
    answer: Any = decide(scene.state, "default/p", NOW)
    assert answer.why.reason is Reason.UNALLOCATABLE


def test_whoever_plans_for_a_pod_asks_with_the_allocations_of_the_plan() -> None:
    scene = FilledState()
    given_card = Allocation((Result("r", DeviceId("lode.dev", "n1/lode.dev", "gpu-0")),))
    assert quota_wait(scene.state, "default", [given_card]) is None
    limit(scene, 100)
    assert quota_wait(scene.state, "default", [given_card]) is None
    over = quota_wait(scene.state, "default", [given_card, given_card], subject="gang default/g")
    assert isinstance(over, Wait)
    assert over.message == "gang default/g: ResourceQuota default/q, lode.dev/cores: asked 200, used 0, limit 100"
    limit(scene, 100, unknown="1")
    refused = quota_wait(scene.state, "default", [given_card])
    assert refused is not None
    assert refused.reason is Reason.QUOTA_INVALID


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), st.sampled_from(PODS)),
        st.tuples(st.just("fail"), st.sampled_from(PODS)),
        st.tuples(st.just("written"), st.sampled_from(PODS)),
        st.tuples(st.just("end"), st.sampled_from(PODS)),
        st.tuples(st.just("limit"), st.integers(0, 5).map(lambda cards: cards * CARD)),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_decisions_under_way_never_exceed_a_quota_together(actions: list[tuple[str, Any]]) -> None:
    """Whatever is decided, written, fails or ends, in any order, while the quota changes."""
    scene = FilledState(nodes=3)
    state, allowed = scene.state, 2 * CARD
    limit(scene, allowed)
    promised: dict[str, Any] = {}
    written: set[str] = set()
    for name in PODS:
        scene.claim(name)
        scene.pod(name, name)
    for what, value in actions:
        key = f"default/{value}"
        if what == "limit":
            allowed = value
            limit(scene, allowed)
        elif what == "decide" and value not in promised and value not in written:
            answer = decide(state, key, NOW)
            held = CARD * (len(promised) + len(written))
            assert isinstance(answer, PlacePod) == (held + CARD <= allowed)
            if isinstance(answer, PlacePod):
                ((_, allocation),) = answer.allocations
                state.promise(key, Promise(state.claims[key].claim.uid, (), allocation))
                promised[value] = allocation.results[0].device
        elif what == "fail" and value in promised:
            del promised[value]
            state.end_promise(key)
        elif what == "written" and value in promised:
            device = promised.pop(value)
            scene.claim(value, at=f"{device.pool.split('/')[0]}/{device.device}", by=(value,))
            state.end_promise(key)
            written.add(value)
        elif what == "end" and value in written:
            written.discard(value)
            scene.claim(value)
        assert state.quotas.used("default").get("cores", 0) == CARD * 10**9 * (len(promised) + len(written))
