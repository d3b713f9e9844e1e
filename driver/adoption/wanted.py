"""What a request of another system, or a word of a name, wants of this driver, as ``spec`` of a template. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from driver.names import Names

Json = dict[str, Any]

LOCALITY: Final = {"policy": "binpack", "locality": "preferred"}
"""A ``PlacementConfig`` that keeps the cards of a claim close together, and partitions small."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request of a claim.

    Attributes:
        name: of the request.
        kind: of device, which is the first part of the class: ``gpu-share``.
        selectors: CEL conditions. ``{}`` stands for the attributes of the driver, ``{capacity}`` for its capacities.
        capacity: amounts as quantities, by name.
        alternatives: further conditions of which the first that can be met counts, by the name of the subrequest.
        counts: how many devices an alternative is of, if not ``count``.
        sharing: how a card is shared; "" if nothing is said.
        placement: fields of a ``PlacementConfig``.
    """

    name: str
    kind: str
    count: int = 1
    selectors: Sequence[str] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    alternatives: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    sharing: str = ""
    placement: Mapping[str, object] = field(default_factory=dict)


def trimmed(text: str) -> list[str]:
    """Return the entries of a list that are not empty, without blanks around them."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def listed(texts: Iterable[str]) -> str:
    """Return a list in CEL of texts of a name, which have neither quotes nor backslashes."""
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


def spec_of(wanted: Sequence[Wanted], names: Names, matching: Sequence[str] = ()) -> Json:
    """Return the ``spec`` of a ResourceClaimTemplate.

    Args:
        matching: qualified attributes in which all devices of the claim agree.
    """
    shares = [one.name for one in wanted if one.kind.endswith("-share") and one.count > 1]
    constraints: list[Json] = [{"requests": [name], "distinctAttribute": names.attribute("uuid")} for name in shares]
    constraints += [{"matchAttribute": attribute} for attribute in matching]
    config = [entry for one in wanted for entry in _config(one, names)]
    devices: Json = {"requests": [_request(one, names) for one in wanted]}
    devices |= {"constraints": constraints} if constraints else {}
    devices |= {"config": config} if config else {}
    return {"spec": {"devices": devices}}


def _request(one: Wanted, names: Names) -> Json:
    if not one.alternatives:
        return {"name": one.name, "exactly": _exactly(one, one.count, one.selectors, names)}
    choices = [
        {"name": name, **_exactly(one, one.counts.get(name, one.count), (*one.selectors, condition), names)}
        for name, condition in one.alternatives.items()
    ]
    return {"name": one.name, "firstAvailable": choices}


def _exactly(one: Wanted, count: int, selectors: Sequence[str], names: Names) -> Json:
    attributes = f'device.attributes["{names.driver}"]'
    found: Json = {"deviceClassName": f"{one.kind}.{names.driver}"}
    found |= {"count": count} if count > 1 else {}
    capacities = f'device.capacity["{names.driver}"]'
    texts = [it.replace("{}", attributes).replace("{capacity}", capacities) for it in selectors]
    cel = [{"cel": {"expression": text}} for text in texts]
    found |= {"selectors": cel} if cel else {}
    found |= {"capacity": {"requests": dict(one.capacity)}} if one.capacity else {}
    return found


def _config(one: Wanted, names: Names) -> list[Json]:
    kinds: list[Json] = []
    if one.sharing:
        kinds.append({"kind": "GpuConfig", "sharing": one.sharing})
    if one.placement:
        kinds.append({"kind": "PlacementConfig", **one.placement})
    return [
        {
            "requests": [one.name],
            "opaque": {
                "driver": names.driver,
                "parameters": {"apiVersion": names.parameters_api_version, **parameters},
            },
        }
        for parameters in kinds
    ]
