"""Who is let in, and what they may see: the one user of this machine, or users of a cluster with their own tokens."""

import hashlib
import hmac
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

from cli.ui.questions import ClusterQuestions
from driver.clock import Clock
from driver.errors import LodeError
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiError, Object, Resource

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
KEPT_SECONDS: Final = 30.0
"""How long the answers of the API server about a token count: a right that is taken away is seen for so long."""
_MOST_KEPT: Final = 500
"""Tokens whose answers are kept."""
_MOST_CHARACTERS: Final = 1 << 14
"""Of a token."""
_MOST_AT_ONCE: Final = 4
"""Tokens that are reviewed at once. Who sends many that nobody knows keeps the API server no busier than that."""
_NAMES_NEED: Final = (RESOURCE_CLAIMS, PODS)
"""What somebody may list in a namespace whose names they see."""


class NotAdmitted(LodeError):
    """Somebody is not let in; the message says what to do."""

    def __init__(self, status: HTTPStatus, message: str):
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who is let in.

    Attributes:
        sees: whether they may see the names in a namespace; raises ``NotAdmitted`` if nobody says so now.
        asking: a connection to the cluster with their rights.
    """

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
        self._visitor = Visitor(sees=lambda _: True, asking=lambda: nullcontext(questions))

    def admit(self, token: str) -> Visitor:
        """See ``Door``."""
        if not hmac.compare_digest(token.encode(), self._token):
            raise NotAdmitted(HTTPStatus.UNAUTHORIZED, "open the whole address that lode ui printed, with its token")
        return self._visitor


@dataclass(slots=True)
class _Reviewed:
    """What is known of a token.

    Attributes:
        spec: the user, as an access review takes it; empty if nobody has the token.
        allowed: by resource and namespace.
    """

    until: float
    spec: Mapping[str, Any]
    allowed: dict[tuple[Resource, str], bool] = field(default_factory=dict)


class ReviewedDoor:
    """Lets in users of a cluster who may list ResourceSlices. Thread-safe.

    They see the names in a namespace whose claims and pods they may list, and the state of every card.

    Args:
        api: with the right to create TokenReviews and SubjectAccessReviews.
        connect: connects to the cluster with a token.
    """

    def __init__(self, api: Api, connect: Callable[[str], AbstractContextManager[ClusterQuestions]], clock: Clock):
        self._api = api
        self._connect = connect
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, _Reviewed] = OrderedDict()
        """By the digest of a token: the tokens themselves are not kept."""
        self._reviewing = threading.BoundedSemaphore(_MOST_AT_ONCE)

    def admit(self, token: str) -> Visitor:
        """See ``Door``."""
        if not token or len(token) > _MOST_CHARACTERS:
            raise _unknown()
        reviewed = self._reviewed(token)
        if not reviewed.spec:
            raise _unknown()
        if not self._may_list(reviewed, RESOURCE_SLICES, ""):
            raise NotAdmitted(
                HTTPStatus.FORBIDDEN,
                "you may not list resourceslices of API group resource.k8s.io, which say what cards there are; have an "
                "administrator bind you to the ClusterRole lode-ui-user",
            )
        return Visitor(sees=partial(self._sees, reviewed), asking=partial(self._connect, token))

    def _sees(self, reviewed: _Reviewed, namespace: str) -> bool:
        everywhere = all(self._may_list(reviewed, resource, "") for resource in _NAMES_NEED)
        return everywhere or all(self._may_list(reviewed, resource, namespace) for resource in _NAMES_NEED)

    def _reviewed(self, token: str) -> _Reviewed:
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock.monotonic()
        with self._lock:
            known = self._known.get(digest)
        if known is not None and now < known.until:
            return known
        if not self._reviewing.acquire(blocking=False):
            raise NotAdmitted(HTTPStatus.TOO_MANY_REQUESTS, "many tokens are being looked at; try again")
        try:
            status = self._create(TOKEN_REVIEWS, {"token": token})
        finally:
            self._reviewing.release()
        found = _Reviewed(now + KEPT_SECONDS, dict(_subject(status)))
        with self._lock:
            self._known[digest] = found
            self._known.move_to_end(digest)
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        return found

    def _may_list(self, reviewed: _Reviewed, resource: Resource, namespace: str) -> bool:
        place = resource, namespace
        if place not in reviewed.allowed:
            wanted = {"verb": "list", "group": resource.group, "resource": resource.plural}
            wanted |= {"namespace": namespace} if namespace else {}
            status = self._create(ACCESS_REVIEWS, {**reviewed.spec, "resourceAttributes": wanted})
            reviewed.allowed[place] = status.get("allowed") is True
        return reviewed.allowed[place]

    def _create(self, resource: Resource, spec: Object) -> Object:
        """The status of a review."""
        try:
            review = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
            return self._api.create(resource, review).get("status") or {}
        except ApiError as error:
            raise NotAdmitted(
                HTTPStatus.SERVICE_UNAVAILABLE, f"the API server does not say who you are: {error}"
            ) from error


def _unknown() -> NotAdmitted:
    return NotAdmitted(
        HTTPStatus.UNAUTHORIZED, "send a token that the cluster knows, such as that of kubectl create token NAME"
    )


def _subject(status: Object) -> Iterator[tuple[str, Any]]:
    """The user of a token review, as an access review takes it; nothing if the token is not valid."""
    user = status.get("user") or {}
    if status.get("authenticated") is True and user.get("username"):
        yield "user", user["username"]
        yield from ((name, user[name]) for name in ("uid", "groups", "extra") if user.get(name))
