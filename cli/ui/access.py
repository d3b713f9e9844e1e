"""Who is let in, and what they may see: the one user of this machine, or users of a cluster with their own tokens.

Whose a token is and what its user may list is asked of the API server, and the answer is kept for a while. It is kept
of the user, so another token of the same user costs one review and no more. Tokens that are not known are reviewed in a
line of their own: whoever sends many that nobody has keeps the API server no busier than that, lets others that are new
wait for their turn, and keeps nobody out who is known.
"""

import hashlib
import hmac
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from cli.decisions.allowance import Limits
from cli.ui.questions import ClusterQuestions
from driver.clock import Clock
from driver.errors import LodeError
from driver.kube.api import ACCESS_REVIEWS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiError, Object, Resource


class NoTurn(LodeError):
    """Somebody does not get a turn now; the message says why."""


class WaitingLine:
    """A line of those who ask. Thread-safe.

    Each has one place in it. So whoever asks again does that after all others who wait now.

    Args:
        at_once: whose turn it is at once.
        most: in the line, those included.
        longest_wait: in seconds.
    """

    def __init__(self, at_once: int, most: int, longest_wait: float):
        self._at_once = at_once
        self._most = most
        self._longest_wait = longest_wait
        self._line: list[Hashable] = []
        self._moved = threading.Condition()

    def __len__(self) -> int:
        """How many have a turn or wait for one."""
        with self._moved:
            return len(self._line)

    @contextmanager
    def turn(self, who: Hashable) -> Iterator[None]:
        """Wait for a turn, which lasts until the block ends.

        Raises:
            NoTurn: the same one is in the line already, or the line is too long or too slow.
        """
        with self._moved:
            if who in self._line:
                raise NoTurn("another question of yours is being answered; ask again when it is")
            if len(self._line) >= self._most:
                raise NoTurn(f"{len(self._line)} others ask before you; ask again in a minute")
            self._line.append(who)
            if not self._moved.wait_for(lambda: who in self._line[: self._at_once], self._longest_wait):
                self._leave(who)
                raise NoTurn(f"others have asked for {self._longest_wait:g} seconds; ask again in a minute")
        try:
            yield
        finally:
            with self._moved:
                self._leave(who)

    def _leave(self, who: Hashable) -> None:
        self._line.remove(who)
        self._moved.notify_all()


TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
KEPT_SECONDS: Final = 30.0
"""How long the answers of the API server count: a right that is taken away is seen for so long."""
REFUSED_SECONDS: Final = 300.0
"""How long it counts that somebody may not list something in a namespace: of many namespaces, most are not theirs."""
MOST_KEPT: Final = 500
"""Tokens whose answers are kept, and as many of those that nobody has."""
_AT_ONCE: Final = 4
"""Reviews at once of users and tokens that are known, and as many tokens that are not."""
_MOST_WAITING: Final = 64
"""In each of the two lines, which have as many places as there are connections, and more."""
_PATIENCE: Final = 10.0
"""Seconds that somebody waits for their turn."""
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_OF_THE_TOKEN: Final = "authentication.kubernetes.io/"
"""Keys with this prefix say which token of a service account it is, and which pod has it. They are no part of who it
is, and differ in every token."""


class NotAdmitted(LodeError):
    """Somebody is not let in; the message says what to do."""

    def __init__(self, status: HTTPStatus, message: str):
        self.status = status
        super().__init__(message)


@dataclass(eq=False)
class Account:
    """A user of the cluster.

    Attributes:
        spec: the user, as an access review takes it.
        party: the user's name. The service accounts of a namespace are one party: whoever may make one there makes as
            many as they like.
        allowed: what the API server said, and until when that counts, by resource and namespace.
        asking: held while the API server is asked about the user.
    """

    spec: Mapping[str, Any]
    party: str
    allowed: dict[tuple[Resource, str], tuple[bool, float]] = field(default_factory=dict)
    asking: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class _Token:
    account: Account
    until: float


class Reviews:
    """Asks the API server who somebody is and what they may list, and keeps the answers. Thread-safe.

    Args:
        api: with the right to create TokenReviews and SubjectAccessReviews.
    """

    def __init__(self, api: Api, clock: Clock):
        self._api = api
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: OrderedDict[bytes, _Token] = OrderedDict()
        """By the digest of a token: the tokens themselves are not kept. The one that was reviewed last is the last."""
        self._bad: OrderedDict[bytes, float] = OrderedDict()
        """Tokens that nobody has, and until when that counts."""
        self._accounts: WeakValueDictionary[str, Account] = WeakValueDictionary()
        """Those of ``_tokens``."""
        self._known = WaitingLine(_AT_ONCE, _MOST_WAITING, _PATIENCE)
        self._unknown = WaitingLine(_AT_ONCE, _MOST_WAITING, _PATIENCE)

    def account(self, token: str) -> Account | None:
        """Return the user who has a token; None if nobody has.

        Raises:
            NotAdmitted: the API server does not say it now.
        """
        digest = hashlib.sha256(token.encode()).digest()
        with self._lock:
            known, bad_until, now = self._tokens.get(digest), self._bad.get(digest, 0.0), self._clock.monotonic()
        if known is not None and now < known.until:
            return known.account
        if known is None and now < bad_until:
            return None
        status = self._create(self._unknown if known is None else self._known, TOKEN_REVIEWS, {"token": token})
        return self._keep(digest, dict(_subject(status)), now + KEPT_SECONDS)

    def may_list(self, account: Account, resource: Resource, namespace: str = "") -> bool:
        """Whether a user may list a kind in a namespace; "" for all of them.

        Raises:
            NotAdmitted: the API server does not say it now.
        """
        place = resource, namespace
        with account.asking:
            allowed, until = account.allowed.get(place, (False, 0.0))
            now = self._clock.monotonic()
            if now < until:
                return allowed
            wanted = {"verb": "list", "group": resource.group, "resource": resource.plural}
            wanted |= {"namespace": namespace} if namespace else {}
            status = self._create(self._known, ACCESS_REVIEWS, {**account.spec, "resourceAttributes": wanted})
            allowed = status.get("allowed") is True
            lasting = REFUSED_SECONDS if namespace and not allowed else KEPT_SECONDS
            account.allowed[place] = allowed, now + lasting
            return allowed

    def _keep(self, digest: bytes, spec: Mapping[str, Any], until: float) -> Account | None:
        with self._lock:
            self._tokens.pop(digest, None)
            self._bad.pop(digest, None)
            if not spec:
                self._bad[digest] = until
                if len(self._bad) > MOST_KEPT:
                    self._bad.popitem(last=False)
                return None
            name = json.dumps(spec, sort_keys=True)
            account = self._accounts.get(name) or Account(spec, _party(spec["user"]))
            self._accounts[name] = account
            self._tokens[digest] = _Token(account, until)
            if len(self._tokens) > MOST_KEPT:
                self._forget_one()
        with account.asking:  # namespaces come and go
            now = self._clock.monotonic()
            account.allowed = {place: found for place, found in account.allowed.items() if now < found[1]}
        return account

    def _forget_one(self) -> None:
        """Forget a token of the party that has most of them, so that nobody pushes out the others."""
        parties = Counter(one.account.party for one in self._tokens.values())
        ((most, _),) = parties.most_common(1)
        del self._tokens[next(digest for digest, one in self._tokens.items() if one.account.party == most)]

    def _create(self, line: WaitingLine, resource: Resource, spec: Object) -> Object:
        """The status of a review."""
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
        try:
            with line.turn(object()):
                return self._api.create(resource, review).get("status") or {}
        except NoTurn as error:
            message = f"many tokens are being looked at: {error}"
            raise NotAdmitted(HTTPStatus.TOO_MANY_REQUESTS, message) from error
        except ApiError as error:
            raise NotAdmitted(
                HTTPStatus.SERVICE_UNAVAILABLE, f"the API server does not say who you are: {error}"
            ) from error


def _subject(status: Object) -> Iterator[tuple[str, Any]]:
    """The user of a token review, as an access review takes it; nothing if the token is not valid."""
    user = status.get("user") or {}
    if status.get("authenticated") is True and user.get("username"):
        yield "user", user["username"]
        yield from ((name, user[name]) for name in ("uid", "groups") if user.get(name))
        if extra := {key: said for key, said in (user.get("extra") or {}).items() if not key.startswith(_OF_THE_TOKEN)}:
            yield "extra", extra


def _party(user: str) -> str:
    return user.rpartition(":")[0] if user.startswith(_SERVICE_ACCOUNT) else user


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
