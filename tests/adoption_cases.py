"""Pods of other systems and what becomes of them (tests/data/adoption), for admission, `adopt` and `lode convert`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from driver.adoption import PLAIN, SOURCES, AdoptionSource

_FILE = Path(__file__).parent / "data" / "adoption" / "pods.yaml"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdoptionCase:
    """A pod, and what is expected of it; the file says what the fields mean."""

    case: str
    source: str
    pod: Object
    claims: Mapping[str, str] = field(default_factory=dict)
    uses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    warned: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The name, for pytest."""
        return self.case

    @property
    def table(self) -> AdoptionSource:
        """The source; of ``plain`` with the classes that the operator names."""
        source = SOURCES[self.source]
        return replace(source, resources=self.classes) if self.source == PLAIN else source

    def written(self) -> Object:
        """The whole pod, as a user writes it."""
        spec = {"containers": self._containers("containers")}
        if "initContainers" in self.pod:
            spec["initContainers"] = self._containers("initContainers")
        if "schedulerName" in self.pod:
            spec["schedulerName"] = self.pod["schedulerName"]
        metadata = {key: self.pod[key] for key in ("annotations", "labels") if key in self.pod}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", **metadata}, "spec": spec}

    def _containers(self, kind: str) -> list[Object]:
        return [
            {
                "name": one["name"],
                "image": "none",
                "resources": {part: one[part] for part in ("limits", "requests") if part in one},
                **{key: one[key] for key in ("restartPolicy", "securityContext") if key in one},
            }
            for one in self.pod[kind]
        ]


MIG_PROFILES: Mapping[str, str] = {
    name: name.replace(".me", "+me").replace(".gfx", "+gfx")
    for name in (
        "1g.5gb 1g.5gb.me 2g.10gb 3g.20gb 4g.20gb 7g.40gb 1g.10gb.me 1g.20gb 7g.80gb 7g.79gb 1g.6gb 2g.12gb.me 4g.24gb "
        "1g.12gb 3g.47gb 4g.48gb 7g.94gb 1g.18gb.me 2g.35gb 7g.141gb 1g.23gb.me 3g.90gb 7g.180gb 3g.95gb 4g.95gb "
        "7g.189gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb 1g.34gb.me 1g.67gb 3g.135gb 7g.269gb 1g.35gb.me 2g.70gb "
        "4g.139gb 7g.278gb 1g.36gb 3g.72gb 7g.144gb 1g.16gb 2g.32gb 1g.24gb 1g.24gb.me 1g.24gb.gfx 1g.24gb.me.all "
        "1g.24gb-me 2g.48gb 2g.48gb.gfx 2g.48gb.me.all 2g.48gb-me 4g.96gb 4g.96gb.gfx 7g.1024gb"
    ).split()
}
"""MIG profiles from the A100 to the GB300 and the RTX PRO as the device plugin writes them, and as NVML does."""

ADOPTION_CASES = [AdoptionCase(**case) for case in yaml.safe_load(_FILE.read_text())]


def claims_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """The templates of the pod's claims, by the name of the entry."""
    entries = pod["spec"].get("resourceClaims") or []
    return {entry["name"]: entry["resourceClaimTemplateName"] for entry in entries}


def uses_of(pod: Mapping[str, Any]) -> dict[str, list[str]]:
    """The entries that each container refers to."""
    return {
        one["name"]: [claim["name"] for claim in (one.get("resources") or {}).get("claims") or []]
        for one in containers_of(pod)
    }


def env_of(pod: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The variables of the containers that have any."""
    return {
        one["name"]: {variable["name"]: variable.get("value", "") for variable in one["env"]}
        for one in containers_of(pod)
        if one.get("env")
    }


def resources_of(pod: Mapping[str, Any]) -> set[str]:
    """The names of all resources that containers ask for."""
    found: set[str] = set()
    for one in containers_of(pod):
        resources = one.get("resources") or {}
        found |= {*(resources.get("limits") or {}), *(resources.get("requests") or {})}
    return found


def containers_of(pod: Mapping[str, Any]) -> list[Object]:
    """Init containers, and then the others."""
    return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
