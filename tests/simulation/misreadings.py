"""Questions to the cards of a node that have no answer: once, for a while, or until somebody mends the cards."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from kubeletplugin.hardware import Health

Question = Literal["cards", "health", "observe", "actions", "ensure", "release", "edits", "readings"]
"""A method of the port."""
QUESTIONS: tuple[Question, ...] = get_args(Question)


@dataclass(slots=True)
class Misreading:
    """A question without an answer."""

    question: Question
    card: str = ""
    """``Card.name``; "" if it is that of every card."""
    left: int | None = None
    """How many calls have no answer; None if none has until this is taken away."""
    done: bool = False
    """Whether what was asked for is done, and only the answer is lost."""


@dataclass(slots=True)
class Misreadings:
    """What is not answered now."""

    now: list[Misreading] = field(default_factory=list)

    def meets(self, question: Question, card: str, *, done: bool = False) -> bool:
        """Whether a call has no answer.

        Args:
            card: ``Card.name``.
            done: whether the call has done its work.
        """
        for each in self.now:
            if each.question == question and each.card in ("", card) and each.done == done:
                if each.left is not None:
                    each.left -= 1
                    if not each.left:
                        self.now.remove(each)
                return True
        return False


UNREAD = Health("unknown", "the card does not say how it is")
"""The health of a card that was not read."""
