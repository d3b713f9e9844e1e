"""The work of ``lode drain``: cordons, evicts the pods whose claims hold the card, and waits until none holds it.

Nothing is remembered between calls: each round reads who holds the card now, so a call that was interrupted, or runs
beside another one, goes on where that one is. A claim that is written while the cordon is made is found as well: the
card counts as free only some seconds after that.
"""

import argparse
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cli import live
from cli.cards.card import CardHolder, CardTarget, is_at_gate, pods_using
from cli.cards.reading import connected, read_holders, read_rules, read_target
from cli.cards.work import make_cordon
from cli.decisions.snapshot import snapshot_of
from cli.exitcodes import PLACED, WAITS
from cli.objects.checks import InputObject
from controller.membership import GangTerms
from controller.state import GANG_RESOURCES, State
from driver.clock import Clock, SystemClock
from driver.errors import OperatorFault
from driver.kube.api import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIMS,
    Api,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    Object,
    OverBudget,
    Resource,
    Unavailable,
)
from driver.kube.objects import is_deleting, is_terminal, object_key
from driver.names import Names


def obstacle(pod: Object, *, force: bool, delete_emptydir_data: bool) -> str:
    """Return why a pod must not be evicted without being asked for, and the option that asks for it; "" if it may.

    The rules are those of ``kubectl drain``, but for two. A pod of a DaemonSet is evicted: its successor gets no device
    of a cordoned card. An emptyDir in memory has no data to lose.
    """
    if is_deleting(pod):
        return ""
    owners = pod["metadata"].get("ownerReferences") or ()
    if not force and not any(owner.get("controller") for owner in owners):
        return "it has no controller, so nobody makes it again (--force evicts it)"
    volumes = [volume for volume in pod["spec"].get("volumes") or () if volume.get("emptyDir") is not None]
    if not delete_emptydir_data and any(volume["emptyDir"].get("medium") != "Memory" for volume in volumes):
        return "the content of its emptyDir would be lost (--delete-emptydir-data evicts it)"
    return ""


def gang_notes(state: State, evicted: Collection[str]) -> Iterator[str]:
    """Yield for each gang with members among ``evicted`` (``namespace/name``) what it has left."""
    gangs = dict.fromkeys(gang for pod in sorted(evicted) if (gang := state.gangs.gang_of(pod)))
    for gang in gangs:
        members = state.gangs.members(gang)
        lost = [pod for pod in members if pod in evicted]
        if not lost:
            continue
        running = [pod for pod in members if state.pods[pod].node_name and pod not in evicted]
        terms = state.gangs.terms(gang)
        names = ", ".join(pod.partition("/")[2] for pod in lost)
        text = f"gang {gang} loses {len(lost)} of its {len(members)} members ({names})"
        if not isinstance(terms, GangTerms):
            yield text
        elif len(running) < terms.minimum:
            yield f"{text}: {len(running)} are left and it needs {terms.minimum}, so it stops until they run elsewhere"
        else:
            yield f"{text}: {len(running)} are left, and it needs {terms.minimum}"


_EVICTIONS: Final = Resource("", "v1", "pods/eviction", "Eviction", namespaced=True)
"""For messages about the right."""
_PAUSE_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
"""Pause before an eviction is tried again that a budget forbids, as of ``kubectl drain``."""
_SETTLE_SECONDS: Final = 2.0
"""From a new cordon until the card counts as free: what was decided before is written by then, as a rule."""


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """How to drain.

    Attributes:
        grace_period_seconds: that pods get to end; None for what each says itself.
        timeout_seconds: 0 for no end.
        wait: whether to wait until no claim holds the card.
    """

    force: bool = False
    delete_emptydir_data: bool = False
    grace_period_seconds: int | None = None
    timeout_seconds: float = 0.0
    wait: bool = True
    dry_run: bool = False


def run(arguments: argparse.Namespace) -> int:
    """Drain as the command's arguments say; the exit status."""
    options = DrainOptions(
        force=arguments.force,
        delete_emptydir_data=arguments.delete_emptydir_data,
        grace_period_seconds=arguments.grace_period if arguments.grace_period >= 0 else None,
        timeout_seconds=arguments.timeout,
        wait=arguments.wait,
        dry_run=arguments.dry_run != "none",
    )
    with connected(arguments) as (api, names):
        target = read_target(api, arguments.what, names)
        return Drain(api, target, names, options, SystemClock()).run()


@dataclass(slots=True)
class _Pods:
    """The pods that were seen holding the card, by uid.

    Attributes:
        evicted: those that end by an eviction that was accepted.
        due: when an eviction that a budget has forbidden is tried again.
        said: what was printed about each.
        refusals: why each was not evicted when it was tried last.
    """

    evicted: dict[str, str] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    refusals: dict[str, str] = field(default_factory=dict)
    gangs: set[str] = field(default_factory=set)


class Drain:
    """Drains one card, or all cards of a node."""

    def __init__(self, api: Api, target: CardTarget, names: Names, options: DrainOptions, clock: Clock):
        self._api = api
        self._target = target
        self._names = names
        self._options = options
        self._clock = clock
        self._pods = _Pods()

    def run(self) -> int:
        """Cordon, evict and wait; the exit status.

        Raises:
            OperatorFault: a right is missing, or the API server does not answer. Calling again continues.
        """
        begun, rules = self._clock.monotonic(), read_rules(self._api, self._names)
        changed = make_cordon(self._api, self._target, rules, self._names, dry_run=self._options.dry_run)
        settled = self._clock.monotonic() + (_SETTLE_SECONDS if changed and not self._options.dry_run else 0.0)
        holding: list[CardHolder] = []
        pods: dict[str, Object] = {}
        while True:
            holding, pods = self._still_holding(holding, pods) if pods else self._read()
            self._say_evicted(pods)
            if refused := self._refused(pods):
                return self._give_up("some pods may not be evicted without being asked for", refused)
            self._say_gangs(pods)
            if self._options.dry_run:
                return self._say_dry_run(holding, pods)
            pending = self._evict(pods)
            if self._is_done(holding, pending, self._clock.monotonic() >= settled):
                print(
                    f"{self._target} drained" if self._options.wait else f"{self._target}: every eviction is accepted"
                )
                return PLACED
            if self._options.timeout_seconds and self._clock.monotonic() - begun >= self._options.timeout_seconds:
                return self._give_up(f"not within {self._options.timeout_seconds:.0f} s", self._left(pods))
            self._clock.sleep(_PAUSE_SECONDS)

    def _is_done(self, holding: Sequence[CardHolder], pending: Sequence[Object], settled: bool) -> bool:
        return settled and not pending and (not holding or not self._options.wait)

    def _read(self) -> tuple[list[CardHolder], dict[str, Object]]:
        """Return the claims that hold the card, and the pods that use these and have not ended, by uid.

        Pods at our gate use nothing: they are not let go on a card that is cordoned, and get another one.
        """
        holding = [one for one in read_holders(self._api, self._target, self._names) if not one.admin_access]
        found: dict[str, Object] = {}
        for namespace in dict.fromkeys(holder.namespace for holder in holding):
            pods = live.list_all(self._api, PODS, namespace)
            for holder in holding:
                using = (pod for pod in pods_using(holder, pods) if not is_at_gate(pod, self._names))
                found.update((pod["metadata"]["uid"], pod) for pod in using)
        return holding, dict(sorted(found.items(), key=lambda item: object_key(item[1])))

    def _still_holding(
        self, holding: Sequence[CardHolder], pods: dict[str, Object]
    ) -> tuple[list[CardHolder], dict[str, Object]]:
        """Return those of the pods that have not ended. All is read again when none is left."""
        left: dict[str, Object] = {}
        for uid, pod in pods.items():
            now = live.get_one(self._api, PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
            if now is not None and now["metadata"]["uid"] == uid and not is_terminal(now):
                left[uid] = now
        return (list(holding), left) if left else self._read()

    def _refused(self, pods: dict[str, Object]) -> list[str]:
        options = self._options
        reasons = (
            (pod, obstacle(pod, force=options.force, delete_emptydir_data=options.delete_emptydir_data))
            for pod in pods.values()
        )
        return [f"pod {object_key(pod)}: {reason}" for pod, reason in reasons if reason]

    def _say_evicted(self, pods: dict[str, Object]) -> None:
        for uid in [uid for uid in self._pods.evicted if uid not in pods]:
            print(f"pod {self._pods.evicted.pop(uid)} evicted")

    def _say_gangs(self, pods: dict[str, Object]) -> None:
        new = {object_key(pod): pod for uid, pod in pods.items() if uid not in self._pods.gangs}
        self._pods.gangs.update(pods)
        if new:
            state = _state_of_gangs(self._api, {pod["metadata"]["namespace"] for pod in new.values()}, self._names)
            for note in gang_notes(state, new.keys()):
                print(note)

    def _say_dry_run(self, holding: Sequence[CardHolder], pods: dict[str, Object]) -> int:
        for pod in pods.values():
            print(f"evicting pod {object_key(pod)} (dry run)")
        for holder in (one for one in holding if not one.users):
            print(f"waiting for {holder} (dry run)")
        return PLACED

    def _evict(self, pods: dict[str, Object]) -> list[Object]:
        """Evict what is due; returns the pods whose eviction is not accepted yet."""
        pending = []
        for uid, pod in pods.items():
            if is_deleting(pod) or uid in self._pods.evicted:
                self._pods.evicted.setdefault(uid, object_key(pod))
                continue
            if self._clock.monotonic() < self._pods.due.get(uid, 0.0) or not self._try_to_evict(uid, pod):
                pending.append(pod)
        return pending

    def _try_to_evict(self, uid: str, pod: Object) -> bool:
        metadata, grace = pod["metadata"], self._options.grace_period_seconds
        if uid not in self._pods.said:
            self._pods.said.add(uid)
            print(f"evicting pod {object_key(pod)}")
        try:
            self._api.evict(metadata["name"], metadata["namespace"], uid=uid, grace_period_seconds=grace)
        except (NotFound, Conflict):
            return True
        except (OverBudget, Unavailable) as error:
            self._retry(uid, pod, error)
            return False
        except Forbidden as error:
            if error.status == 403 and "NamespaceTerminating" in f"{error.reason} {error}":
                self._retry(uid, pod, error)
                return False
            right = live.MissingRight("create", _EVICTIONS, metadata["namespace"])
            raise live.fault_of_forbidden(error, right) from error
        except ApiError as error:
            raise OperatorFault(f"pod {object_key(pod)} cannot be evicted: {error}") from error
        self._pods.evicted[uid] = object_key(pod)
        return True

    def _retry(self, uid: str, pod: Object, error: ApiError) -> None:
        self._pods.due[uid] = self._clock.monotonic() + max(_RETRY_SECONDS, error.retry_after)
        self._pods.refusals[uid] = str(error)
        text = f"pod {object_key(pod)} is not evicted yet, and is tried again: {error}\n"
        if text not in self._pods.said:
            self._pods.said.add(text)
            sys.stderr.write(text)

    def _left(self, pods: Mapping[str, Object]) -> list[str]:
        """Return what the card is waited for, as it is now."""
        lines = []
        for uid, pod in pods.items():
            if uid in self._pods.evicted or is_deleting(pod):
                grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
                lines.append(f"pod {object_key(pod)} was told to end, with {grace} s for it, and has not ended")
            else:
                lines.append(f"pod {object_key(pod)} is not evicted: {self._pods.refusals.get(uid, 'not tried yet')}")
        holding = [one for one in read_holders(self._api, self._target, self._names) if not one.admin_access]
        return [*lines, *(f"held by {holder}" for holder in holding)]

    def _give_up(self, why: str, left: Sequence[str]) -> int:
        sys.stderr.write(f"lode drain: {why}; {self._target} stays cordoned\n")
        sys.stderr.writelines(f"  {line}\n" for line in left)
        return WAITS


def _state_of_gangs(api: Api, namespaces: set[str], names: Names) -> State:
    """Return the pods of the namespaces and what says something about their gangs, as far as the user may read it."""
    inputs: list[InputObject] = []
    for resource in (DEVICE_CLASSES, RESOURCE_CLAIMS, PODS, *GANG_RESOURCES):
        for namespace in sorted(namespaces) if resource.namespaced else [""]:
            try:
                inputs += live.stored(resource, live.list_all(api, resource, namespace))
            except live.NoRights:
                continue
    return snapshot_of(inputs, names, assumed=None).state
