"""The pods and gangs that wait for devices. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.gangs import Gang, GangPlan, SearchOptions, TriedDomains, choose
from controller.reconcile import NO_HISTORY, DecisionContext, decide, decide_gang, known_gang
from controller.reconcile.decisions import PlacePod, PodRefusal
from controller.reconcile.prospects import could_take
from controller.refusal import Refusal
from controller.state import State
from controller.waiting import rank_of

_STEPS: Final = 10_000
"""Steps of a search for the domain of a gang, in each of many decisions."""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod without devices.

    Attributes:
        now: seconds since the epoch.
        refused: the decision that no node takes it now.
    """

    state: State
    key: str
    now: float
    refused: PodRefusal
    kind: str = "Pod"
    on_one_node: bool = True

    @property
    def pods(self) -> tuple[str, ...]:
        """Its key."""
        return (self.key,)

    def places(self) -> Mapping[str, PlacePod] | None:
        """Return where the controller would place it now."""
        decision = decide(self.state, self.key, self.now, NO_HISTORY, DecisionContext())
        return {self.key: decision} if isinstance(decision, PlacePod) else None

    def may_run_on(self, node: str) -> bool:
        """Return whether the node might take it now."""
        return could_take(self.state, self.refused, node)


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang with members without devices."""

    state: State
    key: str
    now: float
    kind: str = "Gang"
    on_one_node: bool = False

    @property
    def pods(self) -> tuple[str, ...]:
        """The keys of its members."""
        return tuple(self.state.gangs.members(self.key))

    def may_run_on(self, node: str) -> bool:
        """Return True: a gang needs more than one node."""
        del node
        return True

    def places(self) -> Mapping[str, PlacePod] | None:
        """Return where the controller would place its members now, if it starts then."""

        def chosen(wanted: Gang) -> GangPlan | Refusal[TriedDomains]:
            return choose(wanted, self.state.cluster, SearchOptions(_STEPS))

        decision = decide_gang(
            self.state,
            known_gang(self.state, self.key),
            self.now,
            chosen,
            history_of=lambda _: NO_HISTORY,
            context=DecisionContext(),
        )
        if decision.plan is None or not decision.started:
            return None
        return {key: one for key, one in decision.members.items() if isinstance(one, PlacePod)}


def waiting_in_turn(state: State, keys: Sequence[str], now: float) -> Iterator[WaitingPod | WaitingGang]:
    """Yield what the pods with these keys are or belong to, each once, in the order in which they are served.

    Pods that wait for another reason than devices are left out: no move helps them.
    """
    seen = set[str]()
    for key in sorted(keys, key=lambda key: rank_of(state, state.pods[key])):
        gang = state.gangs.gang_of(key)
        if gang:
            if gang not in seen:
                seen.add(gang)
                yield WaitingGang(state, gang, now)
        elif isinstance(refused := decide(state, key, now, NO_HISTORY, DecisionContext()), Refusal):
            yield WaitingPod(state, key, now, refused)
