"""What is decided about a pod, one situation after the other."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.reconcile import (
    decide,
)
from driver.kube.api import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from tests.unit.controller.filled_state import GATE, NOW, FilledState, device_class, node, slice_on
from tests.unit.controller.reconcile.inwords import about

OTHER = "kueue.x-k8s.io/admission"


Build = Callable[[FilledState], Any]


def both(*steps: Any) -> Build:
    def build(scene: FilledState) -> None:
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
    (
        "without a gate, a claim that cannot be allocated: what it holds may be being bound",
        both(claim("a", at="n1/gpu-0", by=("p",)), claim("b", ("gpu.lode.dev",) * 9), the_pod("a", "b", gates=())),
        "release n1 a",
    ),
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
    (
        "a class that is gone since the pod was let go",
        both(claim("a", ("gpu-typo",)), the_pod("a", gates=(), condition="True")),
        "wait UnknownClass",
    ),
    (
        "a class that is gone since the pod was bound",
        both(claim("a", ("gpu-typo",)), the_pod("a", gates=(), condition="True", nodeName="n1")),
        "idle",
    ),
    ("an unknown class of a pod that others let go", both(claim("a", ("gpu-typo",)), the_pod("a", gates=())), "idle"),
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
        "a class for our driver, and a request that excludes it",
        both(claim("a", selector='device.driver == "gpu.nvidia.com"'), the_pod("a")),
        "wait InvalidClaim",
    ),
    (
        "a class for our driver, and a request that excludes it, and another one",
        both(
            claim("a", selector='device.driver == "gpu.nvidia.com"'), claim("nic", ("nic.example.com",)), the_pod("a")
        ),
        "wait InvalidClaim",
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
        "a pod bound beside its devices, to the node of an earlier allocation",
        both(claim("a", at="n1/gpu-0", by=("p",)), the_pod("a", gates=(), nodeName="n2")),
        "take back n1 a",
    ),
    (
        "a pod bound beside one of its devices, while its other claim has none",
        both(claim("a", at="n1/gpu-0", by=("p",)), claim("b"), the_pod("a", "b", gates=(), nodeName="n2")),
        "take back n1 a",
    ),
    (
        "a pod bound beside devices that others use, too",
        both(claim("a", at="n1/gpu-0", by=("p", "q")), the_pod("a", gates=(), nodeName="n2")),
        "wait BoundWithoutDevices",
    ),
    (
        "a pod bound where its devices are",
        both(claim("a", at="n1/gpu-0", by=("p",)), the_pod("a", gates=(), nodeName="n1")),
        "idle",
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
    scene = FilledState()
    build(scene)
    assert about(decide(scene.state, "default/p", NOW)) == expected


@pytest.mark.parametrize("situation", range(len(SITUATIONS)))
def test_deciding_changes_nothing(situation: int) -> None:
    scene = FilledState()
    SITUATIONS[situation][1](scene)
    assert decide(scene.state, "default/p", NOW) == decide(scene.state, "default/p", NOW)


def test_a_pod_whose_node_dies_before_it_is_let_go_is_moved() -> None:
    scene = FilledState()
    scene.claim("a", at="n1/gpu-0", by=("p",))
    scene.pod("p", "a")
    scene.put(NODES, node("n1", ready=False))
    assert about(decide(scene.state, "default/p", NOW)) == "take back n1 a"


def test_a_pod_does_not_get_the_cpu_promised_to_another() -> None:
    scene = FilledState()
    scene.claim("a", at="n1/gpu-0", by=("q",))
    scene.pod("q", "a", cpu="6")
    scene.claim("b")
    scene.pod("p", "b", cpu="6")
    assert about(decide(scene.state, "default/p", NOW)) == "place n2 b=n2/gpu-0"


def test_a_refusal_is_remembered_only_until_something_there_changes() -> None:
    scene = FilledState(nodes=1)
    scene.claim("x", at="n1/gpu-0", by=("q",))
    scene.claim("y", at="n1/gpu-1", by=("q",))
    scene.claim("a")
    scene.pod("p", "a")
    assert about(decide(scene.state, "default/p", NOW)) == "unallocatable"
    scene.claim("x")
    assert about(decide(scene.state, "default/p", NOW)) == "place n1 a=n1/gpu-0"
