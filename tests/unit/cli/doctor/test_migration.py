"""What is left of other systems in a cluster is found, and has a remedy."""

from collections.abc import Mapping
from typing import Any

import pytest

from cli.doctor.cluster_checks import Migration, NamespaceLabels, OldLimit, check_migration
from cli.doctor.cluster_look import CONTROLLER, PLUGIN, ClusterLook
from cli.doctor.findings import Finding
from driver.kube.api import NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, NotFound, Object, Page, Resource
from driver.settings import Settings

ADOPTED = NamespaceLabels("a", ("hami",), ("hami",))


def found(facts: Migration) -> list[tuple[str, str, str, str]]:
    return [(it.status, it.check, it.subject, it.message) for it in check_migration(facts)]


def test_where_nobody_is_adopted_nothing_is_said() -> None:
    assert found(Migration()) == []
    assert found(Migration(installed=("hami",))) == []


def test_adoption_without_a_fault_is_one_line() -> None:
    facts = Migration(("hami", "volcano"), (ADOPTED, NamespaceLabels("b", (), ("volcano",))))
    assert found(facts) == [("ok", "adoption", "2 namespaces", "pods of hami, volcano get claims")]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            Migration(("hami",), (NamespaceLabels("a", ("volcano",)),)),
            ("failed", "adoption", "a", "have lode.dev/adopt-volcano=on, and no policy adopts pods"),
        ),
        (
            Migration(("hami",), (NamespaceLabels("a", ("hammi",)),)),
            ("warning", "adoption", "a", "have the label lode.dev/adopt-hammi, and there is no such system"),
        ),
        (
            Migration(("hami", "nvidia"), (NamespaceLabels("a", ("hami", "nvidia")),)),
            (
                "failed",
                "adoption",
                "a",
                "have the labels of nvidia and of hami, which read nvidia.com/gpu differently: their pods are refused",
            ),
        ),
        (
            Migration(("hami",), (ADOPTED,), old_pods={"hami": ("a/p", "a/q")}),
            (
                "warning",
                "adoption",
                "a/p, a/q",
                "ask for resources of hami: they are older than the adoption of their namespace",
            ),
        ),
        (
            Migration(("hami",), (ADOPTED,), quotas=(OldLimit("a/cards", "nvidia.com/gpumem"),)),
            (
                "warning",
                "quotas",
                "ResourceQuota a/cards",
                "limits nvidia.com/gpumem, which no pod asks for any more: it counts nothing",
            ),
        ),
        (
            Migration(("hami",), (ADOPTED,), ranges=(OldLimit("a/limits", "nvidia.com/gpu"),)),
            (
                "failed",
                "quotas",
                "LimitRange a/limits",
                "has a min or max of nvidia.com/gpu, which no adopted pod has any more: every one is refused",
            ),
        ),
        (
            Migration(("hami",), (ADOPTED,), astray={"nvidia.com/gpu.product": ("a/p",)}),
            (
                "warning",
                "node labels",
                "a/p",
                "want nodes with the label nvidia.com/gpu.product, which no node has: nobody writes it any more",
            ),
        ),
    ],
)
def test_what_is_left_is_found_and_has_a_remedy(facts: Migration, expected: tuple[str, str, str, str]) -> None:
    assert found(facts) == [expected]
    assert all(finding.remedy for finding in check_migration(facts))


def test_a_quota_counts_on_if_a_class_has_the_name() -> None:
    facts = Migration(
        ("hami",), (ADOPTED,), quotas=(OldLimit("a/q", "nvidia.com/gpu"),), class_names=frozenset({"nvidia.com/gpu"})
    )
    assert [it.status for it in check_migration(facts)] == ["ok"]


# What is read


class Cluster:
    """An API that serves these objects, of which it counts the lists."""

    def __init__(self, *objects: Object):
        self.objects = objects
        self.listed: set[str] = set()

    def get(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Object:
        for obj in self.objects:
            if obj["kind"] == resource.kind and obj["metadata"]["name"] == name:
                return obj
        raise NotFound(name)

    def list(self, resource: Resource, **options: Any) -> Page:
        self.listed.add(resource.plural)
        return Page([obj for obj in self.objects if obj["kind"] == resource.kind], "1")


def obj(kind: str, name: str, namespace: str = "", labels: Mapping[str, str] | None = None, **rest: Any) -> Object:
    metadata = {"name": name, "labels": dict(labels or {}), **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {}, "status": {}, **rest}


def policy(source: str, **expression: Any) -> list[Object]:
    expression = expression or {"key": f"lode.dev/adopt-{source}", "operator": "In", "values": ["on"]}
    spec = {"matchConstraints": {"namespaceSelector": {"matchExpressions": [expression]}}}
    kinds = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    return [obj(kind, f"adopt-{source}.lode.dev", spec=spec) for kind in kinds]


def pod(name: str, namespace: str, limits: Mapping[str, Any], phase: str = "Pending", **spec: Any) -> Object:
    containers = [{"name": "main", "resources": {"limits": dict(limits)}}]
    return obj("Pod", name, namespace, spec={"containers": containers, **spec}, status={"phase": phase})


def migration(cluster: Cluster) -> Migration:
    look = ClusterLook(cluster, Settings(), {PLUGIN: "p", CONTROLLER: "c"}, "v1.37.0", 0.0)  # type: ignore[arg-type]
    return look.migration()


def on(source: str) -> dict[str, str]:
    return {f"lode.dev/adopt-{source}": "on"}


CARD = {"nvidia.com/gpu": 1}


def test_the_facts_are_those_of_adopted_namespaces() -> None:
    wanted: dict[str, Any] = {"nodeSelector": {"nvidia.com/gpu.product": "H100", "zone": "z"}}
    terms = [{"matchExpressions": [{"key": "host-arch", "operator": "In", "values": ["arm"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    cluster = Cluster(
        *policy("hami"),
        obj("Namespace", "a", labels=on("hami")),
        obj("Namespace", "b"),
        obj("Node", "n", labels={"zone": "z"}),
        pod("old", "a", {"nvidia.com/gpumem": 1}, "Running", nodeName="n", **wanted),
        pod("ended", "a", CARD, "Succeeded"),
        pod("waits", "a", {}, **wanted),
        pod("astray", "a", {}, affinity=affinity),
        pod("other", "b", CARD, **wanted),
        obj("ResourceQuota", "q", "a", spec={"hard": {"requests.nvidia.com/gpu": "4", "pods": "9"}}),
        obj("ResourceQuota", "q", "b", spec={"hard": {"requests.nvidia.com/gpu": "4"}}),
        obj("LimitRange", "r", "a", spec={"limits": [{"max": {"nvidia.com/gpu": 4, "cpu": 1}}, {"default": CARD}]}),
        obj("DeviceClass", "gpu.lode.dev", spec={"extendedResourceName": "nvidia.com/gpu"}),
    )
    assert migration(cluster) == Migration(
        installed=("hami",),
        namespaces=(ADOPTED,),
        old_pods={"hami": ("a/old",)},
        quotas=(OldLimit("a/q", "nvidia.com/gpu"),),
        ranges=(OldLimit("a/r", "nvidia.com/gpu"),),
        class_names=frozenset({"nvidia.com/gpu"}),
        astray={"nvidia.com/gpu.product": ("a/waits",), "host-arch": ("a/astray",)},
    )


def test_a_policy_for_all_namespaces_adopts_those_without_a_label() -> None:
    everywhere = policy("volcano", key="lode.dev/adopt-volcano", operator="NotIn", values=["off"])
    off = {"lode.dev/adopt-volcano": "off"}
    facts = migration(Cluster(*everywhere, obj("Namespace", "a"), obj("Namespace", "b", labels=off)))
    assert facts.namespaces == (NamespaceLabels("a", (), ("volcano",)),)


def test_a_policy_without_its_binding_adopts_nobody() -> None:
    facts = migration(Cluster(policy("hami")[0], obj("Namespace", "a", labels=on("hami"))))
    assert (facts.installed, facts.namespaces) == ((), (NamespaceLabels("a", ("hami",)),))


def test_where_nobody_is_adopted_only_namespaces_are_listed() -> None:
    cluster = Cluster(*policy("hami"), obj("Namespace", "a"), pod("p", "a", CARD))
    assert migration(cluster) == Migration(installed=("hami",))
    assert cluster.listed == {NAMESPACES.plural}


@pytest.mark.parametrize("resource", [NODES, PODS, RESOURCE_QUOTAS])
def test_an_object_that_makes_no_sense_hides_no_other(resource: Resource) -> None:
    broken = {"kind": resource.kind, "metadata": {"name": "x", "namespace": "a", "labels": 5}, "spec": 5}
    cluster = Cluster(*policy("hami"), obj("Namespace", "a", labels=on("hami")), pod("old", "a", CARD), broken)
    assert migration(cluster).old_pods == {"hami": ("a/old",)}


def test_remedies_name_what_to_do() -> None:
    told: list[Finding] = [*check_migration(Migration(("hami",), (NamespaceLabels("a", ("volcano",)),)))]
    assert told[0].remedy == "apply manifests/adopt/volcano (chart: adopt.sources), or remove the label"
