"""What is decided about a pod, one situation after the other."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.reconcile import (
    LAST_RESORT_SECONDS,
    Decision,
    NodeOrder,
    Place,
    PlacementHistory,
    Reason,
    Release,
    RemoveGate,
    TakeBack,
    Unallocatable,
    Wait,
    decide,
)
from controller.state import Revision
from driver.clock import rfc3339
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_SLICES
from driver.model import Allocation, DeviceId
from tests.unit.controller.scene import GATE, NAMES, NOW, STAMP, Scene, device_class, node, pod, slice_on

OTHER = "kueue.x-k8s.io/admission"


def about(decision: Decision) -> str:
    """A decision in a line: what, where, which claims get which device, which are only reserved."""
    match decision:
        case Place(on, allocations, reserve):
            given = [f"{key.split('/')[1]}={_device(one)}" for key, one in allocations]
            return " ".join(["place", on, *given, *(f"reserve:{key.split('/')[1]}" for key in reserve)])
        case Wait(reason=reason, report=report):
            return f"wait {reason}" + ("" if report else " without report")
        case TakeBack(claims, on, unschedulable=unschedulable):
            cause = ["unschedulable"] if unschedulable else []
            return " ".join(["take back", on, *(key.split("/")[1] for key in claims), *cause])
        case RemoveGate():
            return "remove gate"
        case Release(claims, on):
            return " ".join(["release", on, *(key.split("/")[1] for key in claims)])
        case Unallocatable():
            return "unallocatable"
    return type(decision).__name__.lower()


def _device(one: Allocation) -> str:
    device: DeviceId = one.results[0].device
    return f"{device.pool.split('/')[0]}/{device.device}"


Build = Callable[[Scene], Any]


def both(*steps: Any) -> Build:
    def build(scene: Scene) -> None:
        for method, args, options in steps:
            getattr(scene, method)(*args, **options)

    return build


def claim(*args: Any, **options: Any) -> Any:
    return ("claim", args, options)


def a_class(name: str, expression: str) -> Any:
    return ("put", (DEVICE_CLASSES, device_class(name, expression)), {})


def nics(node: str, count: int) -> Any:
    """Devices of another driver on the node."""
    return ("put", (RESOURCE_SLICES, slice_on(node, count, "nic.example.com", "nic")), {})


def the_pod(*claims: str, **options: Any) -> Any:
    return ("pod", ("p", *claims), options)


SITUATIONS: list[tuple[str, Build, str]] = [
    ("no such pod", both(), "idle"),
    ("a pod without claims", both(the_pod()), "remove gate"),
    ("a pod without claims and without our gate", both(the_pod(gates=())), "idle"),
    ("a pod without claims and with other gates", both(the_pod(gates=(GATE, OTHER))), "remove gate"),
    ("a claim of another driver", both(claim("nic", ("nic.example.com",)), the_pod("nic")), "remove gate"),
    ("a claim of ours", both(claim("a"), the_pod("a")), "place n1 a=n1/gpu-0"),
    ("two claims", both(claim("a"), claim("b"), the_pod("a", "b")), "place n1 a=n1/gpu-0 b=n1/gpu-1"),
    ("two entries that name one claim", both(claim("a"), the_pod("a", "a")), "place n1 a=n1/gpu-0"),
    (
        "two entries that name one claim, left over",
        both(claim("a", at="n2/gpu-1", by=("p",)), the_pod("a", "a", condition="True")),
        "place n2",
    ),
    (
        "a claim of ours and one of another driver",
        both(claim("a"), claim("nic", ("nic.example.com",)), the_pod("a", "nic")),
        "place n1 a=n1/gpu-0",
    ),
    (
        "the other driver's claim is allocated on one node",
        both(
            claim("a"),
            claim("nic", ("nic.example.com",), at="n2/nic-0", driver="nic.example.com"),
            the_pod("a", "nic"),
        ),
        "place n2 a=n2/gpu-0",
    ),
    ("other gates", both(claim("a"), the_pod("a", gates=(GATE, OTHER))), "wait OtherGates without report"),
    ("a running pod", both(claim("a", at="n1/gpu-0", by=("p",)), the_pod("a", gates=(), nodeName="n1")), "idle"),
    ("a finished pod", both(claim("a"), the_pod("a", phase="Succeeded")), "idle"),
    ("no such claim", both(the_pod("a")), "wait ClaimMissing"),
    ("no such claim, no gate", both(the_pod("a", gates=())), "idle"),
    ("a claim not created yet", both(the_pod(generated={"a": ""}, age=1)), "wait ClaimMissing without report"),
    ("a claim never created", both(the_pod(generated={"a": ""}, age=9)), "wait ClaimMissing"),
    (
        "a claim created, not seen yet",
        both(the_pod(generated={"a": "x"}, age=1)),
        "wait ClaimMissing without report",
    ),
    ("a claim created and deleted", both(the_pod(generated={"a": "x"}, age=9)), "wait ClaimMissing"),
    ("a template that needs no claim", both(the_pod(generated={"a": None})), "remove gate"),
    ("a claim created for the pod", both(claim("x", owner="p"), the_pod(generated={"a": "x"})), "place n1 x=n1/gpu-0"),
    (
        "a claim of another pod",
        both(claim("x", owner="q"), the_pod(generated={"a": "x"})),
        "wait ClaimNotOwned",
    ),
    ("a claim that is being deleted", both(claim("a", deleting=True), the_pod("a")), "wait ClaimDeleting"),
    ("an unknown class", both(claim("a", ("gpu-typo",)), the_pod("a")), "wait UnknownClass"),
    ("an unknown class, no gate", both(claim("a", ("gpu-typo",)), the_pod("a", gates=())), "idle"),
    (
        "two drivers in one claim",
        both(claim("a", ("gpu.lode.dev", "nic.example.com")), the_pod("a")),
        "wait MixedClaim",
    ),
    (
        "a class that names our driver and excludes it",
        both(a_class("not-lode", 'device.driver != "lode.dev"'), claim("a", ("not-lode",)), the_pod("a")),
        "remove gate",
    ),
    (
        "a class over two drivers",
        both(
            a_class("any", 'device.driver == "nic.example.com" || device.driver == "lode.dev"'),
            claim("a", ("any",)),
            the_pod("a"),
        ),
        "wait AmbiguousClass",
    ),
    (
        "a class that tests no driver, and a request that does",
        both(
            a_class("kind", 'device.attributes["lode.dev"].kind == "gpu"'),
            claim("a", ("kind",), selector='device.driver == "lode.dev"'),
            the_pod("a"),
        ),
        "place n1 a=n1/gpu-0",
    ),
    (
        "another driver's claim that fits one node only",
        both(claim("a"), claim("nic", ("nic.example.com",)), nics("n2", 1), the_pod("a", "nic")),
        "place n2 a=n2/gpu-0",
    ),
    (
        "another driver's devices of the first node are in use",
        both(
            claim("a"),
            claim("nic", ("nic.example.com",)),
            claim("x", ("nic.example.com",), at="n1/nic-0", by=("q",), driver="nic.example.com"),
            nics("n1", 1),
            nics("n2", 1),
            the_pod("a", "nic"),
        ),
        "place n2 a=n2/gpu-0",
    ),
    (
        "two claims of another driver, and one device on the first node",
        both(
            claim("a"),
            claim("x", ("nic.example.com",)),
            claim("y", ("nic.example.com",)),
            nics("n1", 1),
            nics("n2", 2),
            the_pod("x", "a", "y"),
        ),
        "place n2 a=n2/gpu-0",
    ),
    (
        "another driver's device of the first node is expected to go to a pod that was let go",
        both(
            claim("a"),
            claim("nic", ("nic.example.com",)),
            claim("b", at="n1/gpu-0", by=("q",)),
            claim("x", ("nic.example.com",)),
            ("pod", ("q", "b", "x"), {"gates": ()}),
            nics("n1", 1),
            nics("n2", 1),
            the_pod("a", "nic"),
        ),
        "place n2 a=n2/gpu-0",
    ),
    (
        "another driver's device of the first node would go to a pod that is bound",
        both(
            claim("a"),
            claim("nic", ("nic.example.com",)),
            claim("b", at="n1/gpu-0", by=("q",)),
            claim("x", ("nic.example.com",)),
            ("pod", ("q", "b", "x"), {"gates": (), "nodeName": "n1"}),
            nics("n1", 1),
            nics("n2", 1),
            the_pod("a", "nic"),
        ),
        "place n1 a=n1/gpu-1",
    ),
    (
        "another driver's devices are all in use",
        both(
            claim("a"),
            claim("nic", ("nic.example.com",)),
            claim("x", ("nic.example.com",), at="n1/nic-0", by=("q",), driver="nic.example.com"),
            nics("n1", 1),
            the_pod("a", "nic"),
        ),
        "unallocatable",
    ),
    (
        "another driver's claim for a bound pod",
        both(
            claim("a"),
            claim("nic", ("nic.example.com",)),
            nics("n1", 1),
            the_pod("a", "nic", gates=(), nodeName="n2"),
        ),
        "place n2 a=n2/gpu-0",
    ),
    ("too little cpu everywhere", both(claim("a"), the_pod("a", cpu="9")), "unallocatable"),
    (
        "left over: allocated and reserved, gate not removed",
        both(claim("a", at="n2/gpu-1", by=("p",)), the_pod("a")),
        "place n2",
    ),
    (
        "left over: allocated, not reserved",
        both(claim("a", at="n2/gpu-1"), the_pod("a")),
        "place n2 reserve:a",
    ),
    (
        "left over: one of two claims",
        both(claim("a", at="n2/gpu-1", by=("p",)), claim("b"), the_pod("a", "b")),
        "place n2 b=n2/gpu-0",
    ),
    (
        "left over: one of two claims, no room for the other",
        both(
            claim("x", at="n2/gpu-0", by=("q",)),
            claim("a", at="n2/gpu-1", by=("p",)),
            claim("b"),
            the_pod("a", "b"),
        ),
        "take back n2 a",
    ),
    (
        "one of two claims is others' as well, no room for the other",
        both(
            claim("x", at="n2/gpu-0", by=("q",)),
            claim("a", at="n2/gpu-1", by=("p", "q")),
            claim("b"),
            the_pod("a", "b"),
        ),
        "unallocatable",
    ),
    (
        "a shared claim that another pod got",
        both(claim("a", at="n2/gpu-1", by=("q",)), the_pod("a")),
        "place n2 reserve:a",
    ),
    (
        "a shared claim on a node without room for the pod",
        both(claim("a", at="n2/gpu-1", by=("q",)), the_pod("a", cpu="9")),
        "wait NodeUnusable",
    ),
    (
        "a shared claim with as many consumers as there can be",
        both(claim("a", at="n2/gpu-1", by=tuple(f"q{n}" for n in range(256))), the_pod("a")),
        "wait ClaimFull",
    ),
    (
        "claims on two nodes, both the pod's own",
        both(claim("a", at="n1/gpu-0", by=("p",)), claim("b", at="n2/gpu-0", by=("p",)), the_pod("a", "b")),
        "take back n1 a b",
    ),
    (
        "claims on two nodes, one of them others' too",
        both(claim("a", at="n1/gpu-0", by=("p",)), claim("b", at="n2/gpu-0", by=("q",)), the_pod("a", "b")),
        "take back n1 a",
    ),
    (
        "claims on two nodes, both others' too",
        both(claim("a", at="n1/gpu-0", by=("q",)), claim("b", at="n2/gpu-0", by=("q",)), the_pod("a", "b")),
        "wait NodeUnusable",
    ),
    ("a pod that was never gated", both(claim("a"), the_pod("a", gates=())), "place n1 a=n1/gpu-0"),
    (
        "a pod bound without devices",
        both(claim("a"), the_pod("a", gates=(), nodeName="n2", cpu="99")),
        "place n2 a=n2/gpu-0",
    ),
    (
        "a pod without gate whose condition was not written",
        both(claim("a", at="n1/gpu-0", by=("p",)), the_pod("a", gates=(), condition="False")),
        "place n1",
    ),
    (
        "a pod without gate",
        both(claim("a", at="n1/gpu-0", by=("p",)), the_pod("a", gates=(), condition="True")),
        "idle",
    ),
]


@pytest.mark.parametrize(("build", "expected"), [row[1:] for row in SITUATIONS], ids=[row[0] for row in SITUATIONS])
def test_situation(build: Build, expected: str) -> None:
    scene = Scene()
    build(scene)
    assert about(decide(scene.state, "default/p", NOW)) == expected


@pytest.mark.parametrize("situation", range(len(SITUATIONS)))
def test_deciding_changes_nothing(situation: int) -> None:
    scene = Scene()
    SITUATIONS[situation][1](scene)
    assert decide(scene.state, "default/p", NOW) == decide(scene.state, "default/p", NOW)


def refused(**options: Any) -> Scene:
    scene = Scene()
    scene.claim("a", **{"at": "n1/gpu-0", "by": ("p",), "stamp": rfc3339(NOW), **options})
    scene.pod("p", "a", gates=(), unschedulable="no volume there", condition="True")
    return scene


@pytest.mark.parametrize(
    ("later", "history", "reserved_by", "expected"),
    [
        (1, PlacementHistory(), ("p",), "wait Refused without report"),
        (3, PlacementHistory(), ("p",), "release n1 a"),
        (3, PlacementHistory(failures=7), ("p",), "wait Refused without report"),
        (24, PlacementHistory(failures=8), ("p",), "release n1 a"),
        (59, PlacementHistory(failures=99), ("p",), "wait Refused without report"),
        (60, PlacementHistory(failures=99), ("p",), "release n1 a"),
        (6, PlacementHistory(released=NOW + 5.5), (), "wait Refused without report"),
        (7, PlacementHistory(released=NOW + 5.5), (), "take back n1 a unschedulable"),
        (9, PlacementHistory(spared=NOW + 7), ("p",), "wait Refused without report"),
        (10, PlacementHistory(spared=NOW + 7), ("p",), "release n1 a"),
        # kube-scheduler reserved the claim again: the procedure starts over.
        (7, PlacementHistory(released=NOW + 5.5), ("p",), "wait Refused without report"),
        (8, PlacementHistory(released=NOW + 5.5), ("p",), "wait Refused without report"),
        (9, PlacementHistory(released=NOW + 5.5), ("p",), "release n1 a"),
    ],
)
def test_a_refused_pod(later: float, history: PlacementHistory, reserved_by: tuple[str, ...], expected: str) -> None:
    scene = refused(by=reserved_by)
    assert about(decide(scene.state, "default/p", NOW + later, history)) == expected


def test_a_refused_pod_whose_claim_others_use_is_left_where_it_is() -> None:
    scene = refused(by=("p", "q"))
    assert about(decide(scene.state, "default/p", NOW + 100, PlacementHistory(released=NOW))) == "wait Refused"


@pytest.mark.parametrize(
    ("victim", "expected"),
    [
        ({"preempted": True}, "wait Preempting without report"),
        ({"preempted": True, "priority": 10}, "release n1 a"),
        ({"preempted": True, "nodeName": "n2"}, "release n1 a"),
        ({"preempted": True, "phase": "Failed"}, "release n1 a"),
        ({}, "release n1 a"),
    ],
    ids=["below it", "of equal priority", "on another node", "that has ended", "that is not preempted"],
)
def test_a_pod_that_kube_scheduler_makes_room_for_keeps_its_devices(victim: dict[str, Any], expected: str) -> None:
    scene = Scene()
    scene.claim("a", at="n1/gpu-0", by=("p",), stamp=rfc3339(NOW))
    scene.pod("p", "a", gates=(), unschedulable="Insufficient cpu", condition="True", priority=10)
    scene.pod("victim", gates=(), **{"nodeName": "n1", "priority": 5, **victim})
    assert about(decide(scene.state, "default/p", NOW + 100)) == expected


def test_patience_counts_from_the_end_of_the_last_victim() -> None:
    wait = Wait(Reason.PREEMPTING, "", report=False)
    assert PlacementHistory().after(wait, NOW).spared == NOW


def revision_of(scene: Scene, node: str) -> Revision:
    return scene.state.revision_of(node, scene.state.pods["default/p"].needs)


def refused_on(scene: Scene, *nodes: str) -> PlacementHistory:
    """The pod was refused on these nodes in turn, one second after the other, before NOW."""
    history = PlacementHistory()
    for number, name in enumerate(nodes):
        verdict = f"0/3 nodes are available: 1 not {name}, 2 cannot allocate all claims."
        back = TakeBack((), name, "", True, verdict, revision_of(scene, name))
        history = history.after(back, NOW - len(nodes) + number)
    return history


@pytest.fixture
def unplaced() -> Scene:
    scene = Scene(nodes=3)
    scene.claim("a")
    scene.pod("p", "a", gates=())
    return scene


def test_a_node_that_refused_is_avoided_until_something_there_changes(unplaced: Scene) -> None:
    history = refused_on(unplaced, "n1")
    assert about(decide(unplaced.state, "default/p", NOW, history)) == "place n2 a=n2/gpu-0"
    everywhere = refused_on(unplaced, "n1", "n2", "n3")
    decision = decide(unplaced.state, "default/p", NOW, everywhere)
    assert isinstance(decision, Unallocatable)
    assert (list(decision.refused), decision.after) == (["n1", "n2", "n3"], LAST_RESORT_SECONDS - 1)
    unplaced.put(NODES, node("n2", cpu="16"))
    assert about(decide(unplaced.state, "default/p", NOW, everywhere)) == "place n2 a=n2/gpu-0"


def test_every_node_is_tried_before_one_comes_again_and_then_the_one_refused_longest_ago(unplaced: Scene) -> None:
    changed = {name: node(name, cpu="16") for name in ("n1", "n2", "n3")}
    history = refused_on(unplaced, "n2", "n1")
    for name in ("n1", "n2"):
        unplaced.put(NODES, changed[name])
    assert about(decide(unplaced.state, "default/p", NOW, history)) == "place n3 a=n3/gpu-0"
    everywhere = refused_on(unplaced, "n3", "n1", "n2", "n1")
    for name in ("n1", "n2", "n3"):
        unplaced.put(NODES, node(name, cpu="32"))
    assert about(decide(unplaced.state, "default/p", NOW, everywhere)) == "place n3 a=n3/gpu-0"


def test_the_last_resort_tries_the_node_refused_longest_ago(unplaced: Scene) -> None:
    history = refused_on(unplaced, "n2", "n1", "n3")
    now = NOW - 1 + LAST_RESORT_SECONDS
    assert isinstance(decide(unplaced.state, "default/p", now - 1, history), Unallocatable)
    assert about(decide(unplaced.state, "default/p", now, history)) == "place n2 a=n2/gpu-0"


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda scene: scene.put(NODES, node("n1", cpu="16")), True),
        (lambda scene: scene.put(RESOURCE_SLICES, slice_on("n1", cards=3)), True),
        (lambda scene: scene.pod("other", gates=(), nodeName="n1"), True),
        (lambda scene: scene.claim("nic", ("nic.example.com",), at="n1/nic", driver="nic.example.com"), True),
        (lambda scene: scene.put(NODES, node("n2", cpu="16")), False),
        (lambda scene: scene.claim("a", at="n1/gpu-0", by=("p",)), False),
        (lambda scene: (scene.claim("b", at="n1/gpu-0", by=("q",)), scene.pod("q", "b")), False),
    ],
    ids=["node", "slice", "pod bound there", "other driver's claim", "other node", "own placing", "another placing"],
)
def test_what_counts_as_a_change_of_a_node_that_refused(
    change: Callable[[Scene], Any], counts: bool, unplaced: Scene
) -> None:
    history = refused_on(unplaced, "n1")
    change(unplaced)
    assert ("n1" not in history.standing(lambda name: revision_of(unplaced, name), NOW)) == counts


def test_a_verdict_that_is_marked_as_old_is_no_refusal() -> None:
    scene = refused(by=("p",))
    old = pod("p", "a", gates=(), unschedulable="no volume there", condition="True")
    old["status"]["conditions"][0]["lastProbeTime"] = STAMP
    scene.put(PODS, old)
    assert about(decide(scene.state, "default/p", NOW + 100)) == "idle"


def test_allocating_makes_an_earlier_verdict_old() -> None:
    scene = Scene()
    scene.claim("a")
    scene.pod("p", "a", gates=(), unschedulable="no volume there")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Place)
    assert decision.outdates_verdict


def test_a_node_held_back_for_another_pod_is_not_chosen(unplaced: Scene) -> None:
    order = NodeOrder(held={"n1": "default/first"})
    assert about(decide(unplaced.state, "default/p", NOW, order=order)) == "place n2 a=n2/gpu-0"


def test_a_node_asked_about_a_like_pod_is_tried_after_others_and_before_those_that_refused(unplaced: Scene) -> None:
    order = NodeOrder(asked=("n2",))
    history = refused_on(unplaced, "n1", "n3")
    assert about(decide(unplaced.state, "default/p", NOW, order=order)) == "place n1 a=n1/gpu-0"
    for name in ("n1", "n3"):
        unplaced.put(NODES, node(name, cpu="16"))
    assert about(decide(unplaced.state, "default/p", NOW, history, order=order)) == "place n2 a=n2/gpu-0"


def test_a_pod_whose_node_dies_before_it_is_let_go_is_moved() -> None:
    scene = Scene()
    scene.claim("a", at="n1/gpu-0", by=("p",))
    scene.pod("p", "a")
    scene.put(NODES, node("n1", ready=False))
    assert about(decide(scene.state, "default/p", NOW)) == "take back n1 a"


def test_a_pod_does_not_get_the_cpu_promised_to_another() -> None:
    scene = Scene()
    scene.claim("a", at="n1/gpu-0", by=("q",))
    scene.pod("q", "a", cpu="6")
    scene.claim("b")
    scene.pod("p", "b", cpu="6")
    assert about(decide(scene.state, "default/p", NOW)) == "place n2 b=n2/gpu-0"


def test_a_refusal_is_remembered_only_until_something_there_changes() -> None:
    scene = Scene(nodes=1)
    scene.claim("x", at="n1/gpu-0", by=("q",))
    scene.claim("y", at="n1/gpu-1", by=("q",))
    scene.claim("a")
    scene.pod("p", "a")
    assert about(decide(scene.state, "default/p", NOW)) == "unallocatable"
    scene.claim("x")
    assert about(decide(scene.state, "default/p", NOW)) == "place n1 a=n1/gpu-0"


def test_every_fault_of_every_claim_is_told_at_once() -> None:
    scene = Scene()
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "nonsense": 1}
    scene.claim("a", ("typo",))
    scene.claim("b", config=[{"opaque": {"driver": NAMES.driver, "parameters": parameters}}])
    scene.pod("p", "a", "b", "c")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Wait)
    for said in ("no DeviceClass is named typo", "nonsense: unknown field", "ResourceClaim default/c does not exist"):
        assert said in decision.message
    assert set(decision.claims) == {"default/a", "default/b"}


def test_faulty_parameters_of_a_class_name_the_class() -> None:
    scene = Scene()
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "nonsense": 1}
    config = [{"opaque": {"driver": NAMES.driver, "parameters": parameters}}]
    scene.put(DEVICE_CLASSES, device_class("bad.lode.dev", 'device.driver == "lode.dev"', config=config))
    scene.claim("a", ("bad.lode.dev",))
    scene.pod("p", "a")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Wait)
    assert decision.message.startswith("DeviceClass bad.lode.dev: spec.config[0].opaque.parameters.nonsense")


def test_a_malformed_selector_is_told_of_each_claim_that_has_it() -> None:
    scene = Scene()
    selectors = [{"cel": {"expression": "device.attributes["}}]
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev", "selectors": selectors}}]
    for name, of in (("p", "a"), ("q", "b")):
        scene.claim(of, requests=requests)
        scene.pod(name, of)
        decision = decide(scene.state, f"default/{name}", NOW)
        assert isinstance(decision, Wait)
        assert (decision.reason, decision.claims) == ("InvalidClaim", (f"default/{of}",))
        assert f"default/{of}" in decision.message
