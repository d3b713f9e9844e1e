"""No pod is let go on a device that is tainted for it, or that its node does not publish any more."""

from typing import Any

import pytest

from controller.reconcile import decide
from driver.kube.api import DEVICE_TAINT_RULES, POD_GROUPS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from tests.unit.controller.filled_state import GATE, NAMES, NOW, FilledState, claim, pod, slice_on
from tests.unit.controller.reconcile.fabrics import Fabrics, told
from tests.unit.controller.reconcile.inwords import about

TAINT = {"key": "example.com/hot", "value": "yes", "effect": "NoSchedule"}


def by_rule(effect: str, device: str = "gpu-0") -> Any:
    """A rule of an operator that taints the device of n1."""

    def build(scene: FilledState) -> None:
        selector = {"driver": NAMES.driver, "pool": NAMES.pool("n1"), "device": device}
        spec = {"deviceSelector": selector, "taint": {**TAINT, "effect": effect}}
        scene.put(DEVICE_TAINT_RULES, {"metadata": {"name": "r"}, "spec": spec})

    return build


def by_slice(effect: str) -> Any:
    """A slice of n1 that says of its first device that it is tainted."""

    def build(scene: FilledState) -> None:
        part = slice_on("n1")
        part["spec"]["devices"][0]["taints"] = [{**TAINT, "effect": effect}]
        part["spec"]["pool"]["generation"] = 2
        scene.put(RESOURCE_SLICES, part)

    return build


def publishing(*devices: str, of_slices: int = 1, generation: int = 2) -> Any:
    """n1 publishes these devices, in the first of so many slices."""

    def build(scene: FilledState) -> None:
        part = slice_on("n1")
        part["spec"]["pool"] |= {"generation": generation, "resourceSliceCount": of_slices}
        part["spec"]["devices"] = [one for one in slice_on("n1", 4)["spec"]["devices"] if one["name"] in devices]
        scene.put(RESOURCE_SLICES, part)

    return build


def publishing_nothing(scene: FilledState) -> None:
    scene.state.drop(RESOURCE_SLICES, f"n1-{NAMES.driver}")


BAD = {
    "NoSchedule of a rule": by_rule("NoSchedule"),
    "NoExecute of a rule": by_rule("NoExecute"),
    "NoSchedule of a slice": by_slice("NoSchedule"),
    "NoExecute of a slice": by_slice("NoExecute"),
    "published no longer": publishing("gpu-1"),
    "a pool without any device": publishing(),
}
"""What happened to n1/gpu-0 after it was allocated."""


def held(scene: FilledState, *by: str, tolerations: tuple[Object, ...] = (), at: str = "n1/gpu-0") -> None:
    """The claim ``a`` holds the device, and is reserved for these pods."""
    raw = claim("a", at=at, by=by)
    raw["status"]["allocation"]["devices"]["results"][0]["tolerations"] = list(tolerations)
    scene.put(RESOURCE_CLAIMS, raw)


@pytest.fixture(params=[*BAD.values()], ids=[*BAD])
def scene(request: pytest.FixtureRequest) -> FilledState:
    found = FilledState()
    request.param(found)
    return found


def decided(scene: FilledState, name: str = "p") -> Any:
    return decide(scene.state, f"default/{name}", NOW)


@pytest.mark.parametrize("user", [{"gates": (), "nodeName": "n1"}, {"gates": ()}])
def test_a_claim_that_another_pod_uses_stays_and_the_next_pod_waits(scene: FilledState, user: Object) -> None:
    held(scene, "first")
    scene.pod("first", "a", **user)
    scene.pod("p", "a")
    decision = decided(scene)
    assert about(decision) == "wait DeviceUnusable"
    assert decision.claims == ("default/a",)
    assert "ResourceClaim default/a: device n1/lode.dev/gpu-0 " in decision.message
    assert "waits until the claim is free" in decision.message


@pytest.mark.parametrize("by", [(), ("p",), ("q",), ("p", "q")])
def test_a_claim_that_only_gated_pods_use_or_nobody_is_taken_back(scene: FilledState, by: tuple[str, ...]) -> None:
    held(scene, *by)
    scene.pod("p", "a")
    scene.pod("q", "a")
    assert about(decided(scene)) == "take back n1 a"


def test_it_is_placed_on_another_device_afterwards(scene: FilledState) -> None:
    scene.claim("a")
    scene.pod("p", "a")
    assert about(decided(scene)) in ("place n1 a=n1/gpu-1", "place n2 a=n2/gpu-0")


def test_a_claim_reserved_for_a_pod_that_is_gone_is_not_touched(scene: FilledState) -> None:
    held(scene, "gone")
    scene.pod("p", "a")
    assert about(decided(scene)) == "wait DeviceUnusable"


def test_a_pod_that_has_such_a_claim_beside_one_that_lacks_devices_is_not_placed_there(scene: FilledState) -> None:
    scene.claim("b")
    held(scene, "first")
    scene.pod("first", "a", gates=(), nodeName="n1")
    scene.pod("p", "a", "b")
    assert about(decided(scene)) == "wait DeviceUnusable"


def test_a_pod_that_waits_for_one_claim_holds_no_other(scene: FilledState) -> None:
    held(scene, "first")
    scene.claim("b", at="n1/gpu-1", by=("p",))
    scene.pod("first", "a", gates=(), nodeName="n1")
    scene.pod("p", "a", "b")
    assert about(decided(scene)) == "take back n1 b"


def test_pods_that_were_let_go_before_are_left_alone(scene: FilledState) -> None:
    held(scene, "p")
    scene.pod("p", "a", gates=(), condition="True")
    assert about(decided(scene)) == "idle"
    scene.pod("p", "a", gates=(), condition="True", nodeName="n1")
    assert about(decided(scene)) == "idle"


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize("build", [by_rule, by_slice])
@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"key": TAINT["key"], "operator": "Exists"}, True),
        ({"operator": "Exists", "tolerationSeconds": 3}, True),
        ({"key": TAINT["key"], "operator": "Equal", "value": "yes"}, True),
        ({"key": TAINT["key"], "operator": "Equal", "value": "no"}, False),
        ({"key": "example.com/other", "operator": "Exists"}, False),
    ],
)
def test_tolerations_of_the_request_count(effect: str, build: Any, toleration: Object, tolerates: bool) -> None:
    scene = FilledState()
    build(effect)(scene)
    held(scene, "first", tolerations=(toleration,))
    scene.pod("first", "a", gates=(), nodeName="n1")
    scene.pod("p", "a")
    assert about(decided(scene)) == ("place n1 reserve:a" if tolerates else "wait DeviceUnusable")


def test_the_taint_is_named() -> None:
    scene = FilledState()
    by_rule("NoExecute")(scene)
    held(scene, "first")
    scene.pod("p", "a")
    assert "has the taint example.com/hot=yes:NoExecute, which the claim does not tolerate" in decided(scene).message


@pytest.mark.parametrize("effect", ["None", "Future"])
def test_taints_that_keep_nobody_away_do_not_count(effect: str) -> None:
    scene = FilledState()
    by_rule(effect)(scene)
    held(scene, "p")
    scene.pod("p", "a")
    assert about(decided(scene)) == "place n1"


@pytest.mark.parametrize("replaced", [publishing("gpu-1", of_slices=2), publishing_nothing])
@pytest.mark.parametrize("by", [(), ("p",), ("first",)])
def test_nothing_moves_and_nobody_is_let_go_while_slices_are_missing(replaced: Any, by: tuple[str, ...]) -> None:
    scene = FilledState()
    replaced(scene)
    held(scene, *by)
    scene.pod("first", "a", gates=(), nodeName="n1")
    scene.pod("p", "a")
    decision = decided(scene)
    assert about(decision) == "wait DeviceUnusable"
    assert "device n1/lode.dev/gpu-0 is in no slice now" in decision.message
    publishing("gpu-0", "gpu-1", generation=3)(scene)
    assert about(decided(scene)).startswith("place n1")


def test_a_device_that_is_there_already_counts_while_other_slices_are_missing() -> None:
    scene = FilledState()
    publishing("gpu-0", of_slices=2)(scene)
    held(scene, "p")
    scene.pod("p", "a")
    assert about(decided(scene)) == "place n1"


def test_a_node_that_is_gone_with_its_slices_is_left() -> None:
    scene = FilledState()
    publishing_nothing(scene)
    held(scene, "p", at="n9/gpu-0")
    scene.pod("p", "a")
    assert about(decided(scene)) == "take back n9 a"


def test_a_pod_that_kube_scheduler_released_gets_no_device_beside_a_bad_one(scene: FilledState) -> None:
    held(scene, "first")
    scene.claim("b")
    scene.pod("first", "a", gates=(), nodeName="n1")
    scene.pod("p", "a", "b", gates=())
    assert about(decided(scene)) == "wait DeviceUnusable"


# Gangs and PodGroups


def test_a_gang_that_was_interrupted_leaves_a_bad_device_and_starts_elsewhere() -> None:
    scene = Fabrics(a=2, b=2)
    scene.members(2, at=["a0/gpu-0", "a1/gpu-0"])
    scene.put(
        DEVICE_TAINT_RULES,
        {
            "metadata": {"name": "r"},
            "spec": {"deviceSelector": {"pool": NAMES.pool("a0")}, "taint": TAINT},
        },
    )
    assert told(scene.decide())["w0"].startswith("take back a0")


GROUP: Object = {"resource": "podgroups", "name": "train", "uid": "uid-group", "apiGroup": "scheduling.k8s.io"}


@pytest.mark.parametrize(("other", "expected"), [((GATE,), "take back n1 a"), ((), "wait DeviceUnusable")])
def test_a_claim_of_a_pod_group_moves_while_all_of_its_pods_are_gated(
    scene: FilledState, other: tuple[str, ...], expected: str
) -> None:
    entry = {"name": "a", "resourceClaimName": "a"}
    metadata = {"name": "train", "namespace": "default", "uid": "uid-group"}
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]}
    scene.put(POD_GROUPS[0], {"metadata": metadata, "spec": spec})
    raw = claim("a", at="n1/gpu-0")
    raw["status"]["reservedFor"] = [GROUP]
    scene.put(RESOURCE_CLAIMS, raw)
    for name, gates in (("p", (GATE,)), ("q", other)):
        scene.put(PODS, pod(name, "a", gates=gates, schedulingGroup={"podGroupName": "train"}))
    assert about(decided(scene)) == expected
