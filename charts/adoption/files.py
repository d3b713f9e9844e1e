"""The files: a kustomize component for each source and one for all namespaces, and the policy for words."""

from typing import Any

import yaml

from charts.adoption import words
from charts.adoption.cel import literal
from charts.adoption.policies import STEMS, label, policies
from charts.adoption.variables import CLASSES
from driver.adoption.naming import PLAIN
from driver.adoption.sources import SOURCES, AdoptionSource
from driver.names import CONTROLLER_NAMESPACE, DEFAULT_DRIVER, PLUGIN_NAMESPACE, pattern_of

FOLDER = "adopt"
"""In ``manifests``."""

_SYSTEM = ("kube-system", "kube-public", "kube-node-lease", CONTROLLER_NAMESPACE, PLUGIN_NAMESPACE)
_GENERATED = "# Generated from driver/adoption by `make chart`. docs/adoption.md describes it.\n"
_MADE_OF_WORDS = "# Generated from driver/adoption/spelling.py by `make chart`.\n"
_WIDTH = 116
_LABELS = {
    "app.kubernetes.io/part-of": "lode",
    "app.kubernetes.io/instance": "lode",
    "app.kubernetes.io/version": "0.1.0",
    "app.kubernetes.io/managed-by": "kustomize",
}


class _Folded(str):
    """A text that is written over several lines."""


class _Block(str):
    """A text with the lines that it has."""


class _Dumper(yaml.SafeDumper):
    """With these two."""


def _folded_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=">")


def _block_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")


_Dumper.add_representer(_Folded, _folded_text)
_Dumper.add_representer(_Block, _block_text)


def files() -> dict[str, str]:
    """The content of each file, by its path in ``manifests``."""
    found = {}
    for source in SOURCES.values():
        folder = f"{FOLDER}/{source.name}"
        found[f"{folder}/kustomization.yaml"] = _component(source)
        found[f"{folder}/policies.yaml"] = _GENERATED + _dumped(policies(source))
    found[f"{FOLDER}/everywhere/kustomization.yaml"] = _everywhere()
    found["controller/template-words-policy.yaml"] = _MADE_OF_WORDS + words.COMMENT + _dumped(words.policy())
    return found


def _dumped(objects: list[dict[str, Any]]) -> str:
    return str(yaml.dump_all(map(_folded, objects), Dumper=_Dumper, sort_keys=False, width=_WIDTH))


def _folded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _folded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_folded(one) for one in value]
    return _Folded(value) if isinstance(value, str) and len(value) > 80 and " " in value else value


def _component(source: AdoptionSource) -> str:
    said = f"# Pods of {source.name} run as claims, in namespaces with the label {label(source)}=on.\n"
    if source.name == PLAIN:
        said = (
            f"# Pods that ask for resources which the operator names run as claims, in namespaces with the label\n"
            f"# {label(source)}=on. A patch says which: the variable {CLASSES} of both policies.\n"
        )
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "labels": [{"pairs": _LABELS}],
        "resources": ["policies.yaml"],
    }
    return _GENERATED + said + yaml.safe_dump(component, sort_keys=False)


def _everywhere() -> str:
    """The components of the sources before this one apply to all namespaces but those of the system."""
    patches = []
    for source in SOURCES.values():
        first = {"key": label(source), "operator": "NotIn", "values": ["off"]}
        second = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(_SYSTEM)}
        path = "/spec/matchConstraints/namespaceSelector/matchExpressions"
        name = f"({'|'.join(STEMS)})-{source.name}[.]{pattern_of(DEFAULT_DRIVER)}"
        patches.append(
            {
                "target": {"kind": "(Mutating|Validating)AdmissionPolicy", "name": name},
                "patch": _Block(
                    f"- op: replace\n  path: {path}/0\n  value: {literal(first)}\n"
                    f"- op: add\n  path: {path}/-\n  value: {literal(second)}\n"
                ),
            }
        )
    said = (
        "# The sources whose components come before this one: in all namespaces but those of the system and those\n"
        f"# with the label {DEFAULT_DRIVER}/adopt-<source>=off.\n"
    )
    component = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "patches": patches}
    return _GENERATED + said + str(yaml.dump(component, Dumper=_Dumper, sort_keys=False, width=_WIDTH))
