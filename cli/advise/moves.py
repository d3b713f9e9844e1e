"""The cheapest moves that let a pod or gang run, each checked as the controller decides. Pure.

A set of pods is sufficient if the controller would place what waits, were they gone. Of the sufficient sets of which no
pod can be spared, the one is best whose pods can all run elsewhere; then the one with the fewest cards of pods that
would have to end; then the cheapest (``movable.price_of``). A pod moves once: a place that another pod would have to
leave for it is not looked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

from cli.advise.movable import Movable, Price, end, price_of
from controller.placement import Placed, Placement, PodDemand
from controller.preemption.least_set import Least, LeastSet, Trials
from controller.reconcile.decisions import PlacePod
from controller.state import State

_MOST_SETS: Final = 16
"""Most sufficient sets among which the best one is chosen, on one node or for one gang."""
_MOST_TOGETHER: Final = 48
"""Most pods of which sets are made for a gang; of more, only those on the nodes where it would go if all were gone."""
TRIALS: Final = 2_000
"""Most decisions that are tried for one answer."""


class Waiting(Protocol):
    """What waits: a pod or a gang."""

    def places(self) -> Mapping[str, PlacePod] | None:
        """Return the places of its pods as the controller would decide now; None if it would not run."""

    def may_run_on(self, node: str) -> bool:
        """Return whether it might run if it needs one node only, and that is this one; quicker than ``places``."""

    @property
    def on_one_node(self) -> bool:
        """Whether it needs one node only, so that what ends elsewhere does not help."""


@dataclass(frozen=True, slots=True)
class Move:
    """A running pod that has to leave its devices.

    Attributes:
        target: the node where it can run then, perhaps the same one with other devices; "" if it has to end.
        devices: the devices that it gets there, as ``pool/device``.
    """

    pod: Movable
    target: str = ""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moves:
    """What lets something run that waits.

    Attributes:
        moves: in the order in which the pods are served again; none if it runs without.
        places: the node of each waiting pod then.
        best: whether all sets were compared, so that no other is better.
    """

    moves: tuple[Move, ...]
    places: Mapping[str, str]
    best: bool = True

    @property
    def price(self) -> tuple[float, Price]:
        """What it costs; less is better."""
        ended = sum(move.pod.parts for move in self.moves if not move.target)
        return ended, price_of(move.pod for move in self.moves) if self.moves else ()


@dataclass(frozen=True, slots=True)
class NoMoves:
    """No moves let it run.

    Attributes:
        decided: False if the search ended early, so that there may be some.
    """

    decided: bool = True


def best_moves(state: State, waiting: Waiting, pods: Sequence[Movable], most_trials: int = TRIALS) -> Moves | NoMoves:
    """Return the best moves of these pods that let what waits run. The state is as before."""
    trials = Trials(most_trials)
    if (places := waiting.places()) is not None:
        return Moves((), {pod: place.node for pod, place in places.items()})
    best: Moves | None = None
    proven = True
    for some in _groups(state, waiting, pods):
        found = _LeastMoves(state, waiting, some, trials).find()
        proven &= found.proven
        for chosen in found.sets:
            moves = relocated(state, waiting, [pod for at, pod in enumerate(some) if chosen >> at & 1])
            if moves is not None and (best is None or moves.price < best.price):
                best = moves
        if trials.are_used_up:
            proven = False
            break
    if best is None:
        return NoMoves(decided=proven)
    whole = waiting.on_one_node or len(pods) <= _MOST_TOGETHER
    return Moves(best.moves, best.places, best=proven and whole)


def _groups(state: State, waiting: Waiting, pods: Sequence[Movable]) -> list[list[Movable]]:
    """Return the pods of which sets are made: node by node, or for a gang all that matter together."""
    if waiting.on_one_node:
        by_node = sorted(pods, key=lambda pod: (pod.node, pod.key))
        return [list(some) for _, some in groupby(by_node, key=lambda pod: pod.node)]
    if len(pods) <= _MOST_TOGETHER:
        return [list(pods)]
    with state.cluster.what_if() as trial:
        end(trial, pods)
        places = waiting.places()
    nodes = {place.node for place in places.values()} if places is not None else set()
    return [[pod for pod in pods if pod.node in nodes]]


class _LeastMoves:
    """The least sets of some pods that let what waits run."""

    def __init__(self, state: State, waiting: Waiting, pods: Sequence[Movable], trials: Trials):
        self._state = state
        self._waiting = waiting
        self._pods = pods
        worth = sorted(range(len(pods)), key=lambda at: (price_of([pods[at]]), pods[at].key), reverse=True)
        self._search = LeastSet(len(pods), worth, self._price, self._is_sufficient, trials)

    def find(self) -> Least:
        """Return sufficient sets, the cheapest first."""
        return self._search.find(0, _MOST_SETS)

    def _chosen(self, chosen: int) -> list[Movable]:
        return [pod for at, pod in enumerate(self._pods) if chosen >> at & 1]

    def _price(self, chosen: int) -> Price:
        return price_of(self._chosen(chosen))

    def _is_sufficient(self, chosen: int) -> bool:
        pods = self._chosen(chosen)
        with self._state.cluster.what_if() as trial:
            end(trial, pods)
            return self._waiting.may_run_on(pods[0].node) and self._waiting.places() is not None


def relocated(state: State, waiting: Waiting, pods: Sequence[Movable]) -> Moves | None:
    """Return where what waits and the pods run, in this order; None if it does not run after all."""
    with state.cluster.what_if() as trial:
        end(trial, pods)
        places = waiting.places()
        if places is None:
            return None
        for key, place in places.items():
            trial.place(_demand(state, key, place), Placed(place.node, tuple(it for _, it in place.allocations)))
        in_turn = sorted(pods, key=lambda pod: (-pod.pod.priority, pod.created, pod.key))
        moves = [_move(pod, trial.schedule(pod.demand)) for pod in in_turn]
    return Moves(tuple(moves), {pod: place.node for pod, place in places.items()})


def _demand(state: State, key: str, place: PlacePod) -> PodDemand:
    claims = tuple(state.claims[claim].claim for claim, _ in place.allocations)
    return PodDemand(key, state.pods[key].needs, claims)


def _move(pod: Movable, found: object) -> Move:
    if not isinstance(found, Placement):
        return Move(pod)
    results = [result for allocation in found.allocations for result in allocation.results]
    return Move(pod, found.node, tuple(f"{result.device.pool}/{result.device.device}" for result in results))
