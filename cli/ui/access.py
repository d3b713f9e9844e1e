"""Who is let in, and what they may see: the one user of this machine, or users of a cluster with their own tokens."""

import hmac
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

from cli.allowance import Limits
from cli.ui.questions import ClusterQuestions
from cli.ui.reviews import Account, NotAdmitted, Reviews
from driver.clock import Clock
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api

LIMITS: Final = Limits(pods=500, seconds=2)
"""Of a what-if in a cluster, where the program that decides it serves others meanwhile."""
_MOST_CHARACTERS: Final = 1 << 14
"""Of a token."""
_NAMES_NEED: Final = (RESOURCE_CLAIMS, PODS)
"""What somebody may list in a namespace whose names they see."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who is let in.

    Attributes:
        who: has one question at a time.
        sees: whether they may see the names in a namespace; raises ``NotAdmitted`` if nobody says so now.
        asking: a connection to the cluster with their rights.
    """

    who: str
    sees: Callable[[str], bool]
    asking: Callable[[], AbstractContextManager[ClusterQuestions]]


class Door(Protocol):
    """Lets people in."""

    def admit(self, token: str) -> Visitor:
        """Return the visitor whose token it is.

        Raises:
            NotAdmitted: it is nobody's, or the visitor may not look.
        """


class OneUserDoor:
    """Lets in everybody who has the token of this run. They see everything that can be read."""

    def __init__(self, token: str, questions: ClusterQuestions):
        self._token = token.encode()
        self._visitor = Visitor("", sees=lambda _: True, asking=lambda: nullcontext(questions))

    def admit(self, token: str) -> Visitor:
        """See ``Door``."""
        if not hmac.compare_digest(token.encode(), self._token):
            raise NotAdmitted(HTTPStatus.UNAUTHORIZED, "open the whole address that lode ui printed, with its token")
        return self._visitor


class ReviewedDoor:
    """Lets in users of a cluster who may list ResourceSlices. Thread-safe.

    They see the names in a namespace whose claims and pods they may list, and the state of every card. What they ask
    beside that has ``LIMITS``.

    Args:
        api: with the right to create TokenReviews and SubjectAccessReviews.
        connect: connects to the cluster with a token.
    """

    def __init__(self, api: Api, connect: Callable[[str], AbstractContextManager[ClusterQuestions]], clock: Clock):
        self._reviews = Reviews(api, clock)
        self._connect = connect

    def admit(self, token: str) -> Visitor:
        """See ``Door``."""
        account = self._reviews.account(token) if 0 < len(token) <= _MOST_CHARACTERS else None
        if account is None:
            raise NotAdmitted(
                HTTPStatus.UNAUTHORIZED,
                "send a token that the cluster knows, such as that of kubectl create token NAME",
            )
        if not self._reviews.may_list(account, RESOURCE_SLICES):
            raise NotAdmitted(
                HTTPStatus.FORBIDDEN,
                "you may not list resourceslices of API group resource.k8s.io, which say what cards there are; have an "
                "administrator bind you to the ClusterRole lode-ui-user",
            )
        return Visitor(account.party, sees=partial(self._sees, account), asking=partial(self._limited, token))

    def _sees(self, account: Account, namespace: str) -> bool:
        may_list = partial(self._reviews.may_list, account)
        return any(all(may_list(resource, place) for resource in _NAMES_NEED) for place in ("", namespace))

    @contextmanager
    def _limited(self, token: str) -> Iterator[ClusterQuestions]:
        with self._connect(token) as questions:
            yield replace(questions, limits=LIMITS)
