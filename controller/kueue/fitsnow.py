"""Decides whether the pods of a Workload of Kueue would get their devices now. Pure.

The pods do not exist yet. Their requests are in the templates of the Workload, and in the ResourceClaimTemplates that
these name. Changes by admission, such as the overhead of a runtime class, are not known. Pods without claims of ours
are left to kube-scheduler.

Workloads that were let go a moment ago have a claim on what is free until their pods have it, although nothing is
allocated for them yet. So whatever fits only without these is not decided yet.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.gangs import Gang, GangPlan, Member, choose
from controller.gangs import render as render_gang
from controller.kueue.queued import PodSet, QueuedWorkload
from controller.membership import NO_CONFIG, ConfiguredGang, config_of_claim, config_of_pod
from controller.placement import Placement, PodDemand
from controller.reconcile.decisions import Wait
from controller.reconcile.demand import quota_wait
from controller.reconcile.othernames import in_use
from controller.reconcile.podclaims import (
    EVALUATION_PAUSE_SECONDS,
    alignments_among,
    claim_of_template,
    faults_of,
    measured_by_driver,
    wait_for_template,
)
from controller.refusal import Refusal
from controller.state import ClaimRecord, State
from driver.errors import InvalidInput
from driver.limits import bounded, listed
from driver.model import Allocation, Claim
from driver.parameters import PlacementConfig, parameters_of

MOST_CLAIMS: Final = 1000
"""Most claims of a Workload that devices are looked for. A few lines can promise any number of them."""
AGAIN_SECONDS: Final = 2.0
"""Time after which a Workload is looked at again that waits for others to get their devices."""
_HAS_WAITED: Final = 1e9
"""Seconds. Gangs give up preferred levels after a while; whether they would start is asked for then."""


@dataclass(frozen=True, slots=True)
class FitsNow:
    """The pods would get their devices."""


FitAnswer = FitsNow | Refusal[str]
"""A refusal with ``after`` cannot be told yet: ask again then."""


@dataclass(frozen=True, slots=True)
class _Question:
    """The pods that need devices."""

    members: Sequence[Member]
    config: ConfiguredGang


def fits_now(
    state: State, workload: QueuedWorkload, ahead: Sequence[QueuedWorkload] = (), closed: Collection[str] = ()
) -> FitAnswer:
    """Return whether the pods of the Workload would get their devices now.

    Args:
        ahead: Workloads that were let go a moment ago.
        closed: nodes that are held back for pods that exist.
    """
    question = _question(state, workload, closed)
    if not isinstance(question, _Question):
        return question
    alone = _answer(state, workload, question)
    if isinstance(alone, Refusal) or not question.members:
        return alone
    before = [demand for one in ahead if one.key != workload.key for demand in _still_to_place(state, one, closed)]
    if not before:
        return alone
    with state.cluster.what_if() as trial:
        for demand in before:
            trial.schedule(demand)
        if isinstance(_answer(state, workload, question), FitsNow):
            return alone
    why = "it fits, but Workloads that were admitted just now may need the same devices"
    return Refusal(workload.key, why, after=AGAIN_SECONDS)


def _still_to_place(state: State, workload: QueuedWorkload, closed: Collection[str]) -> Iterator[PodDemand]:
    """Yield the demands of pods that were let go and count on no node yet."""
    question = _question(state, workload, closed)
    if isinstance(question, _Question):
        placed = sum(state.nodes.node_of(key) != "" for key in _pods_of(state, workload))
        yield from (member.demand for member in question.members[placed:])


def _pods_of(state: State, workload: QueuedWorkload) -> Iterator[str]:
    """Yield the keys of the pods that exist of a Workload."""
    for key, pod in state.pods.items():
        if pod.namespace == workload.namespace:
            maker = pod.gang.owner.uid if pod.gang and pod.gang.owner else ""
            if pod.uid in workload.owners or maker in workload.owners:
                yield key


# The question


def _question(state: State, workload: QueuedWorkload, closed: Collection[str]) -> _Question | Refusal[str]:
    if workload.problem:
        return Refusal(workload.key, bounded(workload.problem))
    members, claims = list[Member](), 0
    configs: list[tuple[str, ConfiguredGang]] = []
    for pod_set in workload.pod_sets:
        asked = _claims_of(state, workload, pod_set)
        if isinstance(asked, Refusal):
            return asked
        ours, others = asked
        if not ours:
            continue
        claims += pod_set.count * (len(ours) + len(others))
        if claims > MOST_CLAIMS:
            text = f"more than {MOST_CLAIMS} claims are not looked at; use a queue without this check"
            return Refusal(workload.key, f"spec.podSets: {claims} claims of their pods; {text}")
        configs += [(record.claim.key, _config(state, record)) for _, record in ours if record.claim.spec.config]
        for number in range(pod_set.count):
            key = f"{workload.key}-{pod_set.name}-{number} (to come)"
            demand = PodDemand(
                key,
                pod_set.template.needs,
                _aligned(state, key, ours, others),
                avoid=frozenset(closed),
                other_drivers_claims=tuple(_made(key, entry, record) for entry, record in others),
            )
            members.append(Member(demand, len(members), task=pod_set.name))
    config = config_of_pod(configs) if configs else NO_CONFIG
    if config.faults:
        return Refusal(workload.key, listed([f"{fault.field}: {fault.message}" for fault in config.faults]))
    return _Question(members, config)


_Entries = Sequence[tuple[str, ClaimRecord]]


def _claims_of(state: State, workload: QueuedWorkload, pod_set: PodSet) -> tuple[_Entries, _Entries] | Refusal[str]:
    """Return the claims of ours that each pod of the set will have, and those of other drivers."""
    known, problems = list[tuple[str, ClaimRecord]](), list[str]()
    where = f"pod set {pod_set.name}: "
    for use in pod_set.template.claims if pod_set.count > 0 else ():
        key = f"{workload.namespace}/{use.template}"
        record = claim_of_template(state, key)
        if not use.template:
            problems.append(f"{where}ResourceClaim {use.claim}: only templates are looked at; use one")
        elif record is not None:
            known.append((use.entry, record))
        elif wait := wait_for_template(state, workload.namespace, use.template):
            problems.append(f"{where}{wait.message}")
        elif state.templates.readable:
            problems.append(f"{where}ResourceClaimTemplate {key} does not exist; create it")
        else:
            problems.append(f"{where}the controller may not read ResourceClaimTemplates; an operator must allow it")
    split = measured_by_driver(state, [record for _, record in known])
    if isinstance(split, Wait):
        return Refusal(workload.key, split.message, after=split.after or EVALUATION_PAUSE_SECONDS)
    faults = [*split.problems, *faults_of(state, split.ours)]
    problems += [f"{where}{_of_template(fault.message)}" for fault in faults]
    if problems:
        return Refusal(workload.key, listed(tuple(dict.fromkeys(problems))))
    ours, others = (
        [one for one in known if any(one[1] is record for record in some)] for some in (split.ours, split.others)
    )
    try:
        _aligned(state, "", ours, others)
    except InvalidInput as error:
        text = "; ".join(f"{fault.field}: {fault.message}" for fault in error.faults)
        return Refusal(workload.key, listed([f"{where}{text}"]))
    return ours, [one for one in others if state.devices.publishes(one[1].claim)]


def _aligned(state: State, pod: str, ours: _Entries, others: _Entries) -> tuple[Claim, ...]:
    """Return the claims of ours of a pod to come, with what they must have in common.

    Raises:
        InvalidInput: an alignment names a claim that it cannot mean.
    """
    made = {entry: _made(pod, entry, record) for entry, record in (*ours, *others)}
    found = alignments_among(state, made, [made[entry] for entry, _ in others])
    claims = [made[entry] for entry, _ in ours]
    return tuple(replace(claim, aligned=found[claim.uid]) if claim.uid in found else claim for claim in claims)


def _made(pod: str, entry: str, record: ClaimRecord) -> Claim:
    return replace(record.claim, name=f"{pod} {entry}", uid=f"{pod} {entry}")


def _of_template(message: str) -> str:
    """Return a message about a claim of a template, which is known by the name of the template, as one about it."""
    return message.replace("ResourceClaim ", "ResourceClaimTemplate ")


def _config(state: State, record: ClaimRecord) -> ConfiguredGang:
    config = record.claim.spec.config
    try:
        return config_of_claim(parameters_of(config, state.names, "", kind=PlacementConfig.__name__))
    except InvalidInput:  # reported by ``faults_of``
        return NO_CONFIG


# The answer


def _answer(state: State, workload: QueuedWorkload, question: _Question) -> FitsNow | Refusal[str]:
    placed = _as_gang(state, workload, question) if question.config else _one_by_one(state, workload, question)
    if isinstance(placed, Refusal):
        return placed
    given: Iterable[Allocation] = [allocation for one in placed for allocation in one.allocations]
    over = quota_wait(state, workload.namespace, given)
    return Refusal(workload.key, over.message) if over else FitsNow()


def _one_by_one(state: State, workload: QueuedWorkload, question: _Question) -> Sequence[Placement] | Refusal[str]:
    found: list[Placement] = []
    with state.cluster.what_if() as trial:
        for member in question.members:
            answer = trial.schedule(member.demand)
            if not isinstance(answer, Placement):
                break
            found.append(answer)
        else:
            return found
    if answer.faults:
        return Refusal(workload.key, bounded(_of_template(listed([str(fault) for fault in answer.faults]))))
    count = f"{len(found)} of {len(question.members)} pods fit now"
    return Refusal(workload.key, bounded(f"{count}{_in_use(state, workload, member)}"))


def _as_gang(state: State, workload: QueuedWorkload, question: _Question) -> Sequence[Placement] | Refusal[str]:
    """Place as many pods as have to start together, in one domain of the topology if the claims say so."""
    config, total = question.config, len(question.members)
    gang = Gang(
        key=workload.key,
        uid=workload.uid,
        members=tuple(question.members),
        minimum=min(total, config.minimum or total),
        starts=True,
        levels=config.levels or (),
        constraints=config.constraints or (),
        policy=config.policy or "binpack",
        elapsed=_HAS_WAITED,
    )
    answer = choose(gang, state.cluster)
    if isinstance(answer, GangPlan):
        return answer.placements
    why = f"{_of_template(render_gang(answer))}{_in_use(state, workload, question.members[0])}"
    return Refusal(workload.key, bounded(why))


def _in_use(state: State, workload: QueuedWorkload, member: Member) -> str:
    """Return which such devices are in use. Claims of other namespaces are not named."""
    text = in_use(state, member.demand.claims, workload.namespace)
    published = all(state.devices.publishes(claim) for claim in member.demand.claims)
    return text if text or published else "; no node has such devices"
