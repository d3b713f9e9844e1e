"""What the claims of a pod must have in common (``alignWith`` of a ``PlacementConfig``). Pure.

A claim names another one by its entry in the pod, so the same template means another claim in each pod. Here the names
become UIDs: both claims get the alignment, and are decided together. A claim that is allocated already has its devices;
then only the other one gets the alignment, with what these devices have in common.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from controller.allocation import Values
from driver.errors import Fault, InvalidInput
from driver.model import Alignment, Claim, OpaqueConfig, Result
from driver.names import Names
from driver.parameters import AlignmentConfig, PlacementConfig, main_request, parameters_of

_FIELD = "alignWith"

Common = Callable[[Sequence[Result], str], Values]
"""What the devices of results have in common of an attribute."""


class ClaimEntries(NamedTuple):
    """The claims of a pod.

    Attributes:
        by_entry: each by the name of its entry in ``spec.resourceClaims``. A claim may have several.
        others: UIDs of those that kube-scheduler is to allocate.
    """

    by_entry: Mapping[str, Claim]
    others: frozenset[str] = frozenset()


def aligned(pod: ClaimEntries, names: Names, common: Common) -> Mapping[str, tuple[Alignment, ...]]:
    """The alignments of each claim of the pod that has some and is not allocated, by UID.

    Raises:
        InvalidInput: an alignment names no claim that it could mean; with all faults of one claim. Its author must act.
    """
    found: dict[str, dict[Alignment, None]] = {}
    for entry, claim in pod.by_entry.items():
        faults: list[Fault] = []
        for number, config in enumerate(claim.spec.config):
            if _FIELD not in config.parameters or not names.reads_parameters_of(config.driver):
                continue
            asked = _asked(config, names)
            if asked is None:
                continue
            where = f"spec.devices.config[{number}].opaque.parameters.{_FIELD}.claim"
            other = pod.by_entry.get(asked.claim)
            if fault := _fault(asked.claim, claim, other, pod):
                faults += [Fault(where, fault)]
            elif other is not None:
                for one, alignment in _both(entry, claim, other, (asked, config.requests), common):
                    found.setdefault(one.uid, {})[alignment] = None
        if faults:
            raise InvalidInput(f"ResourceClaim {claim.key}", faults)
    return {uid: tuple(alignments) for uid, alignments in found.items()}


def says_alignment(claim: Claim) -> bool:
    """Whether the claim's parameters may say an alignment."""
    return any(_FIELD in config.parameters for config in claim.spec.config)


def insistent(claims: Sequence[Claim]) -> tuple[Claim, ...] | None:
    """The claims as if all that they prefer was required; None if they prefer nothing."""
    if not any(one.preferred for claim in claims for one in claim.aligned):
        return None
    return tuple(
        replace(claim, aligned=tuple(replace(one, preferred=False) for one in claim.aligned)) for claim in claims
    )


def _asked(config: OpaqueConfig, names: Names) -> AlignmentConfig | None:
    """What the parameters ask for; None if they are faulty, which the pod is told anyway."""
    try:
        [found] = parameters_of([config], names, "", kind=PlacementConfig.__name__)
    except (InvalidInput, ValueError):
        return None
    return found.parameters.align_with if isinstance(found.parameters, PlacementConfig) else None


def _fault(name: str, claim: Claim, other: Claim | None, pod: ClaimEntries) -> str:
    """Why the claim cannot be aligned with the one of this entry, and what to write; "" if it can."""
    if other is None:
        entries = [entry for entry, one in pod.by_entry.items() if one.uid != claim.uid]
        remedy = f"name one of {', '.join(entries)}" if entries else "add the claim, or remove alignWith"
        return f"the pod has no entry {name!r} in spec.resourceClaims: {remedy}"
    if other.uid == claim.uid:
        return f"{name!r} is the claim itself: name another one of the pod, or use matchAttribute in its constraints"
    if claim.uid in pod.others or other.uid in pod.others:
        which = "it is" if claim.uid in pod.others else f"claim {name!r} ({other.key}) is"
        return (
            f"{which} allocated by kube-scheduler, which knows nothing of alignWith: have the operator of this cluster "
            "name its driver in the setting controller.alsoAllocates"
        )
    return ""


def _both(
    entry: str, claim: Claim, other: Claim, asked: tuple[AlignmentConfig, tuple[str, ...]], common: Common
) -> Sequence[tuple[Claim, Alignment]]:
    """The alignment of each of the two claims that is not allocated."""
    config, requests = asked
    alignment = Alignment(
        config.attribute,
        claims=(claim.uid, other.uid),
        entries=(entry, config.claim),
        requests=requests,
        preferred=config.mode == "preferred",
    )
    if claim.allocation is None and other.allocation is None:
        return (claim, alignment), (other, alignment)
    if claim.allocation is not None and other.allocation is not None:
        return ()
    holder, name, free = (claim, entry, other) if claim.allocation is not None else (other, config.claim, claim)
    results = holder.allocation.results if holder.allocation else ()
    if holder is claim and requests:
        results = tuple(one for one in results if {one.request, main_request(one.request)} & {*requests})
    return ((free, replace(alignment, holder=name, values=common(results, config.attribute))),)
