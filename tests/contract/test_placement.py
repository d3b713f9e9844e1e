"""The API server stores the allocation of a claim with a PlacementConfig as the controller writes it."""

from controller.allocation import Fleet
from driver.kube.api import RESOURCE_CLAIMS, Api
from driver.model import Capacity, Device, DeviceClass, NodeScope, RequestPolicy, Slice
from driver.quantity import Quantity
from driver.wire import allocation_to, claim_from
from tests.contract.objects import claim

PLACEMENT = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "policy": "binpack", "memoryPercent": 33}


def fleet() -> Fleet:
    total, step = Quantity.parse("32510Mi"), Quantity.parse("1Mi")
    memory = Capacity(total, RequestPolicy(total, (), step, total, step))
    card = Device("gpu-0-share", {}, {"memory": memory}, allow_multiple=True)
    built = Fleet()
    built.upsert_class(DeviceClass("gpu.lode.dev"))
    built.ledger.upsert_slice(Slice("s", "lode.dev", "node-1/lode.dev", 1, 1, NodeScope("node-1"), (card,)))
    return built


def test_memory_percent_is_stored_as_consumed_capacity(api: Api, namespace: str) -> None:
    wanted = claim("c", namespace)
    wanted["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": PLACEMENT}}]
    created = api.create(RESOURCE_CLAIMS, wanted)
    answer = fleet().allocate("node-1", {}, [claim_from(created)])
    assert isinstance(answer, tuple)
    written = {**allocation_to(answer[0]), "allocationTimestamp": "2027-01-15T08:00:00Z"}
    api.update(RESOURCE_CLAIMS, {**created, "status": {"allocation": written}}, "status")
    stored = api.get(RESOURCE_CLAIMS, "c", namespace)
    (result,) = stored["status"]["allocation"]["devices"]["results"]
    assert result["consumedCapacity"] == {"memory": "10729Mi"}
    assert stored["status"]["allocation"]["devices"]["config"][0]["opaque"]["parameters"] == PLACEMENT
    again = claim_from(stored).allocation
    assert again is not None
    assert again.results == answer[0].results
