"""Carries out one sequence, call by call."""

from typing import Any, Protocol

from controller.election import Deposed
from controller.writing.calls import Answered, carry_out
from controller.writing.steps import Answer, Lane, ObjectKey, Step, WriteResult, WriteSequence, at_version
from driver.errors import LodeError
from driver.kube.api import Api, Unavailable


class Terms(Protocol):
    """The present term of leadership: without one, nothing may be written."""

    @property
    def term(self) -> int | None:
        """The number of the present term, which differs from every earlier one; None while nothing may be written."""
        ...


class Execution:
    """Carries out the steps of one sequence in order, as long as the term lasts in which they were decided."""

    def __init__(self, sequence: WriteSequence, terms: Terms):
        self.sequence = sequence
        self._terms = terms
        self._rest = sequence.steps
        self._answers: dict[ObjectKey, Answer] = {}
        self._versions: dict[ObjectKey, str] = {}
        self._failure: Exception | None = None

    def step(self, api: Api) -> WriteResult | None:
        """Make the next call; returns the result of the sequence if that was the last.

        Errors of the API and of the election are not raised: they are part of the result.
        """
        try:
            self._check(self._rest[0])
            answered = carry_out(api, self._rest[0])
        except (Deposed, Unavailable) as error:
            return self._result(error, rest=self._rest, failure=self._failure)
        except LodeError as error:
            if self._failure is None and self.sequence.lane is Lane.PLACING:
                self._failure = error
                self._rest = self.sequence.reads
                return None
            return self._result(error)
        self._take(answered)
        return None if self._rest else self._result(self._failure, next_page=answered.next_page)

    def _take(self, answered: Answered) -> None:
        for answer in answered.answers:
            self._answers[answer.resource, answer.key] = answer
            if answer.object is not None:
                self._versions[answer.resource, answer.key] = answer.object["metadata"]["resourceVersion"]
        self._rest = tuple(at_version(step, self._versions) for step in self._rest[1:])

    def _result(self, error: Exception | None, **more: Any) -> WriteResult:
        return WriteResult(self.sequence, tuple(self._answers.values()), error, term=self.sequence.term, **more)

    def _check(self, step: Step) -> None:
        if self._terms.term != self.sequence.term:
            target = step.target
            raise Deposed(f"{target.resource.kind} {target.key}: not written: the term of leadership is over")
