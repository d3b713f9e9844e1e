"""Another writer who is faster: it touches each object between a program's decision and its first write there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from driver.kube.api import Api, ApiCall, ApiError, Invalid, NotFound, Object, Resource
from driver.kube.decorator import ApiDecorator

T = TypeVar("T")

REFUSED: Final = "refused"
"""The write failed, and the object is as the rival left it."""
MADE: Final = "made"
"""The write took effect although the rival was faster."""
_GIVEN_BY_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


@dataclass(frozen=True, slots=True)
class _Place:
    resource: Resource
    name: str
    namespace: str


Act = Callable[[Api, _Place], None]


class Rival(ApiDecorator):
    """The API as a program reaches it. The first write of one kind comes too late.

    Args:
        kind_of: the kind of a write, in words.
        contested: the kind of write that comes too late; "" if none does.
        act: what the rival does to an object that exists. What is to be created, it creates first.

    Attributes:
        made: the kinds of all writes that took effect.
        outcome: of the contested write; "" if it was not made.
    """

    def __init__(self, api: Api, kind_of: Callable[[ApiCall], str], contested: str, act: Act):
        super().__init__(api)
        self._kind_of = kind_of
        self._contested = contested
        self._act = act
        self._left: Object | None = None
        """The contested object as the rival left it."""
        self.made: set[str] = set()
        self.outcome = ""
        self.invalid: Callable[[ApiCall], bool] = lambda call: False
        """Which writes the API server refuses, whoever is faster. A program may try them in another way."""

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        if not call.is_write:
            return proceed()
        kind = self._kind_of(call)
        place = _Place(call.resource, call.name, call.namespace)
        contested = kind == self._contested and not self.outcome
        if contested and self._left is None:
            if call.verb == "create":
                self._api.create(call.resource, call.body, call.namespace)
            else:
                self._act(self._api, place)
            self._left = self._read(place)
        if self.invalid(call):
            raise Invalid(f"{call}: refused", status=422, reason="Invalid")
        try:
            answer = proceed()
        except ApiError:
            if contested:
                assert self._read(place) == self._left, f"{kind}: made in part"
                self.outcome = REFUSED
            raise
        self.made.add(kind)
        if contested:
            self.outcome = MADE
        return answer

    def _read(self, place: _Place) -> Object:
        return self._api.get(place.resource, place.name, place.namespace)


def change(api: Api, place: _Place) -> None:
    """Change the object, in a field that no program of ours looks at."""
    marked = {"metadata": {"annotations": {"example.com/rival": "1"}}}
    api.patch(place.resource, place.name, marked, namespace=place.namespace)


def replace(api: Api, place: _Place) -> None:
    """Delete the object for good, and create one with its name and content."""
    old = api.get(place.resource, place.name, place.namespace)
    if old["metadata"].get("finalizers"):
        api.patch(place.resource, place.name, {"metadata": {"finalizers": None}}, namespace=place.namespace)
    api.delete(place.resource, place.name, place.namespace, grace_period_seconds=0)
    metadata = {name: value for name, value in old["metadata"].items() if name not in _GIVEN_BY_SERVER}
    new = api.create(place.resource, {**old, "metadata": metadata}, place.namespace)
    if status := old.get("status"):
        _set_status(api, place, {**new, "status": status})


def _set_status(api: Api, place: _Place, obj: Object) -> None:
    """Give the status too, where the kind has one that a create ignores."""
    try:
        api.update(place.resource, obj, "status")
    except NotFound:
        return
