"""A vendor's device plugin moves under Lode by one line of its DaemonSet, with kustomize and with Helm."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from testclusters.programs import helm_program, kubectl_program

ROOT = Path(__file__).parents[2]
COMPONENT = ROOT / "manifests" / "moved-device-plugin"
REGISTRY = ROOT / "manifests" / "moved-device-plugin-registry"
VENDORS = sorted((ROOT / "tests/data/deviceplugins").glob("*.yaml"))
FOLDER = "/var/lib/kubelet/plugins/lode.dev/device-plugins"
KUBELETS, KUBELETS_REGISTRY = "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry"


def objects(text: str) -> list[Any]:
    return [obj for obj in yaml.safe_load_all(text) if obj]


def with_kustomize(folder: Path, vendor: Path, *components: Path) -> "subprocess.CompletedProcess[str]":
    (folder / "plugin.yaml").write_text(vendor.read_text())
    named = [os.path.relpath(component, folder) for component in components]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["plugin.yaml"], "components": named}))
    command = [str(kubectl_program()), "kustomize", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def with_helm(folder: Path, vendor: Path) -> "subprocess.CompletedProcess[str]":
    (folder / "chart/templates").mkdir(parents=True)
    (folder / "chart/Chart.yaml").write_text("{apiVersion: v2, name: vendor, version: 1.0.0}")
    (folder / "chart/templates/plugin.yaml").write_text(vendor.read_text())
    shutil.copytree(COMPONENT / "helm", folder / "plugins/move-device-plugin")
    command = [str(helm_program()), "template", str(folder / "chart"), "--post-renderer", "move-device-plugin"]
    environment = {**os.environ, "HELM_PLUGINS": str(folder / "plugins")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def moved(vendor: Path) -> list[Any]:
    """The vendor's objects with the one line changed, and without the registry of plugins."""
    found = objects(vendor.read_text())
    for obj in (it for it in found if it["kind"] == "DaemonSet"):
        spec = obj["spec"]["template"]["spec"]
        for volume in spec["volumes"]:
            path = volume.get("hostPath", {}).get("path", "").rstrip("/")
            if path == KUBELETS:
                volume["hostPath"]["path"] = FOLDER
            if path == KUBELETS_REGISTRY:
                volume["hostPath"]["path"] = "/run/lode.dev/no-plugins-registry"
        for mount in (it for container in spec["containers"] for it in container["volumeMounts"]):
            if mount["mountPath"] == KUBELETS_REGISTRY:
                mount["mountPath"] = "/run/lode.dev/no-plugins-registry"
    return found


def by_kind(found: list[Any]) -> list[Any]:
    return sorted(found, key=lambda obj: obj["kind"])


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda file: file.stem)
def test_kustomize_changes_the_one_line_and_hides_the_registry(vendor: Path, tmp_path: Path) -> None:
    has_registry = KUBELETS_REGISTRY in vendor.read_text()
    done = with_kustomize(tmp_path, vendor, COMPONENT, *([REGISTRY] if has_registry else []))
    assert done.returncode == 0, done.stderr
    assert by_kind(objects(done.stdout)) == by_kind(moved(vendor))


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda file: file.stem)
def test_helm_changes_the_same(vendor: Path, tmp_path: Path) -> None:
    done = with_helm(tmp_path, vendor)
    assert done.returncode == 0, done.stderr
    assert by_kind(objects(done.stdout)) == by_kind(moved(vendor))


def test_a_daemonset_without_the_kubelets_folder_is_an_error(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(VENDORS[0].read_text().replace(KUBELETS, "/elsewhere"))
    for name, work in (("kustomize", with_kustomize), ("helm", with_helm)):
        (tmp_path / name).mkdir()
        done = work(tmp_path / name, other, COMPONENT) if work is with_kustomize else with_helm(tmp_path / name, other)
        assert (done.returncode != 0, "device-plugin" in done.stderr) == (True, True)
