"""One node with simulated cards, an API in memory and files that survive the programs, for tests of preparing."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from driver.files import Files
from driver.kinds import EVERY_OFFER
from driver.kube.api import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, Api, Object
from driver.names import Names
from driver.observe import Metrics, logger
from driver.settings import Settings
from kubeletplugin.hardware import Hardware, HardwarePorts
from kubeletplugin.hardware.simulated import MemoryStore, Profile, SimulatedHardware, load_profile
from kubeletplugin.inventory import Fabric, Restrictions, build_inventory
from kubeletplugin.kubelet_devices import KubeletClaim
from kubeletplugin.node_context import NodeContext
from kubeletplugin.offers import CardOffer
from kubeletplugin.prepare import ClaimRef, DeviceStatusWriter, PrepareError, Preparer, PrepareResult
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles

NODE = "node-a"
POOL = "node-a/lode.dev"
DRIVER = "lode.dev"
CDI = "/var/run/cdi"
PLUGIN = "/var/lib/kubelet/plugins/lode.dev"
METADATA = f"{PLUGIN}/dra-device-metadata"
CHECKPOINT = f"{PLUGIN}/checkpoint.json"
SHARE_A, SHARE_B = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
UNKNOWN = ClaimRef("team", "nowhere", "11111111-2222-4333-8444-555555555555")
"""A claim that the API does not have."""

Result = dict[str, Any]


def result(device: str, request: str = "gpu", driver: str = DRIVER, pool: str = POOL, **more: Any) -> Result:
    return {"request": request, "driver": driver, "pool": pool, "device": device, **more}


def share(device: str, share_id: str, memory: str = "4Gi", cores: str = "0", request: str = "gpu") -> Result:
    consumed = {"memory": memory, "cores": cores, "slots": "1"}
    return result(device, request, shareID=share_id, consumedCapacity=consumed)


def opaque(*requests: str, **parameters: Any) -> dict[str, Any]:
    """An entry of an allocation's config, for these requests; for all if none is named."""
    content = {"apiVersion": "lode.dev/v1alpha1", **parameters}
    return {"source": "FromClaim", "requests": list(requests), "opaque": {"driver": DRIVER, "parameters": content}}


def allocatable(offers: Sequence[CardOffer]) -> Mapping[str, set[str]]:
    """The devices of each card that can be allocated while no claim has any of them, by the card's name."""
    now = Restrictions(
        withheld={offer.card.name: tuple(offer.withheld) for offer in offers},
        taken={offer.card.name: offer.taken for offer in offers},
    )
    cards = [offer.card for offer in offers]
    found: dict[str, set[str]] = {card.name: set() for card in cards}
    for item in build_inventory(cards, Fabric(), EVERY_OFFER, 10, Names(), restrictions=now).allocatable:
        found[item.card.name].add(item.device.name)
    return found


@cache
def _profile(name: str) -> Profile:
    if name == "a100x2":
        return Profile(load_profile("a100x4", MemoryFiles()).cards[:2])
    if name != "t4x4":
        return load_profile(name, MemoryFiles())
    two = load_profile("t4x2", MemoryFiles()).cards
    return Profile((*two, *(replace(card, index=card.index + 2) for card in two)))


class Clock(VirtualClock):
    """Runs ``slept`` after each sleep: what others do meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: Callable[[float], object] = lambda _: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept(seconds)


class PluginNode:
    """What outlives a plugin: the API, the files and the clock. ``plugin()`` starts a new instance on them."""

    def __init__(self, profile: str = "a100x4"):
        self.clock = Clock()
        self.api = MemoryApi(self.clock)
        self.files = MemoryFiles()
        self.boot_id = "boot-1"
        self.settings = Settings()
        self.profile = _profile(profile)
        self.store = MemoryStore()
        self.hardware: Hardware = SimulatedHardware(self.profile, NODE, store=self.store)
        self.api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        labels = {"lode.dev/ib-cluster": "fabric-1", "lode.dev/ib-leaf": "leaf-7"}
        self.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}})

    def plugin(
        self,
        api: Api | None = None,
        files: Files | None = None,
        hardware: Hardware | None = None,
        kubelet: Callable[[], Collection[KubeletClaim]] = lambda: (),
        device_status: DeviceStatusWriter | None = None,
    ) -> Preparer:
        node = self.context(api, files, hardware)
        return Preparer(node, Metrics(), kubelet_claims=kubelet, device_status=device_status)

    def context(
        self, api: Api | None = None, files: Files | None = None, hardware: Hardware | None = None
    ) -> NodeContext:
        """What the parts of a plugin share."""
        cards = hardware or self.hardware
        return NodeContext(
            name=NODE,
            settings=self.settings,
            boot_id=self.boot_id,
            api=api or self.api,
            clock=self.clock,
            files=files or self.files,
            hardware=HardwarePorts(cards, cards),
            log=logger("test"),
        )

    def claim(
        self,
        name: str,
        results: Sequence[Result],
        config: Sequence[Mapping[str, Any]] = (),
        annotations: Mapping[str, str] | None = None,
    ) -> ClaimRef:
        """An allocated claim."""
        mains: dict[str, list[str]] = {}
        for item in results:
            main, _, sub = item["request"].partition("/")
            mains.setdefault(main, []).append(sub)
        made = self.api.create(
            RESOURCE_CLAIMS,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "team", "annotations": dict(annotations or {})},
                "spec": {"devices": {"requests": [_request(main, subs) for main, subs in mains.items()]}},
            },
            "team",
        )
        self.allocate(made, results, config)
        return ClaimRef("team", name, made["metadata"]["uid"])

    def allocate(self, claim: Object, results: Sequence[Result], config: Sequence[Mapping[str, Any]] = ()) -> None:
        devices = {"results": list(results), **({"config": list(config)} if config else {})}
        claim["status"] = {"allocation": {"devices": devices, "allocationTimestamp": "2027-01-15T08:00:00Z"}}
        self.api.update(RESOURCE_CLAIMS, claim, "status")

    def release(self, ref: ClaimRef) -> None:
        """Delete the claim."""
        self.api.delete(RESOURCE_CLAIMS, ref.name, ref.namespace)

    def pod(self, name: str, phase: str = "Running") -> Object:
        containers = [{"name": "main", "image": "busybox"}]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"nodeName": NODE, "containers": containers},
        }
        made = self.api.create(PODS, pod, "team")
        state = {"running": {}} if phase == "Running" else {"waiting": {"reason": "ContainerCreating"}}
        return self.report(made, phase, state)

    def report(self, pod: Object, phase: str, state: Mapping[str, Any], reason: str = "") -> Object:
        """The kubelet reports the phase of a pod and the state of its container."""
        container = {"name": "main", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0}
        pod["status"] = {"phase": phase, "reason": reason, "containerStatuses": [{**container, "state": state}]}
        return self.api.update(PODS, pod, "status")

    def reserve(self, ref: ClaimRef, pods: Sequence[Object]) -> None:
        claim = self.api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        claim["status"]["reservedFor"] = [
            {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods
        ]
        self.api.update(RESOURCE_CLAIMS, claim, "status")

    def allow_admin_access(self) -> None:
        self.api.patch(NAMESPACES, "team", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})

    def reboot(self) -> None:
        self.boot_id += "+"
        self.store.save(self.store.load().rebooted())
        self.files.disk.forget("/var/run")

    def existing(self) -> list[str]:
        """What exists on the cards: the keys, without the uuids of the cards."""
        names = {card.uuid: card.name for card in SimulatedHardware(self.profile, NODE).cards()}
        existing = self.store.load().existing.values()
        return sorted(action.key.replace(action.card, names[action.card]) for action, _ in existing)

    def unfinished_files(self) -> list[str]:
        """What killed writers left on the node."""
        return [name for folder in (CDI, PLUGIN, METADATA) for name in self.files.unfinished(folder)]

    def damaged_checkpoints(self) -> list[str]:
        """Copies of checkpoints that could not be read."""
        return [name for name in self.files.names(PLUGIN) if ".corrupt-" in name]

    def claim_files(self) -> set[str]:
        """Every file of a claim on the node: CDI specs and metadata."""
        return {f"{folder}/{name}" for folder in (CDI, METADATA) for name in self.files.names(folder)}

    def spec(self, ref: ClaimRef) -> dict[str, Any]:
        content = self.files.read(f"{CDI}/lode.dev-claim_{ref.uid}.json")
        assert content is not None, "no CDI spec"
        return dict(json.loads(content))


def _request(main: str, subs: Sequence[str]) -> dict[str, Any]:
    if not any(subs):
        return {"name": main, "exactly": {"deviceClassName": "gpu.lode.dev", "count": len(subs)}}
    return {"name": main, "firstAvailable": [{"name": sub, "deviceClassName": "gpu.lode.dev"} for sub in set(subs)]}


def prepare(plugin: Preparer, ref: ClaimRef) -> PrepareResult:
    """The answer, which must be a success."""
    answer = plugin.prepare([ref])[ref.uid]
    assert isinstance(answer, PrepareResult), answer
    return answer


def unprepare(plugin: Preparer, *refs: ClaimRef) -> None:
    """The kubelet's call, which must succeed."""
    assert plugin.unprepare(refs) == {ref.uid: None for ref in refs}


def release(rig: PluginNode, plugin: Preparer, seconds: float = 600) -> None:
    """What the plugin does by itself in this time: it releases what claims had that were given up."""
    until = rig.clock.monotonic() + seconds
    while rig.clock.monotonic() < until:
        if not plugin.retiring.step():
            rig.clock.advance(max(0.1, plugin.retiring.next_due() - rig.clock.monotonic()))


def recover(plugin: Preparer) -> None:
    """What a starting plugin does, before it serves and after."""
    plugin.tidy()
    plugin.restore()


def refused(plugin: Preparer, ref: ClaimRef) -> PrepareError:
    """The answer, which must be an error."""
    answer = plugin.prepare([ref])[ref.uid]
    assert isinstance(answer, PrepareError), answer
    return answer
