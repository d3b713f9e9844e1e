"""One object that makes no sense harms no other, and every kind is looked at."""

from typing import Any

import pytest

from cli.doctor.upgrade.look import UpgradeLook
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiCall,
    NotFound,
    Object,
    Page,
    Resource,
    Unavailable,
    Undecoded,
)
from tests.contract.objects import resource_slice
from tests.contract.of_137 import MANY, TWO_SLASHES, asking, device


class Listed(Api):
    """A cluster that has these objects, whatever is in them."""

    def __init__(self, **objects: list[Object]):
        self._objects = objects

    def call(self, call: ApiCall) -> Any:
        objects = self._objects.get(call.resource.plural, [])
        if call.verb == "list" and call.resource.version != "v1beta1":
            return Page(objects, "1")
        for obj in objects:
            if call.verb == "get" and obj["metadata"]["name"] == call.name:
                return obj
        raise NotFound(f"{call.resource.plural} {call.name}", status=404)


def silent(node: str) -> Object:
    raise Unavailable(f"{node} does not answer", status=503)


def named(name: str, **parts: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "team"}, **parts}


WRONG: dict[Resource, Object] = {
    RESOURCE_SLICES: resource_slice("wrong", device(capacity={TWO_SLASHES: {"value": "1"}})),
    RESOURCE_CLAIMS: named("wrong", spec=asking(**MANY)),
    RESOURCE_CLAIM_TEMPLATES: named("wrong", spec={"spec": asking(**MANY)}),
    DEVICE_TAINT_RULES: named("wrong", spec={"deviceSelector": {}, "taint": {"key": "a", "effect": "None"}}),
    PODS: named("wrong", spec={"containers": [{"command": ["kube-apiserver", "--feature-gates=NodeSwap=true"]}]}),
}
SENSELESS: list[Object] = [
    named("s1"),
    named("s2", spec=None),
    named("s3", spec="text"),
    named("s4", spec={"driver": 1, "devices": "text", "spec": 1, "containers": 1, "deviceSelector": "text"}),
    named("s5", spec={"devices": {"requests": [{"exactly": {"capacity": {"requests": {"memory": "many"}}}}]}}),
    named("s6", spec={"devices": [{"attributes": {"a": {"version": 1}}}], "driver": "a", "spec": {"devices": []}}),
    {**named("s7", spec={}), "metadata": {"name": "s7", "managedFields": "text"}},
    Undecoded({"name": "s8"}, "nested too deeply"),
    {},
    {"metadata": None, "spec": {}},
    {"metadata": {"namespace": "team"}, "spec": {}},
    named("s9", spec=asking(memory="m" * 100_000)),
]


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.plural)
def test_an_object_that_makes_no_sense_hides_no_other(kind: Resource) -> None:
    cluster = Listed(**{kind.plural: [*SENSELESS, WRONG[kind]]})
    findings = UpgradeLook(cluster, silent).findings()
    assert [one.subject.rpartition("/")[2].rpartition(" ")[2] for one in findings if one.check == check_of(kind)] == [
        "wrong"
    ]
    assert any(one.status == "unknown" and one.check == "objects" for one in findings)
    assert all(len(one.message) < 500 for one in findings)


def check_of(kind: Resource) -> str:
    names = {
        RESOURCE_CLAIM_TEMPLATES: "claim templates",
        RESOURCE_CLAIMS: "claims",
        RESOURCE_SLICES: "slices",
        DEVICE_TAINT_RULES: "taint rules",
        PODS: "feature gates",
    }
    return names[kind]


def test_kubelets_that_do_not_answer_are_named() -> None:
    nodes = [{"metadata": {"name": f"n{i}"}} for i in range(7)]
    found = {one.check: one for one in UpgradeLook(Listed(**{NODES.plural: nodes}), silent).findings()}
    assert found["kubelets"].status == "unknown"
    assert found["kubelets"].subject == "n0, n1, n2, n3, n4, and 2 more"


@pytest.mark.parametrize(
    "answer", [{"kubeletconfig": "text"}, {"kubeletconfig": {"featureGates": ["NodeSwap"]}}, {"kubeletconfig": [1]}]
)
def test_a_kubelet_whose_answer_makes_no_sense_hides_no_other(answer: Object) -> None:
    answers = {"n0": answer, "n1": {"kubeletconfig": {"featureGates": {"NodeSwap": True}}}}
    nodes = [{"metadata": {"name": name}} for name in answers]
    findings = UpgradeLook(Listed(**{NODES.plural: nodes}), answers.__getitem__).findings()
    assert [(one.status, one.subject) for one in findings if one.check == "kubelets"] == [
        ("failed", "Node n1"),
        ("unknown", "n0"),
    ]


def test_a_config_map_that_makes_no_sense_hides_no_other() -> None:
    proxy = "kind: KubeProxyConfiguration\nfeatureGates: {NFTablesProxyMode: true}"
    maps = [
        {"metadata": {"name": name, "namespace": "kube-system", "uid": name, "resourceVersion": "1"}, "data": data}
        for name, data in (("kubeadm-config", ["text"]), ("kube-proxy", {"config.conf": proxy}))
    ]
    findings = UpgradeLook(Listed(configmaps=maps), silent).findings()
    assert [one.subject for one in findings if one.check == "feature gates"] == ["ConfigMap kube-system/kube-proxy"]
    assert [one.subject for one in findings if one.check == "objects"] == ["ConfigMap kube-system/kubeadm-config"]


def test_a_cluster_with_nothing_of_it_passes() -> None:
    findings = UpgradeLook(Listed(), silent).findings()
    assert {one.status for one in findings} == {"ok"}
    assert {one.check for one in findings} >= {*map(check_of, WRONG)}
