"""The Helm chart renders what kustomize builds, and says what is wrong with values and clusters."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import CHART, built, generated
from testclusters import helm_program

VERSION = "1.37.0"


def template(*arguments: str, version: str = VERSION) -> "subprocess.CompletedProcess[str]":
    command = [str(helm_program()), "template", "lode", str(CHART), "--kube-version", version, *arguments]
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


def only(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [obj for obj in objects if obj["kind"] == kind]
    return found


def test_the_chart_is_generated_from_the_manifests_as_they_are() -> None:
    files = generated()
    assert {name: (CHART / name).read_text() for name in files} == files
    folders = [CHART / name for name in ("templates/generated", "files/settings")]
    assert {str(path.relative_to(CHART)) for folder in folders for path in folder.iterdir()} <= set(files)


@pytest.mark.parametrize(
    ("values", "flavor", "components"),
    [
        ([], "controller-allocated", []),
        (["--set=allocator=kube-scheduler"], "scheduler-allocated", []),
        (["--set=gateOptIn=true"], "controller-allocated", ["gate-opt-in"]),
        (["--set=hardware=nvidia"], "controller-allocated", ["nvidia"]),
        (["--set=hardware=ascend"], "controller-allocated", ["ascend"]),
        (["--set=hardware=mixed"], "controller-allocated", ["nvidia", "ascend"]),
        (["--set=hardware=simulated"], "controller-allocated", ["simulated"]),
        (["--set=hardware=nvidia", "--set=allocator=kube-scheduler"], "scheduler-allocated", ["nvidia"]),
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


def test_a_change_of_settings_restarts_the_programs_and_reaches_them() -> None:
    plain, changed = rendered(), rendered("--set=settings.logLevel=debug")
    settings = only(changed, "ConfigMap")
    assert yaml.safe_load(settings["data"]["settings.yaml"])["logLevel"] == "debug"
    names = {only(objects, "ConfigMap")["metadata"]["name"] for objects in (plain, changed)}
    assert len(names) == 2
    for kind in ("DaemonSet", "Deployment"):
        volumes = only(changed, kind)["spec"]["template"]["spec"]["volumes"]
        used = [it["configMap"]["name"] for it in volumes if "configMap" in it]
        assert used == [settings["metadata"]["name"]]


def test_the_folder_of_the_kubelet_is_the_same_in_the_pod_and_in_the_settings() -> None:
    objects = rendered("--set=kubeletRoot=/data/kubelet")
    assert "/var/lib/kubelet" not in yaml.safe_dump(objects)
    settings = yaml.safe_load(only(objects, "ConfigMap")["data"]["settings.yaml"])
    assert settings["kubeletplugin"]["kubeletRoot"] == "/data/kubelet"


VALUES = """
image: {repository: registry.example/lode, digest: "sha256:%s", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
createNamespaces: false
podMonitor: {enabled: true, labels: {release: prometheus}}
kubeletplugin:
  tolerations: [{key: a, operator: Exists}]
  resources: {limits: {memory: 1Gi}}
controller:
  replicas: 3
  nodeSelector: {role: system}
  priorityClassName: important
""" % ("0" * 64)


def test_values_replace_the_fields_that_they_name(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(VALUES)
    objects = rendered(f"--values={file}")
    assert not [obj for obj in objects if obj["kind"] == "Namespace"]
    assert len([obj for obj in objects if obj["kind"] == "PodMonitor"]) == 2
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
    ],
    ids=["an older Kubernetes", "an API that is off", "unknown hardware", "a mistyped value"],
)
def test_what_cannot_work_is_refused_with_words(arguments: list[str], version: str, words: str) -> None:
    done = template(*arguments, version=version)
    assert done.returncode
    assert words in done.stderr
