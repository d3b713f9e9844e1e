"""Each program has a namespace of its own, and the documented upgrade from versions in which they share one works."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import CHART
from cli.__main__ import main as lode
from testclusters.commands import CommandFailed
from testclusters.controlplane import ControlPlane
from testclusters.programs import helm_program

ROOT = Path(__file__).parents[2]
FLAVOR = "manifests/controller-allocated"
SHARED, PLUGINS = "lode-system", "lode-plugin"
NAME = "lode-kubeletplugin"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(components=()) as plane:
        yield plane


def documented() -> list[list[str]]:
    """The commands of the upgrade, as docs/operating.md has them."""
    page = (ROOT / "docs" / "operating.md").read_text()
    (block,) = [text for text in re.findall(r"```\n(.*?)```", page, re.DOTALL) if "rollout status" in text]
    return [line.split()[1:] for line in block.splitlines()]


def in_one_namespace(text: str) -> str:
    """Objects as versions had them in which both programs share the controller's namespace."""
    kept = [it for it in yaml.safe_load_all(text) if not (it["kind"] == "Namespace" and PLUGINS in str(it["metadata"]))]
    return yaml.safe_dump_all(kept).replace(PLUGINS, SHARED).replace("enforce: restricted", "enforce: privileged")


def ours(plane: ControlPlane) -> set[str]:
    """The objects of the plugin, as kind, namespace and name."""
    kinds = "daemonsets,serviceaccounts,networkpolicies"
    form = "jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{' '}{end}"
    return {it for it in plane.kubectl("get", kinds, "-A", "-o", form).stdout.split() if it.endswith(f"/{NAME}")}


def of_plugin(namespace: str) -> set[str]:
    return {f"{kind}/{namespace}/{NAME}" for kind in ("DaemonSet", "ServiceAccount", "NetworkPolicy")}


def second_plugins(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, list[str]]]:
    """The plugins that the doctor says are too many, and the command with which it removes each."""
    lode(["doctor", "--kubeconfig", str(plane.kubeconfig(delayed=False)), "-o", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    return [(one["subject"], one["remedy"].split()[1:]) for one in found if "second plugin" in one["message"]]


def level(plane: ControlPlane, namespace: str) -> str:
    """The Pod Security level that the namespace enforces."""
    labels = plane.kubectl("get", "namespace", namespace, "-o", "jsonpath={.metadata.labels}").stdout
    return str(yaml.safe_load(labels)["pod-security.kubernetes.io/enforce"])


def test_the_controllers_namespace_takes_restricted_pods_only(plane: ControlPlane) -> None:
    built = [it for it in yaml.safe_load_all(plane.kubectl("kustomize", FLAVOR).stdout) if it]
    plane.kubectl("apply", "-k", FLAVOR)

    def create(kind: str, namespace: str) -> None:
        (workload,) = [it for it in built if it["kind"] == kind]
        pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", **workload["spec"]["template"]}
        pod["metadata"] = {"name": "one", "namespace": namespace}
        plane.kubectl("create", "serviceaccount", pod["spec"]["serviceAccountName"], "-n", namespace, check=False)
        plane.kubectl("create", "--dry-run=server", "-f", "-", input=yaml.safe_dump(pod))

    create("Deployment", SHARED)
    create("DaemonSet", PLUGINS)
    with pytest.raises(CommandFailed, match='violates PodSecurity "restricted:latest"'):
        create("DaemonSet", SHARED)
    plane.kubectl("apply", "-k", "manifests/priority-quota")


def test_an_upgrade_with_kustomize_as_documented_leaves_one_plugin(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.kubectl("apply", "-f", "-", input=in_one_namespace(plane.kubectl("kustomize", FLAVOR).stdout))
    assert (ours(plane), level(plane, SHARED)) == (of_plugin(SHARED), "privileged")
    apply, wait, remove = documented()
    assert wait == ["-n", PLUGINS, "rollout", "status", f"daemonset/{NAME}"]
    plane.kubectl(*apply)
    assert ours(plane) == of_plugin(SHARED) | of_plugin(PLUGINS)
    assert second_plugins(plane, capsys) == [(f"DaemonSet {SHARED}/{NAME}", remove)]
    plane.kubectl(*remove)
    assert second_plugins(plane, capsys) == []
    assert (ours(plane), level(plane, SHARED)) == (of_plugin(PLUGINS), "restricted")


def test_helm_upgrade_moves_the_plugin_by_itself(plane: ControlPlane, tmp_path: Path) -> None:
    older = tmp_path / "lode"
    shutil.copytree(CHART, older)
    for name in (f"namespace-{PLUGINS}", "configmap-lode-settings"):
        (older / "templates" / "generated" / f"{name}.yaml").unlink()
    for file in (older / "templates" / "generated").iterdir():
        file.write_text(file.read_text().replace(PLUGINS, SHARED).replace("enforce: restricted", "enforce: privileged"))

    def helm(verb: str, chart: Path) -> None:
        command = [str(helm_program()), verb, "lode", str(chart), f"--kubeconfig={plane.kubeconfig(delayed=False)}"]
        subprocess.run([*command, "--namespace=default"], check=True, capture_output=True, text=True, timeout=120)

    helm("install", older)
    assert (ours(plane), level(plane, SHARED)) == (of_plugin(SHARED), "privileged")
    helm("upgrade", CHART)
    assert (ours(plane), level(plane, SHARED)) == (of_plugin(PLUGINS), "restricted")
