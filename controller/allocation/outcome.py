"""Chosen devices as what the API stores: results, configuration and nodes of each claim's allocation."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from controller.allocation.search.attempt import Pick
from controller.allocation.stock.nodes import merged
from driver.model import Allocation, Claim, NodeSelector, OpaqueConfig, Result
from driver.wire import only_node

_SHARES: Final = uuid.UUID("5f0c3fb4-6b9b-4c1c-9c3c-0d1d5b2a7e10")
"""Namespace of share ids: the same decision for the same claim gives the same ids."""


def allocation(claim: Claim, picks: Sequence[Pick], node_name: str) -> Allocation:
    """The allocation of one claim; ``timestamp`` is left to whoever writes it."""
    return Allocation(
        results=tuple(_result(claim, pick, ordinal) for ordinal, pick in enumerate(picks)),
        config=_config(claim, picks),
        nodes=_nodes(picks, node_name),
    )


def _result(claim: Claim, pick: Pick, ordinal: int) -> Result:
    want, unit, takes = pick.choice.want, pick.candidate.unit, pick.candidate.takes
    share = "" if takes is None else str(uuid.uuid5(_SHARES, f"{claim.uid}/{pick.choice.name}/{unit.id}/{ordinal}"))
    return Result(
        request=pick.choice.name,
        device=unit.id,
        share_id=share,
        consumed=takes or {},
        admin_access=want.admin_access,
        tolerations=want.tolerations,
        binding_conditions=unit.device.binding_conditions,
        binding_failure_conditions=unit.device.binding_failure_conditions,
        skip_node_operations=unit.part.skip_node_operations,
    )


def _config(claim: Claim, picks: Sequence[Pick]) -> tuple[OpaqueConfig, ...]:
    """Configuration of the classes used, then the claim's; one entry each, ``requests`` empty where all are meant."""
    chosen = {pick.choice.name: pick.choice for pick in picks}
    by_class: dict[str, list[str]] = {}
    for name, choice in chosen.items():
        by_class.setdefault(choice.device_class.name, []).append(name)
    classes: Mapping[str, Sequence[OpaqueConfig]] = {
        choice.device_class.name: choice.device_class.config for choice in chosen.values()
    }
    entries = [
        replace(entry, source="FromClass", requests=_unless_all(names, chosen))
        for name, names in by_class.items()
        for entry in classes[name]
    ]
    for entry in claim.spec.config:
        names = [name for name in chosen if _covers(entry.requests, name)]
        if names:
            requests = entry.requests if len(names) < len(chosen) else ()
            entries.append(replace(entry, source="FromClaim", requests=requests))
    return tuple(entries)


def _unless_all(names: Sequence[str], chosen: Mapping[str, object]) -> tuple[str, ...]:
    return () if len(names) == len(chosen) else tuple(names)


def _covers(requests: Sequence[str], name: str) -> bool:
    return not requests or name in requests or name.split("/")[0] in requests


def _nodes(picks: Sequence[Pick], node_name: str) -> NodeSelector | None:
    if any(pick.candidate.unit.node_local for pick in picks):
        return only_node(node_name)
    scopes = [pick.candidate.unit.scope for pick in picks]
    return merged([scope.selector for scope in scopes if scope.selector is not None])
