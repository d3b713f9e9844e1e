"""Two fabrics of nodes, and a gang on them."""

from collections.abc import Sequence
from typing import Any

from controller.gangs import Gang, GangPlan, Level, TriedDomains, choose
from controller.membership import GangTerms, Source
from controller.reconcile import NO_HISTORY, PlacementHistory, decide_gang
from controller.reconcile.decisions import Decision, GangDecision, PlacePod
from controller.reconcile.gangmembers import KnownGang, KnownMember
from controller.refusal import Refusal
from driver.kube.api import NODES, RESOURCE_SLICES, Object
from tests.unit.controller.filled_state import NAMES, NOW, FilledState, node, slice_on
from tests.unit.controller.reconcile.inwords import about

FABRIC = Level("fabric", "nodeLabel")


class Fabrics(FilledState):
    """Two fabrics of nodes with two cards and 8 CPUs each, and a gang of pods w0, w1 ... with one claim each."""

    def __init__(self, **sizes: int):
        super().__init__(nodes=0)
        for fabric, count in sizes.items():
            for number in range(1, count + 1):
                self.put(NODES, node(f"{fabric}{number}", labels={"fabric": fabric}))
                self.put(RESOURCE_SLICES, slice_on(f"{fabric}{number}"))
        self.histories: dict[str, PlacementHistory] = {}

    def member(self, name: str, at: str = "", by: tuple[str, ...] | None = None, **options: Any) -> None:
        """A pod with a claim, which holds the card ``at``."""
        self.claim(f"c-{name}", at=at, by=(name,) if by is None else by)
        self.pod(name, f"c-{name}", **options)

    def members(self, count: int, at: Sequence[str] = (), **options: Any) -> None:
        for number in range(count):
            self.member(f"w{number}", at=at[number] if number < len(at) else "", **options)

    def choose(self, gang: Gang) -> GangPlan | Refusal[TriedDomains]:
        return choose(gang, self.state.cluster)

    def decide(
        self, minimum: int = 4, size: int | None = None, ended: int = 0, source: Source = Source.CLAIM, **more: Any
    ) -> GangDecision:
        terms = GangTerms("default/train", "uid", source, minimum, size, (FABRIC,))
        keys = more.pop("members", sorted(self.state.pods))
        members = tuple(KnownMember(key, rank) for rank, key in enumerate(keys))
        gang = KnownGang("default/train", more.pop("terms", terms), members, ended)
        return decide_gang(
            self.state,
            gang,
            NOW,
            more.pop("choose", self.choose),
            history_of=lambda key: self.histories.get(key, NO_HISTORY),
        )


def labeled(obj: Object) -> Object:
    """The pod with the label that joins it to a gang."""
    return {**obj, "metadata": {**obj["metadata"], "labels": {NAMES.gang: "train"}}}


def told(decision: GangDecision) -> dict[str, str]:
    """Each member's decision in a line."""
    return {key.split("/")[1]: _line(one) for key, one in decision.members.items()}


def _line(one: Decision) -> str:
    keeps = " keep gate" if isinstance(one, PlacePod) and not one.admit else ""
    return about(one) + keeps


def every(count: int, line: str) -> dict[str, str]:
    return {f"w{number}": line for number in range(count)}
