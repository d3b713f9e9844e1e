"""A cluster that has what Lode needs passes; everything that is missing is found, with its remedy."""

from dataclasses import replace
from typing import Any

import pytest

from cli.doctor import findings
from cli.doctor.cluster_checks import ClusterFacts, ClusterNode, Lease, Program, Right, check_cluster, minor
from cli.doctor.cluster_look import rights_of
from cli.doctor.rivals import TwiceOffered

NODE = ClusterNode("n1", "v1.37.1", "containerd://2.1.4", excluded=False, plugin_ready=True, devices=8)
PREPARED = ClusterFacts(
    version="v1.37.1",
    served={"resource.k8s.io/v1 resourceclaims": True},
    plugin=Program(1, 1),
    other_plugins=(),
    controller=Program(2, 2),
    lease=Lease("lode-controller-1", 12.0),
    controller_allocates=True,
    missing_classes=(),
    policies={"ValidatingAdmissionPolicy own-slices.lode.dev": ""},
    denied=(),
    nodes=(NODE,),
    unread={},
)
PLUGIN = "system:serviceaccount:lode-plugin:lode-kubeletplugin"
SLICES = Right(PLUGIN, "create", "resource.k8s.io", "resourceslices")


def wrong(facts: ClusterFacts) -> list[tuple[str, str, str, str]]:
    return [
        (found.status, found.check, found.subject, found.message)
        for found in check_cluster(facts)
        if found.status != "ok"
    ]


def of_node(**change: Any) -> dict[str, Any]:
    return {"nodes": (replace(NODE, **change),)}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"version": "v1.36.3+k3s1"},
        {"controller_allocates": False, "controller": None, "lease": None},
        of_node(runtime="cri-o://1.31.0"),
        {"nodes": (NODE, ClusterNode("old", "v1.30.0", "containerd://1.6.0", True, False, 0, ("nvidia.com/gpu",)))},
    ],
)
def test_a_cluster_that_has_everything_passes(change: dict[str, Any]) -> None:
    facts = replace(PREPARED, **change)
    assert wrong(facts) == []
    assert findings.passed(check_cluster(facts))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"version": "v1.35.2"}, ("failed", "version", "API server", "v1.35.2 is too old")),
        (
            {"version": "v1.39.0"},
            ("warning", "version", "API server", "v1.39.0 is newer than what Lode is tested with"),
        ),
        ({"version": "?"}, ("unknown", "version", "API server", "says '?'")),
        ({"served": {"g/v1 things": False}}, ("failed", "API", "g/v1 things", "not served")),
        (
            {"other_plugins": ("old",)},
            (
                "failed",
                "programs",
                "DaemonSet old/lode-kubeletplugin",
                "a second plugin on its nodes, of another version",
            ),
        ),
        ({"controller": None}, ("failed", "programs", "Deployment lode-controller", "does not exist")),
        (
            {"controller": Program(2, 1)},
            ("failed", "programs", "Deployment lode-controller", "1 of 2 pods are ready"),
        ),
        ({"lease": None}, ("failed", "leader", "Lease lode-controller", "no controller has ever led")),
        ({"lease": Lease("a", -1.0)}, ("failed", "leader", "Lease lode-controller", "no controller leads now")),
        ({"lease": Lease("", 5.0)}, ("failed", "leader", "Lease lode-controller", "no controller leads now")),
        ({"missing_classes": ("gpu.lode.dev",)}, ("failed", "device classes", "gpu.lode.dev", "does not exist")),
        ({"policies": {"P x": "does not exist"}}, ("failed", "policies", "P x", "does not exist")),
        ({"denied": (SLICES,)}, ("failed", "rights", PLUGIN, "may not create resourceslices.resource.k8s.io")),
        (of_node(kubelet="v1.35.0"), ("failed", "kubelets", "n1", "older than 1.36")),
        (
            of_node(runtime="containerd://1.6.9"),
            (
                "failed",
                "container runtime",
                "n1",
                "containerd is older than 1.7 and gives containers no CDI devices of claims",
            ),
        ),
        (
            of_node(runtime="containerd://1.7.27"),
            ("warning", "container runtime", "n1", "containerd 1.7 has CDI off by default"),
        ),
        (of_node(plugin_ready=False), ("failed", "plugin", "n1", "no plugin of the node is ready")),
        (of_node(devices=0), ("warning", "devices", "1 nodes", "no node has published a device")),
        (
            of_node(device_plugins=("nvidia.com/gpu",)),
            ("warning", "other drivers", "n1", "a device plugin offers nvidia.com/gpu"),
        ),
        (
            of_node(device_plugins=("nvidia.com/gpu",), claims=2),
            (
                "failed",
                "other drivers",
                "n1",
                "a device plugin offers nvidia.com/gpu while claims hold cards: one card can be in two hands",
            ),
        ),
        (
            of_node(drivers=("gpu.nvidia.com",)),
            ("warning", "other drivers", "n1", "the DRA driver gpu.nvidia.com publishes devices"),
        ),
        (
            of_node(drivers=("gpu.nvidia.com",), twice=(TwiceOffered("gpu.nvidia.com", ("gpu-0",), is_closed=False),)),
            (
                "failed",
                "other drivers",
                "n1",
                "the DRA driver gpu.nvidia.com publishes the same cards as Lode: n1/gpu-0; "
                "one card can be in two hands",
            ),
        ),
        (
            {"nvidia_classes": ("gpu.nvidia.com",)},
            (
                "failed",
                "names of NVIDIA's driver",
                "gpu.nvidia.com",
                "selects devices of Lode, and none of them has the attributes of these names",
            ),
        ),
        (
            {"gated": ("a/p", "b/q")},
            (
                "failed",
                "pods",
                "a/p, b/q",
                "have the gate of the controller, which is not installed: they wait without end",
            ),
        ),
        (
            {"holding": ("a/p",)},
            ("failed", "pods", "a/p", "have devices, and no plugin is installed: once deleted they stay Terminating"),
        ),
        (
            {"unread": {"rights": "may not create subjectaccessreviews"}},
            ("unknown", "rights", "API", "may not create subjectaccessreviews"),
        ),
    ],
)
def test_what_is_wrong_is_found_and_has_a_remedy(change: dict[str, Any], expected: tuple[str, str, str, str]) -> None:
    facts = replace(PREPARED, **change)
    assert wrong(facts) == [expected]
    assert all(found.remedy for found in check_cluster(facts) if found.status != "ok")
    assert findings.passed(check_cluster(facts)) == (expected[0] == "warning")


def test_names_of_nvidias_driver_are_for_one_driver() -> None:
    named = replace(NODE, nvidia_names=True)
    facts = replace(PREPARED, nvidia_classes=("gpu.nvidia.com", "mig.nvidia.com"), nodes=(named,))
    assert wrong(facts) == []
    beside = replace(facts, nodes=(named, replace(named, name="n2", drivers=("gpu.nvidia.com",))))
    (found,) = [one for one in check_cluster(beside) if one.check == "names of NVIDIA's driver"]
    assert (found.status, found.subject) == ("failed", "gpu.nvidia.com, mig.nvidia.com")
    assert found.remedy == "let the pods that use gpu.nvidia.com end, and remove that driver from n2"


def test_where_nothing_is_installed_nothing_is_said_to_allocate() -> None:
    facts = replace(PREPARED, plugin=None, controller=None, lease=None, controller_allocates=False)
    assert wrong(facts) == [
        ("failed", "programs", "DaemonSet lode-kubeletplugin", "does not exist"),
        ("failed", "devices", "1 nodes", "8 devices are published, and no plugin prepares them"),
    ]
    assert not [found for found in check_cluster(facts) if "kube-scheduler allocates" in found.message]


def test_many_nodes_with_one_fault_are_one_finding() -> None:
    facts = replace(PREPARED, nodes=tuple(replace(NODE, name=f"n{i}", plugin_ready=False) for i in range(8)))
    ((_, _, subject, _),) = wrong(facts)
    assert subject == "n0, n1, n2, n3, n4, and 3 more"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1.37.1", (1, 37)), ("1.36+", (1, 36)), ("v2.0.0-alpha.1", (2, 0)), ("", None), ("x", None)],
)
def test_the_minor_version_is_read(version: str, expected: tuple[int, int] | None) -> None:
    assert minor(version) == expected


def test_every_right_of_the_roles_of_an_account_is_asked_for() -> None:
    rule = {"apiGroups": ["a", ""], "resources": ["r", "r/status"], "verbs": ["get"], "resourceNames": ["x"]}
    roles = [
        {"kind": "Role", "metadata": {"name": "mine"}, "rules": [rule]},
        {"kind": "ClusterRole", "metadata": {"name": "mine"}, "rules": [{**rule, "resourceNames": None}]},
        {"kind": "ClusterRole", "metadata": {"name": "other"}, "rules": [rule]},
    ]
    found = list(rights_of(roles, "mine", "sys"))
    assert {right.account for right in found} == {"system:serviceaccount:sys:mine"}
    assert [(r.group, r.resource, r.name, r.namespace) for r in found] == [
        (group, resource, name, where)
        for name, where in (("x", "sys"), ("", ""))
        for group in ("a", "")
        for resource in ("r", "r/status")
    ]


def test_objects_that_make_no_sense_are_named_and_the_check_passes() -> None:
    facts = replace(PREPARED, unreadable={f"Node n{number}": "KeyError('status')" for number in range(7)})
    found = [one for one in check_cluster(facts) if one.check == "objects"]
    assert [one.subject for one in found] == ["Node n0", "Node n1", "Node n2", "Node n3", "Node n4", "2 more"]
    assert findings.passed(check_cluster(facts))
