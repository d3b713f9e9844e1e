"""Converted manifests, and what ``lode simulate`` gives their pods on nodes of tests/data/adoption/devices.yaml."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from cli.convert.adopting import Conversion, sources_with
from cli.convert.converting import ConvertedFile, convert_file
from cli.convert.templates import TemplateNames
from cli.decisions.simulator import simulate_all
from cli.decisions.snapshot import snapshot_of
from cli.objects.checks import check
from cli.objects.documents import Documents, parse
from cli.shipped import device_classes
from driver.files import SystemFiles
from driver.kinds import EVERY_OFFER
from driver.kube.api import Object
from driver.names import Names
from kubeletplugin.hardware.simulated import SimulatedHardware
from kubeletplugin.hardware.simulated.profile import profile_from
from kubeletplugin.inventory import Fabric, build_inventory
from kubeletplugin.publish.slices import DesiredPool, build_slices, plan_writes
from tests.unit.docs.pages import ROOT

DATA = yaml.safe_load((ROOT / "tests/data/adoption/devices.yaml").read_text())


def converted(text: str, sources: Sequence[str] = (), file: str = "f.yaml", **options: Any) -> ConvertedFile:
    """A text after ``lode convert``; ``plain`` has device classes by resource."""
    every = sources_with(options.pop("plain", {}))
    chosen = {name: every[name] for name in every if not sources or name in (*sources, "plain")}
    return convert_file(file, text, Conversion(chosen, Names(), bool(sources), **options), TemplateNames())


@dataclass(frozen=True)
class Given:
    """What the containers of a pod get.

    Attributes:
        devices: by container, in the words of devices.yaml.
        cards: uuids of the cards, by container.
        nodes: names of the nodes of the cards, by container.
    """

    devices: Mapping[str, list[str]] = field(default_factory=dict)
    cards: Mapping[str, list[str]] = field(default_factory=dict)
    nodes: Mapping[str, list[str]] = field(default_factory=dict)


@cache
def _published(node: str) -> Sequence[Object]:
    files, names = SystemFiles(), Names()
    profile = profile_from(yaml.safe_dump(DATA["nodes"][node]), node)
    cards = SimulatedHardware(profile, node, files, "").cards()
    offered = build_inventory(cards, Fabric(), EVERY_OFFER, 100, names)
    parts = build_slices(offered.devices, offered.counter_sets, node, names)
    return [action.object for action in plan_writes(DesiredPool(node, "uid", parts), ())]  # type: ignore[union-attr]


@cache
def _file_of(node: str) -> str:
    """The slices of a node as a file has them. To write it takes longer than all that is done with it."""
    return yaml.safe_dump_all(_published(node), explicit_start=True)


@cache
def _shipped_classes() -> Sequence[Object]:
    return device_classes()


def given(text: str, nodes: Sequence[str]) -> dict[str, Given]:
    """What ``lode simulate`` gives the pods of a text, by name; a pod that waits gets nothing."""
    slices = [part for node in nodes for part in _published(node)]
    documents = Documents()
    parse(text, "f.yaml", documents)
    parse("".join(map(_file_of, nodes)), "slices.yaml", documents)
    checked = check(documents.found, "default")
    assert not documents.faults
    assert not checked.faults
    snapshot = snapshot_of(checked.objects, Names(), _shipped_classes())
    found = {}
    pods, _ = simulate_all(snapshot)
    attributes = {
        (part["spec"]["pool"]["name"], device["name"]): device["attributes"]
        for part in slices
        for device in part["spec"].get("devices", [])
    }
    for outcome in pods:
        told = outcome.to_json()
        pod = snapshot.pods[f"{told['namespace']}/{told['name']}"]
        devices = {claim["entry"]: claim.get("devices", []) for claim in told["claims"]}
        used = {
            container["name"]: [
                device for it in container["resources"].get("claims", []) for device in devices[it["name"]]
            ]
            for container in (*pod["spec"].get("initContainers", []), *pod["spec"]["containers"])
        }
        found[told["name"]] = Given(
            {name: [_words(device, attributes) for device in has] for name, has in used.items()},
            {
                name: [attributes[it["pool"], it["device"]]["uuid"]["string"] for it in has]
                for name, has in used.items()
            },
            {name: [it["pool"].partition("/")[0] for it in has] for name, has in used.items()},
        )
    return found


def _words(device: Object, attributes: Mapping[tuple[str, str], Object]) -> str:
    facts = attributes[device["pool"], device["device"]]
    card = facts["type"]["string"]
    consumed = device.get("consumedCapacity")
    if profile := facts["profile"]["string"]:
        return f"{card} {profile}"
    if not consumed:
        return f"{card} all"
    cores = f" {consumed['cores']}c" if consumed.get("cores", "0") != "0" else ""
    return f"{card} {consumed['memory']}{cores}"


CARD = {"nvidia.com/gpu": 1}


def pod_with(limits: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"limits": limits}}
    spec = {"containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": spec}
