"""Annotations that containers of other systems read to learn which cards they have. Pure.

MindCluster's scheduler writes ``huawei.com/Ascend910: Ascend910-0,Ascend910-1`` on a pod, and containers get it as the
value of an environment variable. Nothing here reads it: who has which card is in the claims.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from driver.adoption.chips import CHIPS
from driver.adoption.naming import ADOPTED, read_name
from driver.adoption.sources import ASCEND
from driver.adoption.turns import WHOLE, extra_entry
from driver.errors import InvalidInput

_RESOURCES: Final[Mapping[str, str]] = {f"{chip.token}n": chip.resource for chip in CHIPS}
"""By the token of the number of cards."""
_OF_INITS: Final = extra_entry(ASCEND.name, WHOLE)
_WHOLE = re.compile(r"npu-([0-9]+)")


def output_annotations(devices: Iterable[tuple[str, str, Sequence[str]]]) -> Mapping[str, str]:
    """Return the annotations of a pod; empty unless it got whole cards for a resource of Huawei's.

    Args:
        devices: for each claim of the pod, its entry in the pod, the name of its template, and the names of its
            devices. Those that only init containers use are left out.
    """
    found: dict[str, list[str]] = {}
    for entry, template, names in devices:
        resource = _resource_of(template) if entry != _OF_INITS else ""
        cards = [match[1] for name in names if (match := _WHOLE.fullmatch(name))]
        if resource and cards:
            found.setdefault(resource, []).extend(cards)
    return {
        resource: ",".join(f"{resource.partition('/')[2]}-{card}" for card in sorted(set(cards), key=int))
        for resource, cards in found.items()
    }


def _resource_of(template: str) -> str:
    """Return the one resource that the template asks for by a number of cards; "" if there is no such resource."""
    if not template.startswith(f"{ADOPTED}{ASCEND.name}."):
        return ""
    try:
        resources = [_RESOURCES[token] for token in read_name(template).amounts if token in _RESOURCES]
    except InvalidInput:
        return ""
    return resources[0] if len(resources) == 1 else ""
