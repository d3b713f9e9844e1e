"""The Helm chart renders what kustomize builds, and says what is wrong with values and clusters."""

import json
import re
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import CHART, built, generated
from charts.board import BOARD
from charts.monitoring import MANIFESTS
from controller.policies import PolicyGuard, expected_policies
from driver.kube.client import KubeClient
from driver.observe import Metrics, logger
from testclusters.controlplane import ControlPlane
from testclusters.programs import helm_program
from tests.contract.identity import Identity, eventually
from tests.contract.installed import SLICES, pod_with_claim, slice_of

VERSION = "1.37.0"


def template(*arguments: str, version: str = VERSION, chart: Path = CHART) -> "subprocess.CompletedProcess[str]":
    command = [str(helm_program()), "template", "lode", str(chart), "--kube-version", version, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def rendered(*arguments: str) -> list[dict[str, Any]]:
    done = template(*arguments)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The objects by kind and name, without what differs: the digest in the name of the settings, and the installer.

    Settings are parsed.
    """
    found = {}
    for obj in objects:
        plain = yaml.safe_load(re.sub(r"lode-settings-[a-z0-9]{10}", "lode-settings-DIGEST", yaml.safe_dump(obj)))
        assert plain["metadata"]["labels"].pop("app.kubernetes.io/managed-by") in ("kustomize", "Helm")
        if plain["kind"] == "ConfigMap":
            plain["data"] = {name: yaml.safe_load(text) for name, text in plain["data"].items()}
        found[plain["kind"], plain["metadata"].get("namespace", ""), plain["metadata"]["name"]] = plain
    return found


def settings_of(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The ConfigMap of each namespace."""
    maps = [obj for obj in objects if obj["kind"] == "ConfigMap"]
    found = {obj["metadata"]["namespace"]: obj for obj in maps}
    assert len(found) == len(maps) == 2
    return found


def only(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [obj for obj in objects if obj["kind"] == kind]
    return found


def test_the_chart_is_generated_from_the_manifests_as_they_are() -> None:
    files = generated()
    assert {name: (CHART / name).read_text() for name in files} == files
    folders = [CHART / name for name in ("templates/generated", "files/settings")]
    assert {str(path.relative_to(CHART)) for folder in folders for path in folder.iterdir()} <= set(files)


PROFILES = "1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb 1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb".split()
MIG = {profile: "nvidia.com/mig-" + profile.replace("+", ".") for profile in PROFILES}
EXTENDED = [
    "--set=allocator=kube-scheduler",
    "--set=extendedResources.gpu=nvidia.com/gpu",
    "--set=extendedResources.npu=huawei.com/Ascend910",
    f"--set-json=extendedResources.mig={json.dumps(MIG)}",
]


@pytest.mark.parametrize(
    ("values", "flavor", "components"),
    [
        ([], "controller-allocated", []),
        (["--set=allocator=kube-scheduler"], "scheduler-allocated", []),
        (["--set=gateOptIn=true"], "controller-allocated", ["gate-opt-in"]),
        (["--set=settings.controller.preemption.enabled=true"], "controller-allocated", ["preemption"]),
        (["--set=settings.controller.autoscaling.enabled=true"], "controller-allocated", ["autoscaling"]),
        (["--set=settings.controller.kueue.enabled=true"], "controller-allocated", ["kueue"]),
        (["--set=settings.controller.alsoAllocates={dra.net}"], "controller-allocated", ["also-allocates"]),
        (["--set=ui.enabled=true"], "controller-allocated", ["ui"]),
        (["--set=adopt.sources={hami,volcano}"], "controller-allocated", ["adopt/hami", "adopt/volcano"]),
        (
            ["--set=adopt.sources={nvidia,ascend}", "--set=adopt.everywhere=true"],
            "controller-allocated",
            ["adopt/nvidia", "adopt/ascend", "adopt/everywhere"],
        ),
        (
            ["--set=adopt.sources={nvidia}", "--set=adopt.everywhere=true", *EXTENDED[1:]],
            "controller-allocated",
            ["adopt/nvidia", "adopt/everywhere", "extended-resources"],
        ),
        (["--set=hardware=nvidia"], "controller-allocated", ["nvidia"]),
        (["--set=hardware=ascend"], "controller-allocated", ["ascend"]),
        (["--set=hardware=mixed"], "controller-allocated", ["nvidia", "ascend"]),
        (["--set=hardware=simulated"], "controller-allocated", ["simulated"]),
        (["--set=hardware=nvidia", "--set=allocator=kube-scheduler"], "scheduler-allocated", ["nvidia"]),
        (EXTENDED, "scheduler-allocated", ["extended-resources"]),
        (["--set=kubeletplugin.seLinuxOptions.type=spc_t"], "controller-allocated", ["selinux"]),
        (
            ["--set-string=kubeletplugin.nodeSelector.lode\\.dev/accelerators=true"],
            "controller-allocated",
            ["accelerator-nodes"],
        ),
    ],
    ids=" ".join,
)
def test_values_render_what_kustomize_builds(values: list[str], flavor: str, components: list[str]) -> None:
    assert by_name(rendered(*values)) == by_name(built(flavor, *components))


@pytest.mark.parametrize("flavor", ["controller-allocated", "scheduler-allocated"])
def test_names_of_nvidias_dra_driver_are_offered_as_kustomize_does_and_set_for_each_program(flavor: str) -> None:
    allocator = "controller" if flavor == "controller-allocated" else "kube-scheduler"
    found = by_name(rendered("--set=settings.nvidiaDraNames=true", f"--set=allocator={allocator}"))
    components = ["nvidia-dra-names"]
    if flavor == "scheduler-allocated":
        components.append("nvidia-dra-names-scheduler-allocated")
    expected = by_name(built(flavor, *components))
    for (kind, _, _), obj in expected.items():
        if kind == "ConfigMap":
            obj["data"]["settings.yaml"]["nvidiaDraNames"] = True
    assert found == expected
    assert ("DeviceClass", "", "mig.nvidia.com") in found


def test_the_package_for_a_registry_renders_the_same(tmp_path: Path) -> None:
    command = [str(helm_program()), "package", str(CHART), "--destination", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (package,) = tmp_path.iterdir()
    assert template(chart=package).stdout == template().stdout != ""


def test_a_change_of_settings_restarts_the_programs_and_reaches_them() -> None:
    plain, changed = rendered(), rendered("--set=settings.logLevel=debug")
    for kind in ("DaemonSet", "Deployment"):
        workload = only(changed, kind)
        before, settings = (settings_of(it)[workload["metadata"]["namespace"]] for it in (plain, changed))
        assert yaml.safe_load(settings["data"]["settings.yaml"])["logLevel"] == "debug"
        assert before["metadata"]["name"] != settings["metadata"]["name"]
        volumes = workload["spec"]["template"]["spec"]["volumes"]
        used = [it["configMap"]["name"] for it in volumes if "configMap" in it]
        assert used == [settings["metadata"]["name"]]


def test_the_folder_of_the_kubelet_is_the_same_in_the_pod_and_in_the_settings() -> None:
    objects = rendered("--set=kubeletRoot=/data/kubelet")
    assert "/var/lib/kubelet" not in yaml.safe_dump(objects)
    settings = yaml.safe_load(settings_of(objects)["lode-plugin"]["data"]["settings.yaml"])
    assert settings["kubeletplugin"]["kubeletRoot"] == "/data/kubelet"


def test_a_driver_of_another_name_is_published_guarded_and_waited_for() -> None:
    name, plugin = "gpu.example.com", "system:serviceaccount:lode-plugin:lode-kubeletplugin"
    objects = rendered(f"--set=driverName={name}")
    assert all(
        yaml.safe_load(it["data"]["settings.yaml"])["driverName"] == name for it in settings_of(objects).values()
    )
    with ControlPlane(components=()) as plane:
        plane.add_node("n1")
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
        account = str(plane.kubeconfig("system:serviceaccount:lode-system:lode-controller"))
        with closing(KubeClient.from_environment(account)) as api:
            guard = PolicyGuard(api, expected_policies(name), Metrics(), logger("test"))
            guard.step()
            assert guard.problem == ""
        admin = Identity.admin(plane)

        def published(user: Identity) -> int:
            return user.request("POST", f"{SLICES}?dryRun=All", slice_of(name, "n1", f"n1-{name}-devices-000")).status

        eventually("the policy is in force", lambda: published(admin) == 403, 60)
        assert published(admin.as_user(plugin, node="n1")) == 201
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        admin.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})

        def gates() -> object:
            return admin.request("POST", path, pod_with_claim("none")).must()["spec"].get("schedulingGates")

        eventually("the gate is in force", lambda: gates() == [{"name": f"{name}/allocation"}], 60)


VALUES = """
image: {repository: registry.example/lode, digest: "sha256:%s", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
createNamespaces: false
podMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}, runbooks: "https://wiki.example.com/lode/"}
kubeletplugin:
  tolerations: [{key: a, operator: Exists}]
  resources: {limits: {memory: 1Gi}}
controller:
  replicas: 3
  nodeSelector: {role: system}
  priorityClassName: important
""" % ("0" * 64)


def test_without_a_controller_no_alert_misses_it() -> None:
    objects = rendered("--set=prometheusRule.enabled=true", "--set=allocator=kube-scheduler")
    groups = only(objects, "PrometheusRule")["spec"]["groups"]
    assert [group["name"] for group in groups] == ["lode-plugin.alerts"]
    assert "docs/runbooks/LodePluginDown.md" in str(groups)


def test_the_board_is_the_one_of_the_component_and_its_labels_can_be_changed() -> None:
    values = ["--set=board.enabled=true", "--set=board.labels.team=a", "--set-string=board.labels.grafana_dashboard=x"]
    (found,) = [obj for obj in rendered(*values) if obj["metadata"]["name"] == "lode-board"]
    (component,) = [
        obj for obj in built("controller-allocated", "monitoring") if obj["metadata"]["name"] == "lode-board"
    ]
    assert found["data"] == component["data"] == {"lode.json": (MANIFESTS / BOARD).read_text()}
    assert component["metadata"]["labels"]["grafana_dashboard"] == "1"
    labels = found["metadata"]["labels"]
    assert (labels["team"], labels["grafana_dashboard"]) == ("a", "x")


def test_how_much_of_the_fleet_is_served_is_a_value_for_the_controller_alone() -> None:
    plain, more = (settings_of(rendered(*it)) for it in ([], ["--set=settings.controller.fleetMetrics=claims"]))
    settings = yaml.safe_load(more["lode-system"]["data"]["settings.yaml"])
    assert settings["controller"]["fleetMetrics"] == "claims"
    assert more["lode-plugin"] == plain["lode-plugin"]


def test_values_replace_the_fields_that_they_name(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(VALUES)
    objects = rendered(f"--values={file}")
    assert not [obj for obj in objects if obj["kind"] == "Namespace"]
    monitors = [obj for obj in objects if obj["kind"] == "PodMonitor"]
    component = yaml.safe_load_all((MANIFESTS / "monitoring/podmonitors.yaml").read_text())
    expected = [{**one["spec"], "namespaceSelector": {"any": True}} for one in component]
    assert [one["spec"] for one in monitors] == expected
    rule = only(objects, "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    text = (MANIFESTS / "monitoring/rules.yaml").read_text().replace("docs/runbooks/", "https://wiki.example.com/lode/")
    assert rule["spec"] == yaml.safe_load(text)
    plugin, controller = (only(objects, kind)["spec"]["template"]["spec"] for kind in ("DaemonSet", "Deployment"))
    for pod in (plugin, controller):
        assert pod["containers"][0]["image"] == "registry.example/lode@sha256:" + "0" * 64
        assert pod["containers"][0]["imagePullPolicy"] == "Always"
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert plugin["tolerations"] == [{"key": "a", "operator": "Exists"}]
    assert plugin["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}}
    assert only(objects, "Deployment")["spec"]["replicas"] == 3
    assert (controller["nodeSelector"], controller["priorityClassName"]) == ({"role": "system"}, "important")


@pytest.mark.parametrize(
    ("arguments", "version", "words"),
    [
        ([], "1.35.4", "requires kubeVersion: >=1.36"),
        (["--api-versions=v1/Pod"], VERSION, "does not serve resource.k8s.io/v1/DeviceClass"),
        (["--set=hardware=tpu"], VERSION, "hardware"),
        (["--set=kubeletplugin.tolerationz=1"], VERSION, "tolerationz"),
        (["--set=extendedResources.gpu=nvidia.com/gpu"], VERSION, "set allocator=kube-scheduler"),
        (["--set=extendedResources.gpu=gpus"], VERSION, "extendedResources"),
        (["--set=adopt.sources={hami}", "--set=allocator=kube-scheduler"], VERSION, "set allocator=controller"),
        (["--set=adopt.sources={hami,nvidia}", "--set=adopt.everywhere=true"], VERSION, "take the same resources"),
        (["--set=adopt.plain.a\\.b/c=d.e", "--set=adopt.plain.a\\.b/f=d.e"], VERSION, "the same device class"),
    ],
    ids=[
        "an older Kubernetes",
        "an API that is off",
        "unknown hardware",
        "a mistyped value",
        "names that nobody allocates",
        "a name without a domain",
        "adopted pods that nobody allocates for",
        "two sources of the same resources",
        "one class for two resources",
    ],
)
def test_what_cannot_work_is_refused_with_words(arguments: list[str], version: str, words: str) -> None:
    done = template(*arguments, version=version)
    assert done.returncode
    assert words in done.stderr
