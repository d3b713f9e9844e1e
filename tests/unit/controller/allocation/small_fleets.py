"""Small fleets in few words."""

from collections.abc import Mapping, Sequence

from controller.allocation import CompiledRequest, Fleet, NodeReasons, UseChange
from controller.placement import Needs, NodeFacts, Nodes, PodDemand
from driver.model import (
    Allocation,
    AttributeValue,
    Capacity,
    Claim,
    ClaimSpec,
    Constraint,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    NodeScope,
    OpaqueConfig,
    Request,
    RequestPolicy,
    Slice,
    Toleration,
    Want,
)
from driver.quantity import Quantity

DRIVER = "lode.dev"
NODE = "n1"


def q(text: str) -> Quantity:
    return Quantity.parse(text)


def device(
    name: str,
    attributes: Mapping[str, AttributeValue] | None = None,
    *,
    draws: Mapping[str, int] | None = None,
    capacity: Mapping[str, str | Capacity] | None = None,
    shared: bool = False,
    **more: object,
) -> Device:
    """A device of kind ``gpu`` unless said otherwise; ``draws`` is counter ``set.counter`` to units."""
    sets: dict[str, dict[str, Quantity]] = {}
    for key, units in (draws or {}).items():
        name_of_set, counter = key.split(".")
        sets.setdefault(name_of_set, {})[counter] = Quantity.whole(units)
    return Device(
        name,
        {f"{DRIVER}/{key}": value for key, value in {"kind": "gpu", **(attributes or {})}.items()},
        {key: Capacity(q(value)) if isinstance(value, str) else value for key, value in (capacity or {}).items()},
        tuple(CounterConsumption(key, counters) for key, counters in sets.items()),
        allow_multiple=shared,
        **more,  # type: ignore[arg-type]
    )


def memory(value: str, default: str = "", *, least: str = "1Mi", step: str = "1Mi") -> Capacity:
    """A capacity with a range of requests."""
    return Capacity(q(value), RequestPolicy(q(default or value), (), q(least), q(value), q(step)))


def pool(
    *devices: Device, sets: Mapping[str, Mapping[str, int]] | None = None, node: str = NODE, driver: str = DRIVER
) -> list[Slice]:
    """One complete pool of a node: its devices, and the counter sets they draw on."""
    scope, name = NodeScope(node), f"{node}/{driver}"
    count = 2 if sets else 1
    parts = [Slice(f"{name}-0", driver, name, 1, count, scope, devices)]
    if sets:
        counters = tuple(CounterSet(s, {c: Quantity.whole(v) for c, v in cs.items()}) for s, cs in sets.items())
        parts.append(Slice(f"{name}-1", driver, name, 1, count, scope, (), counters))
    return parts


def fleet(*slices: Slice, step_limit: int = 2_000) -> Fleet:
    """A fleet with these slices and a class per kind."""
    built = Fleet(step_limit)
    for kind in ("gpu", "nic", "share", "mig"):
        built.upsert_class(DeviceClass(kind, (f'device.attributes["{DRIVER}"].kind == "{kind}"',)))
    built.upsert_class(DeviceClass("any"))
    for part in slices:
        built.ledger.upsert_slice(part)
    return built


def want(
    device_class: str = "gpu",
    *selectors: str,
    count: int = 1,
    mode: str = "ExactCount",
    admin: bool = False,
    capacity: Mapping[str, str] | None = None,
    tolerations: tuple[Toleration, ...] = (),
    name: str = "",
) -> Want:
    amounts = {key: q(value) for key, value in (capacity or {}).items()}
    return Want(device_class, name, selectors, mode, count, admin, tolerations, amounts)


def claim(
    *wants: Want | tuple[Want, ...],
    constraints: tuple[Constraint, ...] = (),
    config: tuple[OpaqueConfig, ...] = (),
    name: str = "c",
) -> Claim:
    """A claim with requests r0, r1, ...; a tuple of wants is a firstAvailable."""
    requests = tuple(
        Request(f"r{i}", one, prioritized=True) if isinstance(one, tuple) else Request(f"r{i}", (one,))
        for i, one in enumerate(wants)
    )
    return Claim("ns", name, f"uid-{name}", ClaimSpec(requests, constraints, config))


def names(answer: tuple[Allocation, ...] | NodeReasons) -> list[list[str]]:
    """The device names of each allocation."""
    assert isinstance(answer, tuple), answer.sentences
    return [[result.device.device for result in allocation.results] for allocation in answer]


def refused(answer: tuple[Allocation, ...] | NodeReasons) -> NodeReasons:
    assert isinstance(answer, NodeReasons)
    return answer


def hold(built: Fleet, *claims: Claim) -> list[Allocation]:
    """Allocate the claims one after the other and keep what they get."""
    kept = []
    for one in claims:
        answer = built.allocate(NODE, {}, [one])
        assert isinstance(answer, tuple), answer.sentences
        built.ledger.assume(one.uid, answer[0])
        kept.append(answer[0])
    return kept


# The planner, which chooses among nodes

_NO_NEEDS = Needs(requests={})


def nodes(*names: str) -> Nodes:
    """Nodes that fit every pod, as far as anything but devices is concerned."""
    made = Nodes()
    for name in names:
        made.upsert(NodeFacts(name, ready=True, allocatable={"pods": q("1000").nanos}))
    return made


def demand(claims: Sequence[Claim], *among: str) -> PodDemand:
    """A pod that needs nothing but devices; with ``among`` only on these nodes."""
    return PodDemand("ns/pod", _NO_NEEDS, tuple(claims), among or None)


def most_placed(built: Fleet, claims: Sequence[Claim], most: int = 1_000) -> Mapping[str, int]:
    """How many times the claims fit on each node, one after another, up to ``most``; only nodes that fit."""
    request = built.compile(claims)
    if not isinstance(request, CompiledRequest):
        return {}
    found = {}
    for slot in built.candidates(request):
        given: list[UseChange] = []
        count = 0
        while count < most and (answer := built.fit(slot, request, claims)) is not None:
            for one, allocation in zip(claims, answer, strict=True):
                given.append(UseChange(one.uid, allocation))
                built.ledger.apply(given[-1])
            count += 1
        for change in reversed(given):
            built.ledger.revert(change)
        if count:
            found[slot.name] = count
    return found
