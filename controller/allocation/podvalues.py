"""What the values of an attribute have to be over all devices of one pod: in every claim of it, of whatever driver.

A constraint of a claim compares devices of that claim. Pods that start together may have to agree in more: each of them
gets one card on rail 0 and one on rail 3, from whichever of its claims. So the values are said for a pod, and a search
counts them while it picks devices. With {0, 3} wanted and two devices to be picked:

    pick    brings   missing   still to pick   may join next
    first   0        3         1               rail 3 only: after another rail 0, rail 3 could not come any more
    second  3        -         0               -

A device without the attribute, such as a network card, brings nothing and may join as long as enough are still to be
picked. A device with the value "" says that its value is not known, and may never join.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from controller.allocation.rules import value_text, values_of
from driver.model import Device

Texts = frozenset[str]
"""Values of an attribute as texts (``value_text``)."""


@dataclass(frozen=True, slots=True)
class PodValues:
    """The values that the devices of one pod have to have together.

    Attributes:
        attribute: the qualified name.
        claims: the pod's claims, by their numbers in the question.
        exactly: the values, each of which some device has to bring; None for any values, of which there has to be one.
        distinct: whether no other pod of the question with the same attribute may have one of the pod's values.
        taken: values that no device may have.
        most: the most devices that the claims can get.
    """

    attribute: str
    claims: tuple[int, ...]
    exactly: Texts | None = None
    distinct: bool = False
    taken: Texts = frozenset()
    most: int = 0

    def admits(self, values: Texts) -> bool:
        """Whether a device with these values may join, whatever was picked before."""
        return not ("" in values or values & self.taken or (self.exactly is not None and not values <= self.exactly))


def texts_of(device: Device, attribute: str) -> Texts:
    """The device's values of the attribute as texts; empty if it has none, or one that cannot be read."""
    return frozenset([value_text(value) for _, value in values_of(device, attribute)])


class PodValuesTracker:
    """The values that one pod has while devices are picked and given back.

    Args:
        number: tells the pod from others.
        owners: for each value, how many devices each pod has with it; one object for all pods that have to differ.
    """

    __slots__ = ("_counts", "_left", "_number", "_owners", "rule")

    def __init__(self, rule: PodValues, number: int, owners: dict[str, Counter[int]]):
        self.rule = rule
        self._number = number
        self._owners = owners
        self._counts = Counter[str]()
        self._left = rule.most

    def admits(self, device: Device) -> bool:
        """Whether the device may join, so that what is still to be picked may bring all values that are missing."""
        values = texts_of(device, self.rule.attribute)
        if not self.rule.admits(values) or self._missing(values) >= self._left:
            return False
        return not self.rule.distinct or all(
            number == self._number or not count
            for value in values
            for number, count in self._owners.get(value, {}).items()
        )

    def add(self, device: Device) -> None:
        """Pick the device."""
        self._change(device, 1)

    def drop(self, device: Device) -> None:
        """Give the device back."""
        self._change(device, -1)

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return not self._missing(frozenset())

    @property
    def state(self) -> Hashable:
        """Equal if the same may join from now on, as far as this pod is concerned."""
        return frozenset(value for value, count in self._counts.items() if count)

    def _missing(self, joining: Texts) -> int:
        if self.rule.exactly is None:
            return not joining and not any(self._counts.values())
        return sum([not self._counts[value] for value in self.rule.exactly - joining])

    def _change(self, device: Device, count: int) -> None:
        self._left -= count
        for value in texts_of(device, self.rule.attribute):
            self._counts[value] += count
            if self.rule.distinct:
                self._owners.setdefault(value, Counter())[self._number] += count


class PodValuesTrackers:
    """The trackers of one question, by claim.

    Args:
        claims: the number of claims of the question.
    """

    def __init__(self, rules: Sequence[PodValues], claims: int):
        owners: dict[str, dict[str, Counter[int]]] = {rule.attribute: {} for rule in rules}
        self._every = [PodValuesTracker(rule, number, owners[rule.attribute]) for number, rule in enumerate(rules)]
        self._of_claim: list[list[PodValuesTracker]] = [[] for _ in range(claims)]
        for tracker in self._every:
            for claim in tracker.rule.claims:
                self._of_claim[claim].append(tracker)

    def conflict(self, claim: int, device: Device) -> str:
        """The attribute whose values keep the device from joining for the claim; "" for none."""
        return next((one.rule.attribute for one in self._of_claim[claim] if not one.admits(device)), "")

    def add(self, claim: int, device: Device) -> None:
        """Pick the device for the claim."""
        for tracker in self._of_claim[claim]:
            tracker.add(device)

    def drop(self, claim: int, device: Device) -> None:
        """Give the device back."""
        for tracker in self._of_claim[claim]:
            tracker.drop(device)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes whose values count."""
        return frozenset([tracker.rule.attribute for tracker in self._every])

    @property
    def are_complete(self) -> bool:
        """Whether no value is missing for any pod."""
        return all([tracker.is_complete for tracker in self._every])

    @property
    def state(self) -> Hashable:
        """Equal if the same may join from now on."""
        return tuple([tracker.state for tracker in self._every])
