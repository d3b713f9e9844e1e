"""Equal parts of pods and claims are kept once, and nothing else about them changes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.state import ClaimRecord, PodView
from controller.state.claims import record_from
from controller.state.kinds import Kept, SharedClaims, SharedPods
from controller.state.pods import pod_from
from tests.unit.controller.filled_state import claim, pod


def view(name: str, **options: Any) -> PodView:
    raw = pod(name, **options)
    raw["metadata"] |= {"uid": f"uid-{name}"}
    return pod_from(raw, "lode.dev/Allocated")


def test_pods_that_ask_for_the_same_share_what_they_ask_for_and_where_they_are() -> None:
    pods = SharedPods()
    first, second = (pods.shared(view(name, cpu="2", nodeName="node-" + "1")) for name in ("a", "b"))
    assert first.needs is second.needs
    assert first.node_name is second.node_name
    assert first.namespace is second.namespace
    assert pods.shared(view("c", cpu="3")).needs is not first.needs


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12"), st.sampled_from(["", "n1", "n2"]))))
def test_a_shared_pod_is_equal_to_the_pod(pods: list[tuple[str, str, str]]) -> None:
    shared = SharedPods()
    for name, cpu, node in pods:
        expected = view(name, cpu=cpu, nodeName=node)
        found = shared.shared(expected)
        assert found == expected
        assert found.needs.shape == expected.needs.shape


def record(name: str, *classes: str, **options: Any) -> ClaimRecord:
    raw = claim(name, classes or ("gpu.lode.dev",), **options)
    raw["metadata"] |= {"uid": f"uid-{name}"}
    return record_from(raw)


def test_claims_of_one_template_share_their_spec_and_claims_on_one_node_its_selector() -> None:
    claims = SharedClaims()
    first, second = (claims.shared(record(name, at="n1/gpu-0")) for name in ("a", "b"))
    assert first.claim.spec is second.claim.spec
    assert first.shape is second.shape
    assert first.claim.allocation
    assert second.claim.allocation
    assert first.claim.allocation.nodes is second.claim.allocation.nodes
    assert first.claim.allocation.results[0].device.pool is second.claim.allocation.results[0].device.pool
    assert claims.shared(record("c", "nic.example.com")).claim.spec is not first.claim.spec


PLACES = ("", "n1/gpu-0", "n1/gpu-1", "n2/gpu-0")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.sampled_from(PLACES))))
def test_a_shared_claim_is_equal_to_the_claim(claims: list[tuple[str, str, str]]) -> None:
    shared = SharedClaims()
    for name, device_class, place in claims:
        expected = record(name, device_class, at=place)
        assert shared.shared(expected) == expected


@given(st.lists(st.integers(0, 20)))
def test_more_values_than_are_remembered_are_kept_apart_too(numbers: list[int]) -> None:
    kept: Kept[int] = Kept(str, most=5)
    assert [kept.one(number) for number in numbers] == numbers
