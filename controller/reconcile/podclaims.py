"""The claims of a pod: which are ours to allocate, their faults, and what they must have in common. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from controller.allocation import Drivers, TurnEnded
from controller.reconcile.decisions import Reason, Wait
from controller.state import ClaimRecord, PodView, State
from controller.state.claims import is_made_for
from controller.state.pods import ClaimReference
from controller.state.templates import template_from
from driver.adoption import is_on_demand, template_spec
from driver.cel import suggest
from driver.errors import Fault, InvalidInput
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES
from driver.kube.objects import unnameable_claim
from driver.limits import MAX_CLAIM_BYTES, listed
from driver.model import Alignment, Claim, OpaqueConfig, Want
from driver.names import Names
from driver.parameters import AlignmentConfig, PlacementConfig, main_request, parameters_of

GENERATION_SECONDS = 5.0
"""Time that the resource-claim-controller may take to create a claim from its template before the wait is reported."""
EVALUATION_PAUSE_SECONDS = 0.5
"""Time that others are served before the selectors of a pod's claims are evaluated further."""
_ALIGN_WITH = "alignWith"
"""The field of a ``PlacementConfig`` that says what claims must have in common."""


def claims_of(state: State, pod: PodView, now: float) -> tuple[list[ClaimRecord], list[Wait]]:
    """Return the pod's claims that exist and are its own, each once, and a wait for each of the others."""
    records, problems = [], []
    for reference in pod.references:
        key = f"{pod.namespace}/{reference.claim}"
        record = state.claims.get(key)
        if not reference.claim:
            problems.append(_not_created(state, pod, reference, now))
        elif record is None:
            # The watch of claims may lag behind the watch of pods: the claim may just have been created.
            remaining = _creation_time_left(state, pod, now) if reference.template else 0
            message = f"ResourceClaim {key} does not exist"
            problems.append(_missing(message, remaining))
        elif reference.template and not is_made_for(record.claim, state.consumer(pod, key)):
            message = f"ResourceClaim {key} was created for another {_owner(record)}"
            problems.append(Wait(Reason.CLAIM_NOT_OWNED, message))
        elif record not in records:
            records.append(record)
    return records, problems


def _owner(record: ClaimRecord) -> str:
    if not record.claim.owner_pod_group_uid:
        return "pod"
    return "PodGroup, or for one that does not exist or that this program may not read"


def _not_created(state: State, pod: PodView, reference: ClaimReference, now: float) -> Wait:
    if on_demand := wait_for_template(state, pod.namespace, reference.template):
        return on_demand
    owner = state.consumer(pod, f"{pod.namespace}/").name
    if fault := unnameable_claim(owner, reference.entry):
        message = f"no ResourceClaim can be created for the pod's entry: {reference.entry}; {fault}"
        return Wait(Reason.CLAIM_MISSING, message)
    message = (
        f"ResourceClaimTemplate {reference.template}: no claim created for the pod's entry: {reference.entry}; "
        f"either the template does not exist (kubectl get resourceclaimtemplates --namespace {pod.namespace}), or the "
        "claim may not be created, for example because of a quota (Events FailedResourceClaimCreation of the pod, and "
        f"kubectl describe resourcequota --namespace {pod.namespace})"
    )
    return _missing(message, _creation_time_left(state, pod, now))


def _missing(message: str, remaining: float) -> Wait:
    if remaining > 0:
        return Wait(Reason.CLAIM_MISSING, message, report=False, after=remaining)
    return Wait(Reason.CLAIM_MISSING, message)


def _creation_time_left(state: State, pod: PodView, now: float) -> float:
    return state.at(pod.created) + GENERATION_SECONDS - now


@dataclass(frozen=True, slots=True)
class ClaimsByDriver:
    """The claims of a pod, grouped by the program that allocates them."""

    ours: tuple[ClaimRecord, ...]
    """Claims that this controller allocates."""
    others: tuple[ClaimRecord, ...]
    """Claims that kube-scheduler has yet to allocate, from devices of other drivers."""
    problems: tuple[Wait, ...]
    """The faults of claims that are in neither group."""


def too_costly(state: State, records: Iterable[ClaimRecord]) -> Mapping[str, Wait] | Wait:
    """Return the claims, by key, whose selectors take more work than a claim may; a wait while that is not known.

    Nothing is looked at if none of the claims may be ours.
    """
    claims = [record.claim for record in records if record.claim.allocation is None]
    if not any(_may_be_ours(state, claim) for claim in claims):
        return {}
    try:
        faults = state.devices.too_costly(claims)
    except TurnEnded:
        message = "the selectors of the claims are being evaluated"
        return Wait(Reason.EVALUATING, message, report=False, after=EVALUATION_PAUSE_SECONDS)
    return {fault.key: Wait(Reason.INVALID_CLAIM, listed([str(fault)]), (fault.key,)) for fault in faults}


def _may_be_ours(state: State, claim: Claim) -> bool:
    classes = (name for name in _classes_of(claim) if name in state.classes)
    return any(state.classes.drivers_of_class(name) is not Drivers.OTHERS for name in classes)


def split_by_driver(
    state: State, records: Iterable[ClaimRecord], costly: Mapping[str, Wait] | None = None
) -> ClaimsByDriver:
    """Group the claims by the program that allocates them.

    A claim is ours if each of its requests can get only devices of drivers that we allocate, of one or several.

    Args:
        costly: the refusals of claims, by key, whose selectors must not be evaluated.
    """
    ours, others, problems = [], [], []
    for record in records:
        if costly and record.claim.key in costly and _may_be_ours(state, record.claim):
            problems.append(costly[record.claim.key])
            continue
        answer = _is_ours(state, record.claim)
        if isinstance(answer, Wait):
            problems.append(answer)
        elif answer:
            ours.append(record)
        elif record.claim.allocation is None:
            others.append(record)
    return ClaimsByDriver(tuple(ours), tuple(others), tuple(problems))


def measured_by_driver(state: State, records: Sequence[ClaimRecord]) -> ClaimsByDriver | Wait:
    """Group the claims as ``split_by_driver`` once their selectors are known to take no more work than they may."""
    costly = too_costly(state, records)
    return costly if isinstance(costly, Wait) else split_by_driver(state, records, costly)


def _is_ours(state: State, claim: Claim) -> bool | Wait:
    if claim.allocation is not None:
        return state.holds_ours(claim)
    if claim.problem:
        message = f"ResourceClaim {claim.key}: cannot be decoded: {claim.problem}; write it anew without that"
        return Wait(Reason.UNREADABLE, message, claims=(claim.key,))
    classes = _classes_of(claim)
    unknown = [name for name in classes if name not in state.classes]
    if unknown:
        names = [name + suggest(name, sorted(state.classes)) for name in unknown]
        message = f"ResourceClaim {claim.key}: no DeviceClass is named {', '.join(names)}"
        return Wait(Reason.UNKNOWN_CLASS, message, claims=(claim.key,))
    wants = [(request.name, want) for request in claim.spec.requests for want in request.wants]
    found, ours = {state.classes.drivers(want) for _, want in wants}, ", ".join(state.names.allocated_drivers)
    if Drivers.BOTH in found:
        unclear = [
            f"{name} ({want.device_class})" for name, want in wants if state.classes.drivers(want) is Drivers.BOTH
        ]
        message = (
            f"ResourceClaim {claim.key}: requests for which devices of {ours} and of other drivers could "
            f'be allocated: {", ".join(unclear)}; add the selector device.driver == "{state.names.driver}", or one for '
            "another driver, to the DeviceClass or to the request"
        )
        return Wait(Reason.AMBIGUOUS_CLASS, message, claims=(claim.key,))
    if found >= {Drivers.OURS, Drivers.OTHERS}:
        message = (
            f"ResourceClaim {claim.key}: devices of {ours} and of other drivers cannot be allocated together: "
            f"{', '.join(classes)}; put them into separate claims, or have the operator of this cluster name the other "
            "driver in the setting controller.alsoAllocates"
        )
        return Wait(Reason.MIXED_CLAIM, message, claims=(claim.key,))
    if found == {Drivers.NONE} and (excluded := _excluding(state, wants)):
        message = (
            f"ResourceClaim {claim.key}: no device can be allocated for requests whose DeviceClass selects devices of "
            f"{ours} and whose own selectors exclude these: {', '.join(excluded)}; remove the test of device.driver"
        )
        return Wait(Reason.INVALID_CLAIM, message, claims=(claim.key,))
    return Drivers.OURS in found


def _excluding(state: State, wants: Iterable[tuple[str, Want]]) -> Sequence[str]:
    """Return the requests that exclude the drivers that we allocate, which their class selects."""
    ours = (it for it in wants if state.classes.drivers_of_class(it[1].device_class) is Drivers.OURS)
    return [f"{name} ({want.device_class})" for name, want in ours]


def _classes_of(claim: Claim) -> Sequence[str]:
    """Return the names of the device classes that the claim asks for, each once."""
    return tuple(dict.fromkeys(want.device_class for request in claim.spec.requests for want in request.wants))


def faults_of(state: State, ours: Iterable[ClaimRecord]) -> list[Wait]:
    """Return the faults of claims of ours: they are being deleted, or their parameters are not valid."""
    faults = []
    for record in ours:
        claim = record.claim
        if claim.deleting:
            faults.append(Wait(Reason.CLAIM_DELETING, f"ResourceClaim {claim.key} is being deleted"))
        elif claim.allocation is None:
            faults += [*_size_faults(record), *_parameter_faults(state, claim)]
    return faults


def _size_faults(record: ClaimRecord) -> Iterable[Wait]:
    if record.size > MAX_CLAIM_BYTES:
        key = record.claim.key
        message = (
            f"ResourceClaim {key}: metadata: the claim takes {record.size} bytes, and one with more than "
            f"{MAX_CLAIM_BYTES} is not allocated, because the API server could not store it with its allocation; make "
            "it again with fewer or shorter labels and annotations"
        )
        yield Wait(Reason.INVALID_CLAIM, message, claims=(key,))


def _parameter_faults(state: State, claim: Claim) -> Iterable[Wait]:
    try:
        parameters_of(claim.spec.config, state.names, f"ResourceClaim {claim.key}")
    except InvalidInput as error:
        yield Wait(Reason.INVALID_PARAMETERS, str(error), claims=(claim.key,))
    for name in _classes_of(claim):
        try:
            config = state.classes[name].value.config
            parameters_of(config, state.names, f"DeviceClass {name}", "spec.config", of_class=True)
        except InvalidInput as error:
            yield Wait(Reason.INVALID_PARAMETERS, str(error))


def combine(problems: Sequence[Wait]) -> Wait:
    """Return one wait for all: the reason of the first that is reported, and the messages of all that are."""
    reported = [problem for problem in problems if problem.report]
    if not reported:
        return problems[0]
    return Wait(
        reported[0].reason,
        listed(tuple(dict.fromkeys(problem.message for problem in reported))),
        tuple(dict.fromkeys(key for problem in reported for key in problem.claims)),
    )


def said_by_kube_scheduler(state: State, records: Iterable[ClaimRecord]) -> str:
    """Return what kube-scheduler 1.37 says about a pod with these claims if the device class of one does not exist.

    It says it of the first one. "" if each exists, or if one that does not is named after our driver, so that it can
    only be ours.
    """
    claims = [record.claim for record in records if record.claim.allocation is None]
    unknown = [
        (f"{request.name}/{want.name}" if want.name else request.name, want.device_class)
        for claim in claims
        for request in claim.spec.requests
        for want in request.wants
        if want.device_class not in state.classes
    ]
    if not unknown or any(name.endswith(f".{state.names.driver}") for _, name in unknown):
        return ""
    (request, name), nodes = unknown[0], len(state.nodes)
    if not nodes:
        return "no nodes available to schedule pods"
    return (
        f"0/{nodes} nodes are available: request {request}: device class {name} does not exist. preemption: 0/{nodes} "
        f"nodes are available: {nodes} Preemption is not helpful for scheduling."
    )


# A pod's claims that hold devices


def exclusive(state: State, records: Iterable[ClaimRecord], pod: PodView) -> list[ClaimRecord]:
    """Return the claims that are reserved for no other pod."""
    return [record for record in records if reserved_only_for(state, record.claim, (pod,))]


def reserved_only_for(state: State, claim: Claim, pods: Iterable[PodView]) -> bool:
    """Return whether the claim is reserved for nobody but these pods.

    A PodGroup stands for all of its pods that use the claim.
    """
    chosen = {pod.key: pod for pod in pods}
    own = {state.consumer(pod, claim.key).uid for pod in chosen.values()}
    others = (state.pods[key] for key in state.pods.using(claim.key) if key not in chosen)
    shared = {state.consumer(pod, claim.key).uid for pod in others}
    return all(consumer.uid in own and consumer.uid not in shared for consumer in claim.reserved_for)


def is_reserved(state: State, claim: Claim, pod: PodView) -> bool:
    """Return whether the claim is reserved for the pod, or for the PodGroup in whose name the pod uses it."""
    uid = state.consumer(pod, claim.key).uid
    return any(consumer.uid == uid for consumer in claim.reserved_for)


def unreserved(state: State, records: Iterable[ClaimRecord], pod: PodView) -> tuple[str, ...]:
    """Return the keys of the claims that are not reserved for the pod."""
    return tuple(record.claim.key for record in records if not is_reserved(state, record.claim, pod))


def node_of(records: Iterable[ClaimRecord]) -> str:
    """Return the node of the first claim that is allocated on one; "" if there is none."""
    names = (record.claim.allocation.node_name for record in records if record.claim.allocation)
    return next((name for name in names if name), "")


# What the claims of a pod must have in common


def aligned_records(state: State, pod: PodView, records: Sequence[ClaimRecord]) -> tuple[ClaimRecord, ...] | Wait:
    """Return these claims of the pod with their alignments; a wait if one names a claim that it cannot mean.

    They go into the shape: the same claims mean something else with other entries, or beside other devices.
    """
    every = claims_by_entry(state, pod)
    if not any(_ALIGN_WITH in config.parameters for claim in every.values() for config in claim.spec.config):
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
    """Return the alignments of each claim of one pod that has some and is not allocated, by UID.

    A claim names another one by its entry in the pod, so the same template means another claim in each pod. Here the
    names become UIDs: both claims get the alignment, and are decided together. A claim that is allocated already has
    its devices; then only the other one gets the alignment, with what these devices have in common.

    Args:
        by_entry: the claims, each by the name of its entry in ``spec.resourceClaims``. A claim may have several.
        others: those that kube-scheduler is to allocate.

    Raises:
        InvalidInput: an alignment names no claim that it could mean; with all faults of one claim. Its author must act.
    """
    of_others = frozenset(claim.uid for claim in others)
    found: dict[str, dict[Alignment, None]] = {}
    for entry, claim in by_entry.items():
        faults: list[Fault] = []
        for number, config in enumerate(claim.spec.config):
            if _ALIGN_WITH not in config.parameters or not state.names.reads_parameters_of(config.driver):
                continue
            asked = _asked(config, state.names)
            if asked is None:
                continue
            where = f"spec.devices.config[{number}].opaque.parameters.{_ALIGN_WITH}.claim"
            other = by_entry.get(asked.claim)
            if fault := _alignment_fault(asked.claim, claim, other, by_entry, of_others):
                faults += [Fault(where, fault)]
            elif other is not None:
                for one, alignment in _both(state, entry, claim, other, asked=asked, requests=config.requests):
                    found.setdefault(one.uid, {})[alignment] = None
        if faults:
            raise InvalidInput(f"ResourceClaim {claim.key}", faults)
    return {uid: tuple(alignments) for uid, alignments in found.items()}


def _asked(config: OpaqueConfig, names: Names) -> AlignmentConfig | None:
    """Return what the parameters ask for; None if they are faulty, which the pod is told anyway."""
    try:
        [found] = parameters_of([config], names, "", kind=PlacementConfig.__name__)
    except (InvalidInput, ValueError):
        return None
    return found.parameters.align_with if isinstance(found.parameters, PlacementConfig) else None


def _alignment_fault(
    name: str, claim: Claim, other: Claim | None, by_entry: Mapping[str, Claim], others: frozenset[str]
) -> str:
    """Return why the claim cannot be aligned with the one of this entry, and what to write; "" if it can."""
    if other is None:
        entries = [entry for entry, one in by_entry.items() if one.uid != claim.uid]
        remedy = f"name one of {', '.join(entries)}" if entries else "add the claim, or remove alignWith"
        return f"the pod has no entry {name!r} in spec.resourceClaims: {remedy}"
    if other.uid == claim.uid:
        return f"{name!r} is the claim itself: name another one of the pod, or use matchAttribute in its constraints"
    if claim.uid in others or other.uid in others:
        which = "it is" if claim.uid in others else f"claim {name!r} ({other.key}) is"
        return (
            f"{which} allocated by kube-scheduler, which knows nothing of alignWith: have the operator of this cluster "
            "name its driver in the setting controller.alsoAllocates"
        )
    return ""


def _both(
    state: State, entry: str, claim: Claim, other: Claim, asked: AlignmentConfig, requests: tuple[str, ...]
) -> Sequence[tuple[Claim, Alignment]]:
    """Return the alignment of each of the two claims that is not allocated."""
    alignment = Alignment(
        asked.attribute,
        claims=(claim.uid, other.uid),
        entries=(entry, asked.claim),
        requests=requests,
        preferred=asked.mode == "preferred",
    )
    if claim.allocation is None and other.allocation is None:
        return (claim, alignment), (other, alignment)
    if claim.allocation is not None and other.allocation is not None:
        return ()
    holder, name, free = (claim, entry, other) if claim.allocation is not None else (other, asked.claim, claim)
    results = holder.allocation.results if holder.allocation else ()
    if holder is claim and requests:
        results = tuple(one for one in results if {one.request, main_request(one.request)} & {*requests})
    values = state.devices.common_values([result.device for result in results], asked.attribute)
    return ((free, replace(alignment, holder=name, values=values)),)


def _form(alignment: Alignment) -> str:
    """Return the alignment as text, without what only one pod has."""
    values = None if alignment.values is None else sorted(map(repr, alignment.values))
    return repr((replace(alignment, claims=("", ""), values=None), values))


# Templates


def claim_of_template(state: State, key: str) -> ClaimRecord | None:
    """Return the claim that is made from the template ``key`` (namespace/name), also if that is yet to be made itself.

    None if the template does not exist, and is not made on demand.
    """
    name = key.partition("/")[2]
    if key in state.templates or not is_on_demand(name) or template_exists(state, key):
        return state.templates.get(key)
    return _meant_by(key, state.names)


@lru_cache(maxsize=1024)
def _meant_by(key: str, names: Names) -> ClaimRecord | None:
    namespace, _, name = key.partition("/")
    try:
        return template_from({"metadata": {"namespace": namespace, "name": name}, "spec": template_spec(name, names)})
    except InvalidInput:
        return None


def wait_for_template(state: State, namespace: str, name: str) -> Wait | None:
    """Return why a pod has to wait that names a template on demand; None if the template exists or is being made."""
    key = f"{namespace}/{name}"
    if not is_on_demand(name) or template_exists(state, key):
        return None
    try:
        template_spec(name, state.names)
    except InvalidInput as error:
        return Wait(Reason.TEMPLATE_INVALID, f"{error}; make the pod anew with another name")
    if why := state.on_demand.refused.get(key):
        return Wait(Reason.TEMPLATE_REFUSED, f"ResourceClaimTemplate {key} was not made: {why}")
    return None


def template_exists(state: State, key: str) -> bool:
    """Return whether there is a ResourceClaimTemplate ``key``, whether it can be decoded or not."""
    return bool(state.uid_of(RESOURCE_CLAIM_TEMPLATES, key))
