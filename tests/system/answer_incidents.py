"""Odd answers of the API server to controllers' writes, once, for a while and for ever, in a history."""

import random
from typing import Final

from tests.simulation.answers import ANSWERS, FOR_EVER, WRITES, Trouble
from tests.simulation.cluster import SimulatedCluster

SEEDS: Final = 0.25
"""In how many histories writes get odd answers."""
HAPPENS: Final = 0.4
"""How often another one begins after an action, in such a history."""
ENDS: Final = 0.1
"""How often all of them end after an action."""
PASSES: Final = 0.2
"""How often time passes after an action, so that it can be seen what comes of them."""
SECONDS: Final = 300.0
PLACING: Final = WRITES[:4]
"""The writes that most of the odd answers are to."""


class AnswerIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        # Of all draws one in which the histories have none that written changes are recorded with.
        self._random = random.Random(f"odd answers 2467 in {seed}")
        self._cluster = cluster
        self.happen = self._random.random() < SEEDS
        """Whether there are any."""

    def act(self) -> None:
        """Perhaps let odd answers begin or end, or time pass."""
        if not self.happen:
            return
        chance = self._random
        if chance.random() < HAPPENS:
            write = chance.choice(PLACING if chance.random() < 0.7 else WRITES)
            times, seconds = chance.choice(((1, FOR_EVER), (FOR_EVER, chance.uniform(1, 200)), (FOR_EVER, FOR_EVER)))
            until = self._cluster.clock.monotonic() + seconds
            digits = frozenset(chance.sample("0123456789", chance.choice((3, 10))))
            trouble = Trouble(write, chance.choice(ANSWERS), until, times, lambda name: name[-1:] in digits or not name)
            self._cluster.answers.troubles.append(trouble)
            self._cluster.log.note("api", f"answers {trouble.answer} to {write} for {seconds} s, {times} times")
        if chance.random() < ENDS:
            self.undo()
        if chance.random() < PASSES:
            self._cluster.advance(SECONDS)

    def undo(self) -> None:
        """The API server answers as it should."""
        self._cluster.answers.troubles.clear()
