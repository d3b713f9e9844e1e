"""The cards of a node, found in its slices by name, index or uuid; the claims that hold one, and their pods. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from driver.device_facts import card_of
from driver.errors import SENSELESS, OperatorFault
from driver.kube.api import Object
from driver.kube.objects import claim_name, is_terminal, object_key
from driver.model import Device, Slice, Taint
from driver.names import Names
from driver.wire import slice_from

_MOST_NAMED: Final = 20
"""Candidates that a message names."""


@dataclass(frozen=True, slots=True)
class PublishedCard:
    """A card of a node, as its devices tell.

    Attributes:
        devices: the names of its devices, in the order of the slices, with the taints that each has there.
    """

    node: str
    name: str
    index: int = -1
    uuid: str = ""
    vendor: str = ""
    type: str = ""
    devices: Mapping[str, tuple[Taint, ...]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``node/card``."""
        return f"{self.node}/{self.name}"

    @property
    def shared_name(self) -> str:
        """The name of the device of its shares."""
        return f"{self.name}-share"

    def has(self, device: str) -> bool:
        """Return whether a device of that name is part of the card, whether it is published or not."""
        return card_of(device) == self.name

    def __str__(self) -> str:
        facts = ", ".join(part for part in (self.type, self.uuid) if part)
        return f"{self.name} ({facts})" if facts else self.name


@dataclass(frozen=True, slots=True)
class CardTarget:
    """What a command is about: a card, or all cards of a node.

    Attributes:
        card: None for all cards of the node.
        cards: the cards, as far as the node publishes them.
    """

    node: str
    card: PublishedCard | None
    cards: tuple[PublishedCard, ...]

    def has(self, device: str) -> bool:
        """Return whether a device of the node's pool, by its name, is meant."""
        return self.card is None or self.card.has(device)

    def __str__(self) -> str:
        return f"card {self.card.key}" if self.card else f"all cards of node {self.node}"


def parse(what: str) -> tuple[str, str]:
    """Return node and card of ``NODE[/CARD]``; the card is "" for all of them.

    Raises:
        OperatorFault: the text names none.
    """
    node, slash, card = what.removeprefix("node/").partition("/")
    if not node or (slash and not card):
        raise OperatorFault(f"{what!r} names no card; write NODE/CARD, such as node-1/gpu-3, or NODE for all its cards")
    return node, card


def cards_of(node: str, slices: Iterable[Object], names: Names) -> tuple[PublishedCard, ...]:
    """Return the cards that the node publishes.

    Only the newest generation counts, once all of its slices are there. Until then, the old slices that are left do as
    well: the plugin is publishing the cards anew, one slice after the other. A slice that cannot be decoded has no
    cards.
    """
    parts = [part for raw in slices if (part := _decoded(raw)) and _is_of(part, node, names)]
    parts.sort(key=lambda part: (-part.generation, part.name))
    newest = [part for part in parts if part.generation == parts[0].generation]
    devices: dict[str, dict[str, Device]] = {}
    for part in newest if newest and len(newest) >= newest[0].slice_count else parts:
        for device in part.devices:
            devices.setdefault(card_of(device.name), {}).setdefault(device.name, device)
    return tuple(_card(node, name, found, names) for name, found in sorted(devices.items(), key=_by_number))


def find(node: str, wanted: str, cards: Sequence[PublishedCard]) -> PublishedCard:
    """Return the card of the node that is named: by a device, its index, its uuid, or the beginning of the uuid.

    Raises:
        OperatorFault: none is, or several are; the message has the candidates.
    """
    exact = [card for card in cards if wanted in card.devices or wanted == card.name]
    found = exact or [card for card in cards if _is_meant(card, wanted)]
    if len(found) == 1:
        return found[0]
    some = ", ".join(map(str, (found or cards)[:_MOST_NAMED])) or "none"
    if found:
        raise OperatorFault(f"{wanted!r} names several cards of node {node}: {some}; write more of it, or a name")
    raise OperatorFault(f"node {node} has no card {wanted!r}; its cards: {some}")


def _is_meant(card: PublishedCard, wanted: str) -> bool:
    if wanted.isdecimal():
        return card.index == int(wanted)
    return bool(card.uuid) and card.uuid.lower().startswith(wanted.lower())


def _is_of(part: Slice, node: str, names: Names) -> bool:
    return (part.driver, part.pool) == (names.driver, names.pool(node))


def _decoded(raw: Object) -> Slice | None:
    try:
        return slice_from(raw)
    except SENSELESS:
        return None


def _card(node: str, name: str, devices: Mapping[str, Device], names: Names) -> PublishedCard:
    attributes = next(iter(devices.values())).attributes

    def text(attribute: str) -> str:
        value = attributes.get(names.attribute(attribute))
        return value if isinstance(value, str) else ""

    index = attributes.get(names.attribute("index"))
    return PublishedCard(
        node=node,
        name=name,
        index=index if isinstance(index, int) else -1,
        uuid=text("uuid"),
        vendor=text("vendor"),
        type=text("type"),
        devices={device: found.taints for device, found in devices.items()},
    )


def _by_number(named: tuple[str, object]) -> tuple[str, int, str]:
    unit, _, number = named[0].partition("-")
    return unit, int(number) if number.isdecimal() else -1, named[0]


@dataclass(frozen=True, slots=True)
class CardHolder:
    """A claim with devices of a card.

    Attributes:
        key: ``namespace/name`` of the claim.
        devices: ``node/device``, sorted.
        admin_access: whether it only looks at the card, which others can have meanwhile.
        users: ``status.reservedFor``, as ``pods/train``.
    """

    key: str
    uid: str
    devices: tuple[str, ...]
    admin_access: bool
    users: tuple[str, ...]

    @property
    def namespace(self) -> str:
        """The namespace of the claim."""
        return self.key.partition("/")[0]

    def __str__(self) -> str:
        used = f", used by {', '.join(self.users)}" if self.users else ", which no pod uses"
        return f"claim {self.key} ({', '.join(self.devices)}){used}"


def holders(claims: Iterable[Object], target: CardTarget, names: Names) -> list[CardHolder]:
    """Return the claims that have a device of the target, sorted by key."""
    found = [holder for claim in claims if (holder := _holder(claim, target, names))]
    return sorted(found, key=lambda holder: holder.key)


def pods_using(holder: CardHolder, pods: Iterable[Object]) -> list[Object]:
    """Return the pods of the holder's namespace that refer to the claim and have not ended, sorted by name."""
    found = [pod for pod in pods if not is_terminal(pod) and _refers(pod, holder)]
    return sorted(found, key=object_key)


def is_at_gate(pod: Object, names: Names) -> bool:
    """Return whether the controller has not let the pod go: it uses no device of its claims yet."""
    gates = pod["spec"].get("schedulingGates")
    return any(isinstance(gate, dict) and gate.get("name") == names.gate for gate in gates or ())


def _refers(pod: Object, holder: CardHolder) -> bool:
    namespace, _, name = holder.key.partition("/")
    try:
        if pod["metadata"]["namespace"] != namespace:
            return False
        return any(claim_name(pod, entry) == name for entry in pod["spec"].get("resourceClaims") or ())
    except SENSELESS:
        return False


def _holder(claim: Object, target: CardTarget, names: Names) -> CardHolder | None:
    try:
        status, metadata = claim.get("status") or {}, claim["metadata"]
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
        own = [result for result in results if _is_on(result, target, names)]
        if not own:
            return None
        return CardHolder(
            key=object_key(claim),
            uid=metadata.get("uid") or "",
            devices=tuple(sorted({f"{target.node}/{result['device']}" for result in own})),
            admin_access=all(result.get("adminAccess") for result in own),
            users=tuple(f"{user['resource']}/{user['name']}" for user in status.get("reservedFor") or ()),
        )
    except SENSELESS:
        return None


def _is_on(result: Any, target: CardTarget, names: Names) -> bool:
    in_pool = (result["driver"], result["pool"]) == (names.driver, names.pool(target.node))
    return in_pool and target.has(result["device"])
