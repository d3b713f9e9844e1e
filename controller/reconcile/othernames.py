"""What a text on an object says of objects in other namespaces: how many they are, and no name. Pure.

Whoever may read a pod need not be allowed to list the pods and claims of other namespaces. The log has all names.
"""

from collections.abc import Collection, Sequence
from typing import Final

from controller.state import State
from driver.model import Claim

_MOST_HOLDERS: Final = 3


def named_within(keys: Sequence[str], namespaces: Collection[str], noun: str) -> tuple[str, ...]:
    """Return the keys (``namespace/name``) of these namespaces, and at the end how many others there are.

    Args:
        keys: words may stand before each, as in the name under which devices count that are kept for a claim.
        noun: what they are, in the singular: "pod".
    """
    own = tuple(key for key in keys if key.partition("/")[0].rpartition(" ")[2] in namespaces)
    match len(keys) - len(own):
        case 0:
            return own
        case 1:
            return (*own, f"a {noun} in another namespace")
        case count:
            return (*own, f"{count} {noun}s in other namespaces")


def in_use(state: State, claims: Sequence[Claim], namespace: str) -> str:
    """Return how many matching devices are in use, and by which claims of the namespace; "" if none is."""
    matching, used, holders = state.devices.in_use(claims)
    if not used:
        return ""
    named = named_within(holders, {namespace}, "claim")
    own = [key for key in named if key.startswith(f"{namespace}/")]
    shown = [*own[:_MOST_HOLDERS], *([f"{len(own) - _MOST_HOLDERS} more"] if len(own) > _MOST_HOLDERS else [])]
    text = ", ".join([*shown, *named[len(own) :]])
    return f"; {used} of {matching} such {'devices are' if matching > 1 else 'device is'} in use, by {text}"
