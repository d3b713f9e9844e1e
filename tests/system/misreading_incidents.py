"""Moments in which single questions to cards have no answer, in a history."""

import random

from tests.simulation.cluster import SimulatedCluster
from tests.simulation.misreadings import QUESTIONS, Misreading

SEEDS = 0.4
"""In how many histories questions have no answer."""
HAPPENS = 0.3
"""How often that begins after an action, in such a history."""
PASSES = 0.2
"""How often all of it has passed after an action."""


class MisreadingIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"misreadings of {seed}")
        self._cluster = cluster
        self._happen = self._random.random() < SEEDS

    def act(self) -> None:
        """Perhaps let some question have no answer, or all have one again."""
        if not self._happen:
            return
        if self._random.random() < HAPPENS:
            self._begin()
        if self._random.random() < PASSES:
            for hardware in self._cluster.hardware.values():
                hardware.misreadings.now.clear()

    def _begin(self) -> None:
        name = self._random.choice(list(self._cluster.nodes))
        hardware, question = self._cluster.hardware[name], self._random.choice(QUESTIONS)
        card = self._random.choice(("", *(card.name for card in hardware.cards_of_node.cards())))
        done = question in ("ensure", "release") and self._random.random() < 0.5
        misreading = Misreading(question, card, self._random.choice((1, 1, 2, 5, None)), done)
        hardware.misreadings.now.append(misreading)
        self._cluster.log.note(name, str(misreading))
