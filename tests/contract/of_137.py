"""Objects that Kubernetes 1.37 takes and 1.38 refuses: the field that is named, and the object. All do no harm."""

from typing import Any, Final

from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Object, Resource
from tests.contract.objects import allocation, resource_slice

LONG_VERSION: Final = "1.0.1000000000000000000"
"""Its last number has 19 digits, and fits into 64 bits."""
TWO_SLASHES: Final = "gpu.example/old/memory"
TERM: Final = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def device(name: str = "gpu-0", **fields: Any) -> Object:
    return {"name": name, **fields}


def on_nodes(*terms: Object) -> Object:
    """A slice whose only device is where the terms say."""
    selected = device(nodeSelector={"nodeSelectorTerms": [*terms]})
    return resource_slice("s", selected, nodeName=None, perDeviceNodeSelection=True)


def asking(*, constraint: str = "", **amounts: str) -> Object:
    """The spec of a claim that asks for these amounts."""
    wanted = {"deviceClassName": "x.example", "capacity": {"requests": amounts}}
    constraints = [{"matchAttribute": constraint}] if constraint else []
    return {"devices": {"requests": [{"name": "gpu", "exactly": wanted}], "constraints": constraints}}


def alternative(**amounts: str) -> Object:
    """The same as an alternative."""
    wanted = {"name": "a", "deviceClassName": "x.example", "capacity": {"requests": amounts}}
    return {"devices": {"requests": [{"name": "gpu", "firstAvailable": [wanted]}]}}


MANY: Final = {f"c{i}": "1" for i in range(33)}
CLAIM_SPECS: Final[tuple[tuple[str, Object], ...]] = (
    ("exactly.capacity.requests", asking(**MANY)),
    ("exactly.capacity.requests", asking(**{"not-a-name": "1"})),
    ("exactly.capacity.requests", asking(**{"not a driver/memory": "1"})),
    ("exactly.capacity.requests", asking(**{TWO_SLASHES: "1"})),
    (r"firstAvailable\[0\].capacity.requests", alternative(**MANY)),
    (r"firstAvailable\[0\].capacity.requests", alternative(**{"not-a-name": "1"})),
    ("matchAttribute", asking(constraint=TWO_SLASHES)),
)
SLICES: Final[tuple[tuple[str, Object], ...]] = (
    ("attributes", resource_slice("s", device(attributes={TWO_SLASHES: {"int": 1}}))),
    ("capacity", resource_slice("s", device(capacity={TWO_SLASHES: {"value": "1"}}))),
    ("version", resource_slice("s", device(attributes={"a": {"version": LONG_VERSION}}))),
    ("version", resource_slice("s", device(attributes={"a": {"version": f"1.0.0-{'1' * 19}"}}))),
    ("nodeSelectorTerms", on_nodes(TERM, TERM)),
)
OBJECTS: Final[tuple[tuple[str, Resource, Object], ...]] = (
    *((field, RESOURCE_CLAIMS, {"metadata": {}, "spec": spec}) for field, spec in CLAIM_SPECS),
    *((field, RESOURCE_CLAIM_TEMPLATES, {"metadata": {}, "spec": {"spec": spec}}) for field, spec in CLAIM_SPECS),
    *((field, RESOURCE_SLICES, part) for field, part in SLICES),
)


def consuming(**amounts: str) -> Object:
    """An allocation that consumes these amounts."""
    allocated = allocation()
    allocated["devices"]["results"][0]["consumedCapacity"] = amounts
    return allocated
