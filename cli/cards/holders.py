"""The claims that hold a card, and the pods that use them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cli.cards.card import CardTarget
from driver.errors import SENSELESS
from driver.kube.api import Object
from driver.kube.objects import claim_name, is_terminal, object_key
from driver.names import Names


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
