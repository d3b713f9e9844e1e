"""Claim templates beside the workload that uses them, under names that people can read. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from driver.adoption import template_spec
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES
from driver.names import Names

_LONGEST: Final = 240
"""Characters of a workload's name in that of its template."""


class TemplateNames:
    """The templates of some files by namespace and name, so that none is made twice under one name."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, str]] = set()

    def take(self, namespace: str, name: str) -> None:
        """Note that there is a template of this name."""
        self._taken.add((namespace, name))

    def free(self, namespace: str, base: str) -> str:
        """Take the first of ``base``, ``base-2``, ``base-3`` and so on that is free."""
        number, name = 1, base
        while (namespace, name) in self._taken:
            number += 1
            name = f"{base}-{number}"
        self._taken.add((namespace, name))
        return name


class OwnTemplates:
    """The templates of one workload: one for requests that are equal.

    Args:
        owner: the workload, whose name and namespace the templates get.
        taken: names that others have; those that are made here are added.
    """

    def __init__(self, owner: Mapping[str, Any], names: Names, taken: TemplateNames):
        metadata = owner.get("metadata") or {}
        self._namespace = str(metadata.get("namespace") or "")
        named = str(metadata.get("name") or metadata.get("generateName") or "pod")
        self._base = named[:_LONGEST].rstrip("-.")
        self._names = names
        self._taken = taken
        self._made: dict[str, str] = {}
        """The name of the template that was made for a name on demand."""

    def give(
        self, pod: Mapping[str, Any], templates: Mapping[str, str], on_demand: bool
    ) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
        """The pod with readable names of claims and templates, and the templates that it is the first to need.

        Args:
            templates: names on demand by the entry of the pod.
            on_demand: whether these names stay, and no template is made.

        Raises:
            InvalidInput: a name stands for nothing.
        """
        specs = {name: template_spec(name, self._names) for name in templates.values()}
        if on_demand or not templates:
            return pod, []
        entries = {entry["name"] for entry in pod["spec"]["resourceClaims"]} - templates.keys()
        made, renamed = list[dict[str, Any]](), dict[str, str]()
        for entry, name in templates.items():
            spec = specs[name]
            word = _word(spec)
            renamed[entry] = _free_entry(word, entries)
            if name not in self._made:
                self._made[name] = self._taken.free(self._namespace, f"{self._base}-{word}")
                made.append(self._template(self._made[name], spec))
        return _renamed(pod, renamed, self._made), made

    def _template(self, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": RESOURCE_CLAIM_TEMPLATES.api_version,
            "kind": RESOURCE_CLAIM_TEMPLATES.kind,
            "metadata": {"name": name, **({"namespace": self._namespace} if self._namespace else {})},
            "spec": spec,
        }


def _word(spec: Mapping[str, Any]) -> str:
    """``gpu``, ``npu``, ``mig`` or ``vnpu``; ``devices`` for classes of others."""
    request = spec["spec"]["devices"]["requests"][0]
    wanted = request.get("exactly") or request["firstAvailable"][0]
    word = str(wanted["deviceClassName"]).partition(".")[0].partition("-")[0]
    return word if word in ("gpu", "npu", "mig", "vnpu") else "devices"


def _free_entry(word: str, entries: set[str]) -> str:
    number, name = 1, word
    while name in entries:
        number += 1
        name = f"{word}-{number}"
    entries.add(name)
    return name


def _renamed(pod: Mapping[str, Any], entries: Mapping[str, str], templates: Mapping[str, str]) -> dict[str, Any]:
    spec = dict(pod["spec"])
    spec["resourceClaims"] = [
        {"name": entries[it["name"]], "resourceClaimTemplateName": templates[it["resourceClaimTemplateName"]]}
        if it["name"] in entries
        else it
        for it in spec["resourceClaims"]
    ]
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [_with_claims(container, entries) for container in spec[kind] or ()]
    return {**pod, "spec": spec}


def _with_claims(container: Mapping[str, Any], entries: Mapping[str, str]) -> Mapping[str, Any]:
    resources = container.get("resources") or {}
    if "claims" not in resources:
        return container
    claims = [{**claim, "name": entries.get(claim["name"], claim["name"])} for claim in resources["claims"]]
    return {**container, "resources": {**resources, "claims": claims}}
