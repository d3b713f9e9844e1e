"""A pod with separate claims for cards and network cards of a named driver, one of which says ``alignWith``."""

from typing import Any

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS, Object
from driver.names import NUMA_NODE, PCIE_ROOT
from tests.unit.controller.loop.test_mixed_claims import GPU, NIC, MixedWorld, on_root
from tests.unit.controller.loop.world import GATE


def beside(claim: str = "nic", **fields: Any) -> list[Object]:
    """The config of a claim that is aligned with another entry of its pod."""
    asked = {"claim": claim, "attribute": PCIE_ROOT, **fields}
    placing = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "alignWith": asked}
    return [{"opaque": {"driver": "lode.dev", "parameters": placing}}]


class AligningPods(MixedWorld):
    """Pods whose entries are called as the claims are, without the name of the pod."""

    def ask_for(self, pod: str, seconds: float = 1, **claims: Any) -> None:
        """A pod with a claim for each entry: its request, with the config if there is one."""
        for entry, asked in claims.items():
            request, config = asked if isinstance(asked, tuple) else (asked, [])
            self.add_claim(f"{pod}-{entry}", requests=[request], config=config)
        self.use(pod, {entry: f"{pod}-{entry}" for entry in claims})
        self.settle(seconds)

    def use(self, pod: str, entries: dict[str, str], **more: Any) -> None:
        self.add_pod(
            pod, resourceClaims=[{"name": entry, "resourceClaimName": name} for entry, name in entries.items()], **more
        )

    def got(self, pod: str, *entries: str) -> list[list[str]]:
        return [self.devices(f"{pod}-{entry}") for entry in entries or ("gpu", "nic")]


ROOTS = ("pci0000:00", "pci0000:40", "pci0000:80")


def world_with(cards: str, nics: str, **more: Any) -> AligningPods:
    """One node, whose devices hang on the roots of these numbers."""
    world = AligningPods([on_root(f"nic-{at}", ROOTS[int(root)]) for at, root in enumerate(nics)], **more)
    world.replace_cards("n1", [on_root(f"gpu-{at}", ROOTS[int(root)]) for at, root in enumerate(cards)])
    return world


@pytest.mark.parametrize("says", ["gpu", "nic"])
def test_a_pod_with_two_claims_is_decided_as_one_and_aligned(says: str) -> None:
    world = world_with("012", "21")
    claims: dict[str, Any] = {"gpu": GPU, "nic": NIC}
    claims[says] = claims[says], beside("nic" if says == "gpu" else "gpu")
    world.ask_for("p", **claims)
    assert world.got("p") == [["n1/gpu-1"], ["n1/nic-1"]]
    assert world.gates("p") == []
    world.ask_for("q", **claims)
    assert world.got("q") == [["n1/gpu-2"], ["n1/nic-0"]]


def test_without_a_word_of_it_each_claim_gets_its_first_device() -> None:
    world = world_with("012", "21")
    world.ask_for("p", gpu=GPU, nic=NIC)
    assert world.got("p") == [["n1/gpu-0"], ["n1/nic-0"]]


def test_the_node_is_one_that_has_both_beside_each_other() -> None:
    world = AligningPods([on_root("nic-0", ROOTS[1])], [on_root("nic-0", ROOTS[2])])
    world.replace_cards("n1", [on_root("gpu-0", ROOTS[0])])
    world.replace_cards("n2", [on_root("gpu-0", ROOTS[0]), on_root("gpu-1", ROOTS[2])])
    world.ask_for("p", gpu=(GPU, beside()), nic=NIC)
    assert world.got("p") == [["n2/gpu-1"], ["n2/nic-0"]]


def test_without_such_devices_the_pod_is_told_both_claims_the_attribute_and_what_is_missing() -> None:
    world = world_with("0", "1")
    world.ask_for("p", gpu=(GPU, beside()), nic=NIC)
    assert world.got("p") == [[], []]
    assert world.condition("p")[1] == "Impossible"
    assert f"1 with another {PCIE_ROOT} than claims gpu and nic can share" in world.said("p")
    world.replace_cards("n1", [on_root("gpu-0", ROOTS[0]), on_root("gpu-1", ROOTS[1])])
    world.settle(60)
    assert world.got("p") == [["n1/gpu-1"], ["n1/nic-0"]]


def test_what_is_preferred_is_had_where_it_can_be_and_given_up_where_it_cannot() -> None:
    world = AligningPods([on_root("nic-0", ROOTS[1])], [on_root("nic-0", ROOTS[2])])
    world.replace_cards("n1", [on_root("gpu-0", ROOTS[0])])
    world.replace_cards("n2", [on_root("gpu-0", ROOTS[2])])
    preferred: dict[str, Any] = {"gpu": (GPU, beside(mode="preferred")), "nic": NIC}
    world.ask_for("p", **preferred)
    world.ask_for("q", **preferred)
    assert world.got("p") == [["n2/gpu-0"], ["n2/nic-0"]]
    assert world.got("q") == [["n1/gpu-0"], ["n1/nic-0"]]


@pytest.mark.parametrize("says", ["gpu", "nic"])
def test_a_claim_that_is_allocated_binds_the_other(says: str) -> None:
    """It may have been allocated for another pod, or by kube-scheduler before the driver was named."""
    world = world_with("012", "20")
    world.add_claim("p-nic", requests=[NIC], config=beside("gpu") if says == "nic" else [])
    world.allocated_by_kube_scheduler("p-nic", "nic-0")
    world.add_claim("p-gpu", requests=[GPU], config=beside() if says == "gpu" else [])
    world.use("p", {"gpu": "p-gpu", "nic": "p-nic"})
    world.settle(1)
    assert world.got("p") == [["n1/gpu-2"], ["n1/nic-0"]]
    world.add_claim("q-gpu", requests=[GPU], config=beside())
    world.use("q", {"gpu": "q-gpu", "nic": "p-nic"})
    world.settle(1)
    assert world.devices("q-gpu") == []
    held = f"with another {PCIE_ROOT} than {ROOTS[2]} of claim nic, which claims gpu and nic have to share"
    assert held in world.said("q")


def test_a_claim_of_several_pods_is_aligned_with_that_of_each() -> None:
    world = world_with("0110", "1")
    world.add_claim("nic", requests=[NIC])
    for pod in "pq":
        world.add_claim(f"{pod}-gpu", requests=[GPU], config=beside("shared"))
        world.use(pod, {"gpu": f"{pod}-gpu", "shared": "nic"})
        world.settle(1)
    assert [world.devices(f"{pod}-gpu") for pod in "pq"] == [["n1/gpu-1"], ["n1/gpu-2"]]


def test_members_of_a_gang_are_aligned_each_for_itself() -> None:
    world = world_with("0122", "210")
    gang = {
        "opaque": {"driver": "lode.dev", "parameters": {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig"}}
    }
    gang["opaque"]["parameters"]["gang"] = {"name": "g", "minAvailable": 3}  # type: ignore[index]
    for pod in "pqr":
        world.ask_for(pod, gpu=(GPU, [*beside(), gang]), nic=NIC)
    world.settle(30)
    roots = {"n1/gpu-0": 0, "n1/gpu-1": 1, "n1/gpu-2": 2, "n1/gpu-3": 2, "n1/nic-0": 2, "n1/nic-1": 1, "n1/nic-2": 0}
    pairs = [world.got(pod) for pod in "pqr"]
    assert [roots[gpu] - roots[nic] for [gpu], [nic] in pairs] == [0, 0, 0]


def test_a_gang_that_only_prefers_it_starts_with_all_members_rather_than_aligned() -> None:
    world = world_with("01", "22")
    gang = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": {"name": "g", "minAvailable": 2}}
    config = [*beside(mode="preferred"), {"opaque": {"driver": "lode.dev", "parameters": gang}}]
    for pod in "pq":
        world.ask_for(pod, gpu=(GPU, config), nic=NIC)
    world.settle(30)
    assert all(world.got(pod) != [[], []] for pod in "pq")


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("net", "the pod has no entry 'net' in spec.resourceClaims: name one of nic"),
        ("gpu", "'gpu' is the claim itself: name another one of the pod, or use matchAttribute in its constraints"),
    ],
)
def test_a_name_that_means_no_other_claim_is_refused_with_what_to_write(claim: str, said: str) -> None:
    world = world_with("0", "0")
    world.ask_for("p", gpu=(GPU, beside(claim)), nic=NIC)
    assert world.condition("p")[1] == "InvalidParameters"
    field = "ResourceClaim default/p-gpu: spec.devices.config[0].opaque.parameters.alignWith.claim"
    assert f"{field}: {said}" in world.said("p")
    assert world.got("p") == [[], []]


def test_with_a_claim_of_kube_scheduler_nothing_can_be_aligned_and_the_setting_is_named() -> None:
    world = world_with("0", "0", also=("dra.cpu",))
    world.ask_for("p", gpu=(GPU, beside()), nic=NIC)
    assert world.condition("p")[1] == "InvalidParameters"
    assert "claim 'nic' (default/p-nic) is allocated by kube-scheduler" in world.said("p")
    assert "controller.alsoAllocates" in world.said("p")


def test_two_attributes_are_two_entries_and_both_count() -> None:
    world = world_with("0", "0")
    numa = [{PCIE_ROOT: {"string": ROOTS[0]}, NUMA_NODE: {"int": number}} for number in range(2)]
    cards = [{"name": f"gpu-{at}", "attributes": {"kind": {"string": "gpu"}, **numa[at]}} for at in range(2)]
    world.replace_cards("n1", cards)
    world.add_slice("n1-more", "dra.net", [{"name": "nic-9", "attributes": numa[1]}], nodeName="n1")
    world.ask_for("p", gpu=(GPU, [*beside(), *beside(attribute=NUMA_NODE)]), nic=NIC)
    assert world.got("p") == [["n1/gpu-1"], ["n1-more/nic-9"]]


def test_a_pod_that_lost_one_claim_to_a_crash_gets_the_other_beside_it() -> None:
    """The controller ended between the writes of both allocations: the gate is there, and one claim is allocated."""
    world = world_with("012", "21")
    world.add_claim("p-gpu", requests=[GPU], config=beside())
    world.add_claim("p-nic", requests=[NIC])
    world.use("p", {"gpu": "p-gpu", "nic": "p-nic"}, gates=("other", GATE))
    world.allocated_by_kube_scheduler("p-nic", "nic-1", "p")
    world.settle(1)
    patch = {"spec": {"schedulingGates": [{"name": GATE}, {"$patch": "delete", "name": "other"}]}}
    world.api.patch(PODS, "p", patch, namespace="default", patch_type="strategic")
    world.settle(1)
    assert world.got("p") == [["n1/gpu-1"], ["n1/nic-1"]]
    assert world.claim("p-gpu")["status"]["allocation"]["devices"]["config"][0]["source"] == "FromClaim"
    assert world.api.list(RESOURCE_CLAIMS).items
