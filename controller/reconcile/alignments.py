"""What the claims of a pod must have in common, for those that are about to be allocated. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controller.allocation import Values
from controller.placement import ClaimEntries, aligned, says_alignment
from controller.reconcile.decisions import Reason, Wait
from controller.reconcile.podclaims import split_by_driver
from controller.state import ClaimRecord, PodView, State
from driver.errors import InvalidInput
from driver.model import Alignment, Claim, Result


def aligned_records(state: State, pod: PodView, records: Sequence[ClaimRecord]) -> tuple[ClaimRecord, ...] | Wait:
    """Return these claims of the pod with their alignments; a wait if one names a claim that it cannot mean.

    They go into the shape: the same claims mean something else with other entries, or beside other devices.
    """
    every = claims_by_entry(state, pod)
    if not any(map(says_alignment, every.values())):
        return tuple(records)
    others = split_by_driver(state, [state.claims[claim.key] for claim in every.values()]).others
    try:
        found = alignments_among(state, every, (record.claim for record in others))
    except InvalidInput as error:
        return Wait(Reason.INVALID_PARAMETERS, str(error))
    return tuple(
        replace(
            record,
            claim=replace(record.claim, aligned=found[record.claim.uid]),
            shape=" ".join((record.shape, *map(_form, found[record.claim.uid]))),
        )
        if record.claim.uid in found
        else record
        for record in records
    )


def as_decided(state: State, pod: PodView, records: Sequence[ClaimRecord]) -> Sequence[ClaimRecord]:
    """Return these claims of the pod as they are decided: with their alignments, unless one is written wrongly."""
    found = aligned_records(state, pod, records)
    return records if isinstance(found, Wait) else found


def claims_by_entry(state: State, pod: PodView) -> Mapping[str, Claim]:
    """Return the claims of the pod that exist, each by the name of its entry in ``spec.resourceClaims``."""
    keys = {reference.entry: f"{pod.namespace}/{reference.claim}" for reference in pod.references}
    return {entry: state.claims[key].claim for entry, key in keys.items() if key in state.claims}


def alignments_among(
    state: State, by_entry: Mapping[str, Claim], others: Iterable[Claim] = ()
) -> Mapping[str, tuple[Alignment, ...]]:
    """Return the alignments of the claims of one pod, by UID (``controller.placement.aligned``).

    Args:
        others: those that kube-scheduler is to allocate.

    Raises:
        InvalidInput: one names a claim that it cannot mean.
    """

    def common(results: Sequence[Result], attribute: str) -> Values:
        return state.devices.common_values([result.device for result in results], attribute)

    return aligned(ClaimEntries(by_entry, frozenset(claim.uid for claim in others)), state.names, common)


def _form(alignment: Alignment) -> str:
    """Return the alignment as text, without what only one pod has."""
    values = None if alignment.values is None else sorted(map(repr, alignment.values))
    return repr((replace(alignment, claims=("", ""), values=None), values))
