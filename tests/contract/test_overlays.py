"""Overlays of a user's own: what can be changed works, and what cannot is refused with the reason."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from controller.policies import PolicyGuard, expected_policies
from driver.kube.client import KubeClient
from driver.observe import Metrics, logger
from testclusters.commands import CommandFailed
from testclusters.controlplane import ControlPlane
from tests.contract.identity import PLUGIN, Identity, Object, eventually
from tests.contract.installed import GATE, OUR_DRIVER, SLICES, pod_with_claim, slice_of

ELSEWHERE, OTHER = "elsewhere", "other"
MANIFESTS = Path(__file__).parents[2] / "manifests"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(components=()) as plane:
        plane.add_node("n1")
        yield plane


def overlay(plane: ControlPlane, flavor: str = "controller-allocated", **fields: object) -> str:
    """The rendered objects of a flavor with these fields of a kustomization."""
    folder = plane.folder / "overlay"
    folder.mkdir()
    base = Path(*[".."] * (len(folder.parts) - 1), *MANIFESTS.parts[1:])
    lines = [f"resources: [{base}/{flavor}]", *(f"{name}: {value}" for name, value in fields.items())]
    (folder / "kustomization.yaml").write_text("\n".join(lines).replace("MANIFESTS", str(base)))
    return plane.kubectl("kustomize", folder).stdout


def policy_problem(plane: ControlPlane, namespace: str, of_plugin: str) -> str:
    """What a controller in the namespace says about the policies, if the plugin is in the other one."""
    account = f"system:serviceaccount:{namespace}:lode-controller"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    with closing(KubeClient.from_environment(str(plane.kubeconfig(account, groups)))) as api:
        guard = PolicyGuard(api, expected_policies(OUR_DRIVER, namespace, of_plugin), Metrics(), logger("test"))
        guard.step()
        return guard.problem


def published_by(admin: Identity, account: str) -> Object:
    created = admin.as_user(account, node="n1").request("POST", f"{SLICES}?dryRun=All", slice_of(OUR_DRIVER, "n1"))
    return {"status": created.status, "message": created.message}


def test_one_namespace_for_both_programs_is_refused_by_kustomize(plane: ControlPlane) -> None:
    with pytest.raises(CommandFailed, match="namespace transformation produces ID conflict"):
        overlay(plane, namespace=ELSEWHERE)


def test_another_namespace_alone_is_refused_with_the_account_that_is_expected(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", "-", input=overlay(plane, "scheduler-allocated", namespace=ELSEWHERE))
    admin, account = Identity.admin(plane), PLUGIN.replace("lode-plugin", ELSEWHERE)
    eventually("the policy is in force", lambda: published_by(admin, account)["status"] == 403, 60)
    assert "only the service account lode-plugin/lode-kubeletplugin" in published_by(admin, account)["message"]


def test_the_namespaces_can_be_replaced_in_the_rendered_objects(plane: ControlPlane) -> None:
    text = overlay(plane).replace("lode-system", ELSEWHERE).replace("lode-plugin", OTHER)
    plane.kubectl("apply", "-f", "-", input=text)
    (deployment,) = [it for it in yaml.safe_load_all(text) if it["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "PLUGIN_NAMESPACE", "value": OTHER} in container["env"]
    assert policy_problem(plane, ELSEWHERE, OTHER) == ""
    admin = Identity.admin(plane)
    eventually("the policy is in force", lambda: published_by(admin, PLUGIN)["status"] == 403, 60)
    assert published_by(admin, PLUGIN.replace("lode-plugin", OTHER))["status"] == 201


def test_a_controller_whose_policies_name_other_accounts_names_them(plane: ControlPlane) -> None:
    documents = [
        text if "AdmissionPolicy" in text else text.replace("lode-system", ELSEWHERE)
        for text in overlay(plane).split("---\n")
    ]
    plane.kubectl("apply", "-f", "-", input="---\n".join(documents))
    problem = policy_problem(plane, ELSEWHERE, "lode-plugin")
    assert "single-allocator.lode.dev: spec.validations[0].expression" in problem
    assert f"{ELSEWHERE}:lode-controller" in problem
    assert "own-slices.lode.dev: spec.matchConditions" in policy_problem(plane, ELSEWHERE, OTHER)


def test_namespaces_can_opt_in_to_the_gate(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", "-", input=overlay(plane, components="[MANIFESTS/gate-opt-in]"))
    assert policy_problem(plane, "lode-system", "lode-plugin") == ""
    admin = Identity.admin(plane)
    labels = {"in": {"lode.dev/gate": "on"}, "unlabelled": {}}
    for name, given in labels.items():
        admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": given}}).must()

    def gates(namespace: str) -> list[Object]:
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        return list(admin.request("POST", path, pod_with_claim("none")).must()["spec"].get("schedulingGates", []))

    eventually("the gate is in force", lambda: gates("in") == [GATE], 60)
    assert gates("unlabelled") == []
