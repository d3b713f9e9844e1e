"""Properties of manifests/ that can be checked without a cluster."""

import re
import tomllib
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from controller.policies import expected_policies, policy_resource
from controller.state.kinds import GANG_RESOURCES, OPTIONAL_RESOURCES
from driver.kinds import SHARE_KINDS, WHOLE_KINDS, PartitionKind
from driver.names import FINALIZER, Names
from driver.settings import Settings
from driver.settings_file import settings_from
from kubeletplugin.podresources import socket_paths

MANIFESTS = Path(__file__).parents[3] / "manifests"
EXAMPLES = sorted(file for file in (MANIFESTS / "examples").glob("*/*.yaml") if file.stem != "kustomization")
REQUESTS = [file for file in EXAMPLES if file.parent.name == "requests"]
SETTINGS = sorted(MANIFESTS.glob("*/settings.yaml"))
KUSTOMIZATIONS = sorted(MANIFESTS.glob("**/kustomization.yaml"))
CLASSES = {*WHOLE_KINDS, *SHARE_KINDS, *get_args(PartitionKind)}


def objects(*files: Path) -> list[Any]:
    return [obj for file in files for obj in yaml.safe_load_all(file.read_text()) if obj]


def installed(kind: str = "") -> list[Any]:
    files = [file for name in ("base", "controller") for file in sorted((MANIFESTS / name).glob("*.yaml"))]
    return [obj for obj in objects(*files) if "kind" in obj and kind in ("", obj["kind"])]


@pytest.mark.parametrize("file", SETTINGS, ids=lambda file: file.parent.name)
def test_the_programs_accept_every_settings_file(file: Path) -> None:
    assert settings_from(file.read_text(), str(file)).observe_address.endswith(":8080")


APPLIED_ALONE = ("first-pod.yaml", "rules.yaml")
"""By README, and by Prometheus without its operator."""


@pytest.mark.parametrize("file", KUSTOMIZATIONS, ids=lambda file: file.parent.name)
def test_every_file_of_a_folder_is_used(file: Path) -> None:
    parts = yaml.safe_load(file.read_text())
    named = [name for generator in parts.get("configMapGenerator", []) for name in generator["files"]]
    generated = [name.rpartition("=")[2] for name in named]
    patched = [patch["path"] for patch in parts.get("patches", []) if "path" in patch]
    used = {"kustomization.yaml", *parts.get("resources", []), *generated, *patched}
    used |= {name for name in APPLIED_ALONE if (file.parent / name).exists()}
    there = {it.name for kind in ("yaml", "json") for it in file.parent.glob(f"*.{kind}")}
    assert there == {name for name in used if "/" not in name}


def test_there_is_one_class_for_every_kind_with_its_name() -> None:
    selectors = {obj["metadata"]["name"]: obj["spec"]["selectors"] for obj in installed("DeviceClass")}
    expression = 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "{}"'
    assert selectors == {f"{kind}.lode.dev": [{"cel": {"expression": expression.format(kind)}}] for kind in CLASSES}


def test_policies_fail_closed_and_need_no_parameters_but_device_classes() -> None:
    policies = installed("ValidatingAdmissionPolicy") + installed("MutatingAdmissionPolicy")
    assert {obj["spec"]["failurePolicy"] for obj in policies} == {"Fail"}
    kinds = {
        obj["metadata"]["name"]: obj["spec"]["paramKind"]["kind"] for obj in policies if "paramKind" in obj["spec"]
    }
    assert kinds == {"no-extended-resource-claims.lode.dev": "DeviceClass"}
    bindings = installed("ValidatingAdmissionPolicyBinding") + installed("MutatingAdmissionPolicyBinding")
    assert {obj["spec"]["policyName"] for obj in bindings} == {obj["metadata"]["name"] for obj in policies}
    references = {obj["spec"]["policyName"]: obj["spec"]["paramRef"] for obj in bindings if "paramRef" in obj["spec"]}
    every = {"selector": {}, "parameterNotFoundAction": "Allow"}
    assert references == dict.fromkeys(kinds, every), "every class"


def test_the_policies_add_the_gate_and_the_finalizer_of_the_controller() -> None:
    policies = {policy["metadata"]["name"]: policy for policy in installed("MutatingAdmissionPolicy")}
    added = {
        name: policy["spec"]["mutations"][0]["applyConfiguration"]["expression"] for name, policy in policies.items()
    }
    assert f'name: "{Names().gate}"' in added.pop("allocation-gate.lode.dev")
    assert f'finalizers: ["{FINALIZER}"]' in added.pop("claim-finalizer.lode.dev")
    assert not added


def test_the_controller_may_read_exactly_the_policies_that_it_expects() -> None:
    rules = [rule for role in installed("ClusterRole") for rule in role["rules"]]
    (rule,) = [rule for rule in rules if rule["apiGroups"] == ["admissionregistration.k8s.io"]]
    expected = expected_policies()
    assert set(rule["resourceNames"]) == {policy["metadata"]["name"] for policy in expected}
    assert set(rule["resources"]) == {policy_resource(policy).plural for policy in expected}


def test_no_role_has_a_wildcard() -> None:
    roles = installed("ClusterRole") + installed("Role")
    words = [word for role in roles for rule in role["rules"] for words in rule.values() for word in words]
    assert "*" not in words


@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment"])
def test_programs_run_without_privileges_and_answer_probes(kind: str) -> None:
    (workload,) = installed(kind)
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    assert workload["spec"]["template"]["spec"]["enableServiceLinks"] is False
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "observe"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "observe"}


def built_labels(kustomization: str) -> dict[str, str]:
    (entry,) = yaml.safe_load((MANIFESTS / kustomization / "kustomization.yaml").read_text())["labels"]
    return dict(entry["pairs"])


def test_labels_follow_the_convention() -> None:
    """Those of https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/."""
    project = tomllib.loads((MANIFESTS.parent / "pyproject.toml").read_text())["project"]
    expected = {"part-of": "lode", "instance": "lode", "version": project["version"], "managed-by": "kustomize"}
    prefix = "app.kubernetes.io/"
    for folder in ("base", "controller"):
        assert built_labels(folder) == {f"{prefix}{name}": value for name, value in expected.items()}
    for kind, component in (("DaemonSet", "kubeletplugin"), ("Deployment", "controller")):
        (workload,) = installed(kind)
        labels = workload["metadata"]["labels"]
        assert labels == {f"{prefix}name": f"lode-{component}", f"{prefix}component": component}
        assert workload["spec"]["template"]["metadata"]["labels"] == {**labels, f"{prefix}part-of": "lode"}


def test_others_reach_only_the_port_with_health_checks_and_metrics() -> None:
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in installed("NetworkPolicy")}
    for kind in ("DaemonSet", "Deployment"):
        (workload,) = installed(kind)
        policy = policies.pop(workload["metadata"]["name"])
        assert policy["podSelector"] == workload["spec"]["selector"]
        assert policy["policyTypes"] == ["Ingress"]
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        ports = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
        assert ports == [port["name"] for port in container["ports"]] == ["observe"]
    assert not policies


def test_an_update_never_leaves_a_node_without_the_plugin() -> None:
    (workload,) = installed("DaemonSet")
    assert workload["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_starts_with_two_lines_of_comment(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert [line.startswith("# ") for line in lines[:3]] == [True, True, False]


@pytest.mark.parametrize("file", REQUESTS, ids=lambda file: file.stem)
def test_an_example_is_a_claim_template_with_our_classes_and_a_pod_or_job(file: Path) -> None:
    template, user = objects(file)
    assert template["metadata"]["name"] == user["metadata"]["name"] == file.stem
    requests = template["spec"]["spec"]["devices"]["requests"]
    assert {request["exactly"]["deviceClassName"].removesuffix(".lode.dev") for request in requests} <= CLASSES
    spec = user["spec"]["template"]["spec"] if user["kind"] == "Job" else user["spec"]
    assert [claim["resourceClaimTemplateName"] for claim in spec["resourceClaims"]] == [file.stem]
    claims = {claim["name"] for claim in spec["resourceClaims"]}
    for container in spec["containers"]:
        assert {claim["name"] for claim in container["resources"]["claims"]} == claims


def pod_specs(file: Path) -> list[dict[str, Any]]:
    """The specs of all pods that an example creates."""
    specs = [
        obj["spec"] if obj["kind"] == "Pod" else obj.get("spec", {}).get("template", {}).get("spec")
        for obj in objects(file)
    ]
    return [spec for spec in specs if spec and "containers" in spec]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs_in_a_restricted_namespace_with_an_image_that_everybody_can_pull(file: Path) -> None:
    for spec in pod_specs(file):
        security = spec["securityContext"]
        assert (security["runAsNonRoot"], security["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
        for container in spec["containers"]:
            own = container["securityContext"]
            assert (own["allowPrivilegeEscalation"], own["capabilities"]) == (False, {"drop": ["ALL"]})
            assert re.fullmatch(r"docker\.io/library/busybox:[\d.]+@sha256:[0-9a-f]{64}", container["image"])


def test_the_image_of_all_examples_is_the_one_that_test_clusters_replace() -> None:
    (image,) = yaml.safe_load((MANIFESTS / "loaded-image" / "kustomization.yaml").read_text())["images"]
    used = {container["image"] for file in EXAMPLES for spec in pod_specs(file) for container in spec["containers"]}
    assert {name.split(":")[0] for name in used} == {image["name"]}
    assert len(used) == 1


def test_the_role_of_the_command_is_the_documented_one() -> None:
    page = (MANIFESTS.parent / "docs" / "simulate.md").read_text()
    (block,) = [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "ClusterRole" in text]
    assert objects(MANIFESTS / "examples" / "administration" / "command-role.yaml") == [yaml.safe_load(block)]


READERS = {
    "controller/controller-rbac.yaml": OPTIONAL_RESOURCES,
    "examples/administration/command-role.yaml": OPTIONAL_RESOURCES,
    "examples/administration/card-role.yaml": GANG_RESOURCES,
}
"""Files with a role, and the kinds that it lets list because decisions depend on them; ``test_ui`` has the page's."""


@pytest.mark.parametrize("file", READERS)
def test_a_role_lets_list_what_decisions_depend_on(file: str) -> None:
    roles = [obj for obj in objects(MANIFESTS / file) if obj["kind"] == "ClusterRole"]
    rules = [rule for role in roles for rule in role["rules"] if "list" in rule["verbs"]]
    granted = {pair for rule in rules for pair in product(rule["apiGroups"], rule["resources"])}
    missing = {(one.group, one.plural) for one in READERS[file]} - granted
    assert not missing, f"manifests/{file}: let the role list {sorted(missing)} (group, resource); then make chart"


def plugin_pod() -> dict[str, Any]:
    (workload,) = installed("DaemonSet")
    return dict(workload["spec"]["template"]["spec"])


def test_no_taint_evicts_the_plugin_before_the_pods_whose_claims_it_unprepares() -> None:
    assert plugin_pod()["tolerations"] == [{"operator": "Exists"}]


def test_the_controller_runs_on_control_planes_and_is_evicted_by_every_taint() -> None:
    (workload,) = installed("Deployment")
    (toleration,) = workload["spec"]["template"]["spec"]["tolerations"]
    assert (toleration["key"], toleration["effect"]) == ("node-role.kubernetes.io/control-plane", "NoSchedule")


def test_where_priorities_of_the_system_have_a_quota_both_namespaces_can_have_one() -> None:
    quotas = objects(MANIFESTS / "priority-quota" / "quotas.yaml")
    used = {
        (workload["metadata"]["namespace"], workload["spec"]["template"]["spec"]["priorityClassName"])
        for workload in installed("DaemonSet") + installed("Deployment")
    }
    allowed = set()
    for quota in quotas:
        (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
        assert (scope["scopeName"], scope["operator"]) == ("PriorityClass", "In")
        allowed |= {(quota["metadata"]["namespace"], name) for name in scope["values"]}
    assert allowed == used


def test_the_plugin_sees_no_folder_of_another_driver() -> None:
    folders = {volume["hostPath"]["path"] for volume in plugin_pod()["volumes"] if "hostPath" in volume}
    assert folders == {
        "/var/lib/kubelet/plugins_registry",
        f"/var/lib/kubelet/plugins/{Names().driver}",
        "/var/run/cdi",
    }


def test_only_nodes_with_ascend_npus_have_a_privileged_plugin() -> None:
    assert not plugin_pod()["containers"][0]["securityContext"].get("privileged")
    (patch,) = objects(MANIFESTS / "ascend" / "driver.yaml")
    pod = patch["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["name"] == plugin_pod()["containers"][0]["name"]
    assert container["securityContext"]["privileged"]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/dev", "/etc/vnpu.cfg"}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    settings = settings_from((MANIFESTS / "ascend" / "settings.yaml").read_text()).kubeletplugin
    host = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "host")
    assert settings.driver_root == host
    assert settings.ascend.library == f"{host}{Settings().kubeletplugin.ascend.library}"


@pytest.mark.parametrize("component", ["nvidia/plugin.yaml", "ascend/driver.yaml"])
def test_a_plugin_with_real_cards_sees_the_socket_at_which_the_kubelet_says_what_it_hands_out(component: str) -> None:
    (patch,) = objects(MANIFESTS / component)
    pod = patch["spec"]["template"]["spec"]
    (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "host"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "host"]
    settings = settings_from((MANIFESTS / component).with_name("settings.yaml").read_text())
    assert volume["hostPath"]["path"] == "/"
    assert socket_paths(settings)[0].startswith(f"{mount['mountPath']}/var/lib/kubelet/")


def test_programs_are_observed_on_ipv4_and_ipv6() -> None:
    for file in SETTINGS:
        assert settings_from(file.read_text(), str(file)).observe_address == Settings().observe_address == ":8080"


@pytest.mark.parametrize(
    ("component", "path", "value"),
    [
        ("accelerator-nodes", "/spec/template/spec/nodeSelector", {"lode.dev/accelerators": "true"}),
        ("selinux", "/spec/template/spec/containers/0/securityContext/seLinuxOptions", {"type": "spc_t"}),
    ],
)
def test_a_component_adds_one_field_to_the_plugin(component: str, path: str, value: dict[str, str]) -> None:
    (patch,) = yaml.safe_load((MANIFESTS / component / "kustomization.yaml").read_text())["patches"]
    assert patch["target"] == {"kind": "DaemonSet", "name": "lode-kubeletplugin"}
    assert yaml.safe_load(patch["patch"]) == [{"op": "add", "path": path, "value": value}]
    found: Any = {"spec": {"template": {"spec": plugin_pod()}}}
    *folders, field = path.strip("/").split("/")
    for name in folders:
        found = found[int(name)] if name.isdigit() else found[name]
    assert field not in found


def test_the_nvidia_component_gives_the_plugin_its_cards_and_no_more_to_write() -> None:
    (patch,) = objects(MANIFESTS / "nvidia" / "plugin.yaml")
    pod = patch["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    settings = settings_from((MANIFESTS / "nvidia" / "settings.yaml").read_text()).kubeletplugin
    assert settings.hardware == "nvidia"
    assert container["securityContext"] == {
        "$patch": "replace",
        "runAsUser": 0,
        "privileged": True,
        "readOnlyRootFilesystem": True,
    }
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    read_only = {mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")}
    assert (writable, read_only) == ({settings.nvidia.run_folder}, {settings.nvidia.host_root})
    assert {volume["hostPath"]["path"] for volume in pod["volumes"]} == {"/", settings.nvidia.run_folder}
    assert {"hostPID", "hostNetwork", "hostIPC"} & set(pod) == {"hostPID"}


def test_the_component_for_another_driver_makes_the_policies_that_the_controller_expects_then() -> None:
    folder = MANIFESTS / "also-allocates"
    component = yaml.safe_load((folder / "kustomization.yaml").read_text())
    also = yaml.safe_load((folder / "settings.yaml").read_text())["controller"]["alsoAllocates"]
    every = [policy for policy in expected_policies() if policy["kind"] == "ValidatingAdmissionPolicy"]
    policies = {policy["metadata"]["name"]: policy for policy in every}
    for patch in component["patches"]:
        for change in yaml.safe_load(patch["patch"]):
            *steps, last = change["path"].strip("/").split("/")
            found: Any = policies[patch["target"]["name"]]
            for step in steps:
                found = found[int(step) if step.isdecimal() else step]
            found[last] = change["value"]
    expected = [policy for policy in expected_policies(also=also) if policy["kind"] == "ValidatingAdmissionPolicy"]
    for policy in expected:
        changed = policies[policy["metadata"]["name"]]
        assert " ".join(str(changed["spec"]).split()) == " ".join(str(policy["spec"]).split())
