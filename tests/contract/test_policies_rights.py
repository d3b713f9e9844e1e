"""The rights of the two service accounts; they have no others."""

from collections.abc import Iterator

import pytest

from testclusters.controlplane import ControlPlane
from tests.contract.identity import CONTROLLER, PLUGIN, Identity
from tests.contract.installed import installed

ANYBODY = "system:serviceaccount:default:default"
Right = tuple[str, str, str, str]
"""Verb, API group, resource, and the name of the object that it is limited to ("" for any)."""


@pytest.fixture(scope="module")
def admin() -> Iterator[Identity]:
    """The administrator of a cluster with the default flavor."""
    with installed() as admin:
        yield admin


def rights(verbs: str, group: str, resources: str, name: str = "") -> set[Right]:
    return {(verb, group, resource, name) for verb in verbs.split() for resource in resources.split()}


DRA = "resource.k8s.io"
POLICIES = {
    ("get", "admissionregistration.k8s.io", f"{kind}admission{part}", f"{name}.lode.dev")
    for kind in ("mutating", "validating")
    for part in ("policies", "policybindings")
    for name in (
        "allocation-gate",
        "claim-finalizer",
        "claim-in-use",
        "controller-writes",
        "no-extended-resource-claims",
        "own-slices",
        "reserved-templates",
        "single-allocator",
        "template-words",
    )
}
CLUSTER_WIDE = {
    CONTROLLER: rights("list watch", DRA, "resourceclaims resourceslices deviceclasses devicetaintrules")
    | rights("list watch", "", "nodes pods namespaces persistentvolumeclaims persistentvolumes")
    | rights("list watch", "storage.k8s.io", "storageclasses csinodes")
    | rights("list watch", "", "resourcequotas")
    | rights("list watch", "apps", "statefulsets")
    | rights("list watch", "batch", "jobs")
    | rights("list watch", "jobset.x-k8s.io", "jobsets")
    | rights("list watch create delete get", DRA, "resourceclaimtemplates")
    | rights("list watch", "scheduling.k8s.io", "podgroups compositepodgroups")
    | rights("list watch", "scheduler.grove.io", "podgangs")
    | rights("list watch", "scheduling.volcano.sh", "podgroups")
    | rights("list watch", "scheduling.x-k8s.io", "podgroups")
    | rights("get", DRA, "resourceclaims")
    | rights("get", "", "pods")
    | rights("patch", DRA, "resourceclaims resourceclaims/status resourceclaims/binding")
    | rights("update", DRA, "resourceclaims")
    | rights("arbitrary-node:patch", DRA, "resourceclaims/driver", "lode.dev")
    | rights("patch", "", "pods pods/status")
    | rights("patch", "", "resourcequotas/status")
    | rights("create get patch", "", "events")
    | POLICIES,
    PLUGIN: rights("get list watch create update delete", DRA, "resourceslices")
    | rights("get", DRA, "resourceclaims")
    | rights("get", "", "pods")
    | rights("get list watch", "", "nodes"),
}
IN_OUR_NAMESPACE = {
    CONTROLLER: rights("create", "coordination.k8s.io", "leases")
    | rights("get update", "coordination.k8s.io", "leases", "lode-controller"),
    PLUGIN: set(),
}


def granted(admin: Identity, user: str, namespace: str) -> set[Right]:
    """The rights of a service account in a namespace, without those that every service account has."""
    return _granted(admin, user, namespace) - _granted(admin, ANYBODY, namespace)


def _granted(admin: Identity, user: str, namespace: str) -> set[Right]:
    review = {"spec": {"namespace": namespace}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = admin.as_user(user).request("POST", path, review).must()["status"]["resourceRules"]
    return {
        (verb, group, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


@pytest.mark.parametrize("user", [CONTROLLER, PLUGIN])
def test_a_service_account_has_exactly_the_rights_of_its_program(admin: Identity, user: str) -> None:
    assert granted(admin, user, "default") == CLUSTER_WIDE[user]
    assert granted(admin, user, user.split(":")[2]) == CLUSTER_WIDE[user] | IN_OUR_NAMESPACE[user]


def test_with_preemption_the_controller_may_evict_and_read_budgets_and_nothing_else() -> None:
    with ControlPlane(components=()) as plane:
        admin = Identity.admin(plane)
        files = "manifests/preemption/preemption-rbac.yaml"
        plane.kubectl("create", "namespace", "lode-system")
        plane.kubectl("apply", "-f", files)
        wanted = rights("create", "", "pods/eviction") | rights("list watch", "policy", "poddisruptionbudgets")
        assert granted(admin, CONTROLLER, "default") == wanted


def test_with_autoscaling_the_controller_may_patch_nodes_and_nothing_else() -> None:
    with ControlPlane(components=()) as plane:
        admin = Identity.admin(plane)
        plane.kubectl("create", "namespace", "lode-system")
        plane.kubectl("apply", "-f", "manifests/autoscaling/autoscaling-rbac.yaml")
        assert granted(admin, CONTROLLER, "default") == rights("patch", "", "nodes")


def test_with_kueue_the_controller_may_answer_checks_and_nothing_else() -> None:
    with ControlPlane(components=()) as plane:
        admin = Identity.admin(plane)
        plane.kubectl("create", "namespace", "lode-system")
        plane.kubectl("apply", "-f", "manifests/kueue/kueue-rbac.yaml")
        group = "kueue.x-k8s.io"
        wanted = rights("list watch", group, "workloads admissionchecks")
        wanted |= rights("patch", group, "workloads/status admissionchecks/status")
        assert granted(admin, CONTROLLER, "default") == wanted


REVIEWS = {
    CONTROLLER: [
        (True, "patch", DRA, "resourceclaims", "binding", ""),
        (True, "patch", DRA, "resourceclaims", "status", ""),
        (True, "update", "coordination.k8s.io", "leases", "", "lode-controller"),
        (False, "update", "coordination.k8s.io", "leases", "", "another"),
        (False, "delete", DRA, "resourceclaims", "", ""),
        (False, "create", DRA, "resourceslices", "", ""),
        (False, "delete", "", "pods", "", ""),
        (False, "create", "", "pods", "binding", ""),
        (False, "get", "", "secrets", "", ""),
    ],
    PLUGIN: [
        (True, "create", DRA, "resourceslices", "", ""),
        (True, "get", DRA, "resourceclaims", "", "any"),
        (False, "list", DRA, "resourceclaims", "", ""),
        (False, "update", DRA, "resourceclaims", "status", ""),
        (False, "update", DRA, "resourceclaims", "binding", ""),
        (False, "deletecollection", DRA, "resourceslices", "", ""),
        (False, "list", "", "pods", "", ""),
        (False, "patch", "", "nodes", "", ""),
        (False, "get", "", "secrets", "", ""),
    ],
}


@pytest.mark.parametrize("user", [CONTROLLER, PLUGIN])
def test_access_reviews_agree_with_the_rights(admin: Identity, user: str) -> None:
    answers = []
    namespace = user.split(":")[2]
    for _, verb, group, resource, subresource, name in REVIEWS[user]:
        attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
        attributes |= {"subresource": subresource, "name": name}
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        review = {"spec": {"user": user, "groups": groups, "resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        answers.append(admin.request("POST", path, review).must()["status"]["allowed"])
    assert answers == [allowed for allowed, *_ in REVIEWS[user]]
