"""Policies in a real kube-apiserver: as installed they are in force, and what weakens them is noticed."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from controller.policies import PolicyGuard, expected_policies
from driver.kube.client import KubeClient
from driver.observe import Metrics, logger
from testclusters.controlplane import ControlPlane
from tests.contract.identity import CONTROLLER

NAME = "single-allocator.lode.dev"
POLICY, BINDING = f"validatingadmissionpolicy/{NAME}", f"validatingadmissionpolicybinding/{NAME}"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(components=()) as plane:
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        yield plane


@pytest.fixture
def guard(plane: ControlPlane) -> Iterator[PolicyGuard]:
    """With the rights of the controller, and the policies as installed."""
    plane.kubectl("apply", "-k", "manifests/controller-allocated")
    groups = ("system:serviceaccounts", "system:serviceaccounts:lode-system")
    with closing(KubeClient.from_environment(str(plane.kubeconfig(CONTROLLER, groups)))) as api:
        yield PolicyGuard(api, expected_policies(), Metrics(), logger("test"))


def problem(guard: PolicyGuard) -> str:
    guard.step()
    return guard.problem


def test_the_manifests_are_as_expected(guard: PolicyGuard) -> None:
    assert problem(guard) == ""


def test_labels_annotations_and_audits_do_not_matter(plane: ControlPlane, guard: PolicyGuard) -> None:
    plane.kubectl("label", POLICY, "team=a", "--overwrite")
    plane.kubectl("annotate", BINDING, "why=b", "--overwrite")
    plane.kubectl("patch", BINDING, "--type=merge", "--patch", '{"spec": {"validationActions": ["Deny", "Audit"]}}')
    assert problem(guard) == ""


@pytest.mark.parametrize("gone", [POLICY, BINDING, "mutatingadmissionpolicybinding/allocation-gate.lode.dev"])
def test_what_is_deleted_is_missed_until_it_is_back(plane: ControlPlane, guard: PolicyGuard, gone: str) -> None:
    plane.kubectl("delete", gone)
    assert f"{gone.split('/')[1]}: does not exist" in problem(guard)
    plane.kubectl("apply", "-k", "manifests/controller-allocated")
    assert problem(guard) == ""


@pytest.mark.parametrize(
    ("changed", "patch", "field"),
    [
        (POLICY, '{"spec": {"failurePolicy": "Ignore"}}', "spec.failurePolicy: Ignore in the place of nothing"),
        (BINDING, '{"spec": {"validationActions": ["Audit"]}}', "spec.validationActions"),
        (
            BINDING,
            '{"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}}',
            "spec.matchResources",
        ),
        (
            POLICY,
            '{"spec": {"matchConditions": [{"name": "never", "expression": "false"}]}}',
            "spec.matchConditions",
        ),
    ],
)
def test_what_is_weakened_is_noticed(
    plane: ControlPlane, guard: PolicyGuard, changed: str, patch: str, field: str
) -> None:
    plane.kubectl("patch", changed, "--type=merge", "--patch", patch)
    assert field in problem(guard)
