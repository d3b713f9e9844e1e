"""Which pods may go, who has to go with whom, and what that costs. Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from controller.allocation import Card, Fleet
from controller.cluster import Cluster, WhatIf
from controller.preemption.least_set import Trials
from controller.preemption.occupancy import Holder, Occupancy
from controller.preemption.values import KeptPods
from driver.model import Claim

MOST_REASONS: Final = 8
"""Most reasons that are told."""
_MOST_NAMED: Final = 3
_NOT_LOWER: Final = "do not have a lower priority"
_PODS: Final = "pods"
_POD_GROUPS: Final = "podgroups"

Uids = frozenset[str]
"""Pods, by UID."""
Price = tuple[float, ...]
"""Compared part by part; less is better: the highest priority of those with devices, the parts of cards that are lost,
the number of pods, and then the ages, that of the oldest pod first."""
RANK: Final = 3
"""The parts of a price without the ages."""


class CannotGo(str):
    """Why a set of pods cannot go, as a clause about pods."""

    __slots__ = ()


Together = frozenset[str] | CannotGo
"""The pods that go together, by UID; or why they cannot."""


class Bonds:
    """Who may go for pods of a priority, and who has to go with whom.

    Pods that are being deleted are gone, as far as the others are concerned.

    Args:
        priority: only pods of lower priority may go.
        spared: keys of pods that may not go, each with the reason, as a clause about pods.
    """

    def __init__(self, occupancy: Occupancy, priority: int, spared: Mapping[str, str]):
        self._occupancy = occupancy
        self.priority = priority
        self.spared = spared
        self.holders: Mapping[str, Holder] = occupancy.by_uid
        self.going = sorted(occupancy.going.values(), key=attrgetter("pod"))
        self._going = frozenset(occupancy.going)
        self._alone: dict[str, Together] = {}
        self._free: set[str] = set()
        """Pods that may go, and concern no others."""

    def together(self, uid: str) -> Together:
        """The pods that go if this one goes, itself included; or why it cannot go."""
        known = self._alone.get(uid)
        if known is None:
            holder = self.holders[uid]
            # A member without devices may go with its gang whatever its priority, but nobody begins with it: its own
            # end frees no device (test_a_member_without_devices_keeps_nobody_of_its_gang_and_goes_only_with_it).
            if not holder.claims and holder.priority >= self.priority:
                known = CannotGo(_NOT_LOWER)
            elif self.is_bound(holder):
                known = self.closure((uid,))
            else:
                reason = self._obstacle(holder)
                known = CannotGo(reason) if reason else frozenset((uid,))
                if not reason:
                    self._free.add(uid)
            self._alone[uid] = known
        return known

    def is_bound(self, holder: Holder) -> bool:
        """Whether its end can make others go, or keep others from going."""
        return self._occupancy.is_bound(holder)

    def closure(self, uids: Collection[str]) -> Together:
        """The pods that go if all of these go; or why they cannot."""
        # Most pods concern no others. They have no budget either, as that makes a pod bound, so whether they go
        # together needs no look at budgets.
        if self._free.issuperset(uids):
            return frozenset(uids)
        chosen: set[str] = set()
        fresh = sorted(set(uids) - self._going)
        # Whoever comes in may share a claim with others, or be of a gang that is nothing without it. So this goes on
        # until nobody comes in any more; pods are only added, so it ends (test_users_of_one_claim_go_together).
        while fresh:
            gangs = set[str]()
            for uid in fresh:
                holder = self.holders.get(uid)
                reason = "are members of its gang that are not known" if holder is None else self._obstacle(holder)
                if reason:
                    return CannotGo(reason if not chosen else f"would go with pods that {reason}")
                assert holder is not None
                chosen.add(uid)
                gangs.add(holder.gang)
            more = {
                user for uid in fresh for claim in self.holders[uid].claims for user in self._occupancy.users(claim.uid)
            }
            for key in sorted(gangs - {""}):
                more.update(self._members_lost(key, chosen | more))
            fresh = sorted(more - chosen - self._going)
        # Last, of all together: each of them alone may be within the budget (test_a_budget_is_never_exceeded).
        return self._over_budget(chosen) or frozenset(chosen)

    def freed(self, uids: Collection[str]) -> Sequence[Claim]:
        """The claims that are free when these pods and those being deleted are gone, each once."""
        # A claim is free when its last user is gone. One that is being deleted is gone here, so that what it shares is
        # free with the other user (test_what_a_pod_that_is_going_shares_is_free_when_the_other_goes).
        gone = self._going | set(uids)
        claims = {claim.uid: claim for uid in uids for claim in self.holders[uid].claims}
        return [
            claim
            for claim in claims.values()
            if all(user in gone for user in self._occupancy.users(claim.uid))
            and not self._stranger(claim)
            and not _is_of_group(claim)
        ]

    def end(self, trial: WhatIf, uids: Collection[str]) -> None:
        """Let these pods go on trial. Those that are being deleted are taken to be gone as to what claims are free."""
        trial.remove([self.holders[uid].pod for uid in sorted(uids)], [claim.uid for claim in self.freed(uids)])

    def kept(self, forbidden: Mapping[str, Collection[str]]) -> Sequence[KeptPods]:
        """The pods that cannot go, by reason, the most frequent reason first; at most ``MOST_REASONS``.

        Args:
            forbidden: further reasons, with pods by UID.
        """
        found: dict[str, list[str]] = defaultdict(list)
        for uid, holder in self.holders.items():
            if not holder.going and isinstance(together := self.together(uid), CannotGo):
                found[str(together)].append(holder.pod)
        for reason, uids in forbidden.items():
            found[reason] += [self.holders[uid].pod for uid in uids]
        groups = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
        return [KeptPods(reason, len(pods), tuple(sorted(pods)[:_MOST_NAMED])) for reason, pods in groups][
            :MOST_REASONS
        ]

    # One pod

    def _obstacle(self, holder: Holder) -> str:
        """Why the pod itself cannot go; "" if it can."""
        if holder.priority >= self.priority and (holder.claims or not holder.gang):
            # A member without devices goes with the others, but keeps none of them from going.
            return _NOT_LOWER
        if holder.kept or (spared := self.spared.get(holder.pod, "")):
            return holder.kept or spared
        if len(holder.budgets) > 1:
            return "are selected by several PodDisruptionBudgets, which the Eviction API refuses"
        for budget in holder.budgets:
            if self._occupancy.budgets.get(budget, 0) < 1:
                return f"PodDisruptionBudget {budget} does not let go"
        return self.claims_obstacle(holder)

    def claims_obstacle(self, holder: Holder) -> str:
        """Why the claims of a pod keep it from going, whoever asks; "" if they do not."""
        if holder.claims and all(map(_is_of_group, holder.claims)):
            return "use only claims of PodGroups, which last as long as these"
        return next(filter(None, map(self._claim_obstacle, holder.claims)), "")

    def _claim_obstacle(self, claim: Claim) -> str:
        results = claim.allocation.results if claim.allocation else ()
        if any(result.device.driver not in self._occupancy.drivers for result in results):
            return "hold devices of other drivers in a claim of ours"
        if any(result.admin_access for result in results):
            return "have admin access"
        return self._stranger(claim)

    def _stranger(self, claim: Claim) -> str:
        """Why the end of the holders does not free the claim; "" if it does."""
        for consumer in claim.reserved_for:
            if consumer.resource == _PODS and consumer.uid not in self.holders:
                return "share a claim with a pod that is not known"
            if consumer.resource not in (_PODS, _POD_GROUPS):
                return f"share a claim with {consumer.resource}"
        return ""

    # Several pods

    def _over_budget(self, chosen: Collection[str]) -> CannotGo | None:
        counted = Counter(budget for uid in chosen for budget in self.holders[uid].budgets)
        for budget, pods in counted.items():
            allowed = self._occupancy.budgets.get(budget, 0)
            if pods > allowed:
                return CannotGo(f"are more than the {allowed} that PodDisruptionBudget {budget} lets go")
        return None

    def _members_lost(self, key: str, chosen: Collection[str]) -> Collection[str]:
        """The members that have to go because these go: none, those of their sub-groups, or all."""
        gang = self._occupancy.gangs.get(key)
        if gang is None:
            return ()
        members = [member for member in gang.members if member.uid not in self._going]
        left = [member for member in members if member.uid not in chosen]
        tasks = Counter(member.task for member in left)
        sizes = Counter(dict(gang.succeeded)) + Counter(one.sub_group for one in left if one.sub_group is not None)
        # A sub-group below its size is of no use to anybody, so all of it goes. Those that have succeeded fill their
        # place in it, but are no pods that could go (test_a_sub_group_goes_whole_and_the_gang_with_it_if_it_needs_it).
        whole = {one for one, count in sizes.items() if count >= gang.sub_groups[one[0]].size}
        broken = {one.sub_group for one in members if one.uid in chosen and one.sub_group is not None} - whole
        number = Counter(kind for kind, _ in whole)
        enough = (
            len(left) >= gang.minimum
            and all(tasks[task] >= least for task, least in gang.task_minimums)
            and (gang.quorum is None or gang.quorum.is_met(tasks))
            and all(number[kind] >= gang.sub_groups[kind].minimum for kind, _ in broken)
        )
        return {member.uid for member in members if not enough or member.sub_group in broken}


def _is_of_group(claim: Claim) -> bool:
    """Return whether the claim is reserved for a PodGroup: the end of its pods does not free it."""
    return any(consumer.resource == _POD_GROUPS for consumer in claim.reserved_for)


class Prices:
    """Prices of pods that go together."""

    def __init__(self, fleet: Fleet, bonds: Bonds):
        self._fleet = fleet
        self._bonds = bonds
        self._cards: dict[str, Mapping[Card, int]] = {}
        self._parts: dict[str, int] = {}
        self._alone: dict[str, Price] = {}

    def price(self, uids: Collection[str]) -> Price:
        """The price of these pods, at least one, which are all that go."""
        if len(uids) == 1:
            (uid,) = uids
            return self._of_one(uid)
        holders = [self._bonds.holders[uid] for uid in uids]
        claims = {claim.uid: claim for holder in holders for claim in holder.claims}
        # Members without devices count as pods that are lost, but not by their priority: they go because others do.
        return (
            max([holder.priority for holder in holders if holder.claims] or [holder.priority for holder in holders]),
            sum([self._parts_of(claim) for claim in claims.values()]),
            len(holders),
            *[-created for created in sorted([holder.created for holder in holders])],
        )

    def _of_one(self, uid: str) -> Price:
        known = self._alone.get(uid)
        if known is None:
            one = self._bonds.holders[uid]
            known = one.priority, sum([self._parts_of(claim) for claim in one.claims]), 1, -one.created
            self._alone[uid] = known
        return known

    def cards(self, uid: str) -> Mapping[Card, int]:
        """The cards that the pod takes, and how much of each."""
        found: dict[Card, int] = {}
        for claim in self._bonds.holders[uid].claims:
            for card, parts in self._cards_of(claim).items():
                found[card] = found.get(card, 0) + parts
        return found

    def _parts_of(self, claim: Claim) -> int:
        known = self._parts.get(claim.uid)
        if known is None:
            known = self._parts[claim.uid] = sum(self._cards_of(claim).values())
        return known

    def _cards_of(self, claim: Claim) -> Mapping[Card, int]:
        known = self._cards.get(claim.uid)
        if known is None:
            known = self._fleet.ledger.card_parts(claim.allocation) if claim.allocation else {}
            self._cards[claim.uid] = known
        return known


@dataclass(frozen=True, slots=True)
class Market:
    """What a search for victims needs, whoever they are for.

    Attributes:
        cluster: where the pods that are being deleted are taken to be gone.
        trials: the trials that all searches may take.
    """

    cluster: Cluster
    bonds: Bonds
    prices: Prices
    trials: Trials

    def candidates(self, uids: Iterable[str]) -> list[Uids]:
        """The sets of pods that go together, for pods that may go, each once, the cheapest first."""
        found = {together for uid in uids if not isinstance(together := self.bonds.together(uid), CannotGo)}
        return sorted(found, key=lambda together: (self.prices.price(together), sorted(together)))
