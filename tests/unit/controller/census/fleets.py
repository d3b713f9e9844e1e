"""Small fleets for tests of what monitoring is shown."""

from collections.abc import Mapping, Sequence
from typing import Any

from controller.allocation import Fleet
from controller.census import Snapshot
from controller.census.snapshot import Holdings
from driver.kube.api import Object
from driver.names import Names
from driver.wire import claim_from, slice_from

NAMES = Names()
GIB = 2**30


def card(name: str, kind: str = "gpu", memory: str = "80Gi", *, index: int = 0, **more: Any) -> Object:
    """A device that is a card, or a part of one."""
    own = {"kind": kind, "type": "h100", "vendor": "nvidia", "model": "H100", "ibCluster": "a"}
    texts = {**own, "uuid": f"uuid-{name.removesuffix('-share')}", **more}
    share = kind.endswith("-share")
    cores = {"value": "100"}
    return {
        "name": name,
        "attributes": {"index": {"int": index}, **{key: {"string": value} for key, value in texts.items()}},
        "capacity": {"memory": {"value": memory}, "cores": cores, **({"slots": {"value": "10"}} if share else {})},
        **({"allowMultipleAllocations": True} if share else {}),
    }


def pool(node: str, devices: Sequence[Object], **spec: Any) -> Object:
    """The slice of a node."""
    named = {"name": NAMES.pool(node), "generation": 1, "resourceSliceCount": 1}
    body = {"driver": NAMES.driver, "nodeName": node, "pool": named, "devices": [*devices], **spec}
    return {"metadata": {"name": f"{node}-{NAMES.driver}"}, "spec": body}


def claim(
    name: str, node: str, *devices: str, namespace: str = "team", pods: Sequence[str] = ("pod",), **consumed: str
) -> Object:
    """A claim that holds these devices of the node; shares of so much if it says how much."""
    place = {"request": "cards", "driver": NAMES.driver, "pool": NAMES.pool(node)}
    share = {"shareID": f"share-of-{name}", "consumedCapacity": consumed} if consumed else {}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    allocation = {
        "devices": {"results": [{**place, "device": device, **share} for device in devices]},
        "nodeSelector": {"nodeSelectorTerms": terms},
    }
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": "1"},
        "spec": {"devices": {"requests": [{"name": "cards", "exactly": {"deviceClassName": "cards"}}]}},
        "status": {
            "allocation": allocation,
            "reservedFor": [{"resource": "pods", "name": pod, "uid": pod} for pod in pods],
        },
    }


class SmallFleet:
    """Slices and claims, each taken in at a time that the test says."""

    def __init__(self, *slices: Object):
        self.fleet = Fleet(names=NAMES)
        self.holdings = Holdings(NAMES, self.fleet.ledger.published_and_part)
        for part in slices:
            self.publish(part)

    def publish(self, part: Object) -> None:
        self.fleet.ledger.upsert_slice(slice_from(part))

    def put(self, raw: Object, now: float = 0.0) -> None:
        found = claim_from(raw)
        self.fleet.ledger.upsert_claim(found)
        self.holdings.update(found.key, found, now)

    def remove(self, key: str, now: float = 0.0) -> None:
        self.holdings.update(key, None, now)

    def snapshot(self, now: float = 0.0, **more: Any) -> Snapshot:
        pools = self.fleet.ledger.published_pools(NAMES.driver)
        known: Mapping[str, Any] = {"open": {one.node for one in pools}, **more}
        return Snapshot(
            pools=pools, holdings=self.holdings.copy(), card_seconds=self.holdings.seconds.totals(now), **known
        )
