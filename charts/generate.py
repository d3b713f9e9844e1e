"""What of the chart is generated: one template for each object that kustomize builds, and the settings files."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from charts.adoption import FOLDER
from charts.board import board_text
from charts.monitoring import rules_text
from charts.template import PROGRAMS, Case, of_setting, of_source, template
from driver.adoption import SOURCES
from testclusters.programs import kubectl_program

Object = dict[str, Any]

CHART = Path(__file__).parent / "lode"
GENERATED = ("templates/generated", "files/settings")
"""The folders of the chart in which every file is generated."""

SOURCES_DIGEST = "files/sources.sha256"
_RULES_OF_CHART = "files/rules.yaml"
_BOARD_OF_CHART = "files/board.json"

MANIFESTS = Path(__file__).parents[1] / "manifests"
_SWITCHED = {
    **{
        name: f'and (eq .Values.allocator "controller") ((.Values.settings.controller).{name}).enabled'
        for name in ("autoscaling", "kueue", "preemption")
    },
    "nvidia-dra-names": ".Values.settings.nvidiaDraNames",
    "nvidia-dra-names-scheduler-allocated": (
        'and .Values.settings.nvidiaDraNames (eq .Values.allocator "kube-scheduler")'
    ),
    "ui": ".Values.ui.enabled",
}
"""The kustomize components that the chart has where a value is on, with the condition in the chart."""
_FLAVORS = ("controller-allocated", "scheduler-allocated", "gate-opt-in")
_ADOPTING = tuple(f"{FOLDER}/{name}" for name in (*SOURCES, "everywhere"))
_HARDWARE = ("nvidia", "ascend", "deviceplugin", "simulated")
_SOURCES = ("base", "monitoring", "controller", *_FLAVORS, *_HARDWARE, *_SWITCHED, *_ADOPTING)
_COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "auto": (),
    "nvidia": ("nvidia",),
    "ascend": ("ascend",),
    "deviceplugin": ("deviceplugin",),
    "mixed": ("nvidia", "ascend"),
    "simulated": ("simulated",),
}
"""The kustomize components that each value of `hardware` stands for."""


def sources_digest() -> str:
    """A digest of everything that the generated part depends on: the manifests and this program."""
    digest = hashlib.sha256()
    folders = [*(MANIFESTS / name for name in _SOURCES), Path(__file__).parent, Path(__file__).parent / "adoption"]
    for file in (file for folder in folders for file in sorted(folder.glob("*.*"))):
        digest.update(f"{file.parent.name}/{file.name}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def generated() -> dict[str, str]:
    """The content of each generated file, by its path in the chart.

    Raises `ValueError` if the manifests have something that the chart cannot express.
    """
    variants = {name: built("controller-allocated", *components) for name, components in _COMPONENTS.items()}
    opted_in = {_key(obj): obj for obj in built("controller-allocated", "gate-opt-in")}
    without_controller = {_key(obj): obj for obj in built("scheduler-allocated")}
    files = {f"files/settings/{name}.yaml": _settings(objects, "kubeletplugin") for name, objects in variants.items()}
    files["files/settings/controller.yaml"] = _settings(variants["auto"], "controller")
    keys = list(dict.fromkeys(_key(obj) for objects in variants.values() for obj in objects))
    for key in keys:
        cases = [Case(name, obj) for name, objects in variants.items() for obj in objects if _key(obj) == key]
        kind, namespace, name = key
        file = f"templates/generated/{kind}-{name}.yaml".lower()
        if file in files:
            file = f"templates/generated/{kind}-{namespace}-{name}.yaml".lower()
        limited = opted_in.get(key, cases[0].obj)
        files[file] = template(cases, "" if key in without_controller else "controller", limited)
    for (kind, _, name), obj in without_controller.items():
        if _key(obj) not in keys:
            files[f"templates/generated/{kind}-{name}.yaml".lower()] = template(
                [Case("auto", obj)], "kube-scheduler", obj
            )
    for component, condition in _SWITCHED.items():
        for obj in built("controller-allocated", component):
            if _key(obj) not in keys:
                kind, _, name = _key(obj)
                files[f"templates/generated/{kind}-{name}.yaml".lower()] = of_setting(condition, obj)
    for source in SOURCES:
        everywhere = {_key(obj): obj for obj in built("controller-allocated", f"{FOLDER}/{source}", _ADOPTING[-1])}
        for obj in built("controller-allocated", f"{FOLDER}/{source}"):
            if (key := _key(obj)) not in keys:
                files[f"templates/generated/{key[0]}-{key[2]}.yaml".lower()] = of_source(source, obj, everywhere[key])
    files[_RULES_OF_CHART] = rules_text()
    files[_BOARD_OF_CHART] = board_text()
    files[SOURCES_DIGEST] = f"{sources_digest()}\n"
    return files


def built(flavor: str, *components: str) -> list[Object]:
    """What kustomize builds of a flavor with components."""
    with tempfile.TemporaryDirectory() as folder:
        content = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(MANIFESTS / flavor, folder)],
            "components": [os.path.relpath(MANIFESTS / name, folder) for name in components],
        }
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(content))
        command = [str(kubectl_program()), "kustomize", folder]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return [obj for obj in yaml.safe_load_all(printed) if obj]


def _key(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    name = "lode-settings" if obj["kind"] == "ConfigMap" else metadata["name"]
    return obj["kind"], metadata.get("namespace", ""), name


def _settings(objects: list[Object], program: str) -> str:
    """The settings file of a program; `ValueError` if there is not exactly one."""
    maps = [obj for obj in objects if obj["kind"] == "ConfigMap" and PROGRAMS[obj["metadata"]["namespace"]] == program]
    if len(maps) != 1:
        raise ValueError(f"the chart has one settings file of the program {program}, the manifests have {len(maps)}")
    return str(maps[0]["data"]["settings.yaml"])
