"""Reads objects of a cluster one by one, as far as the user's rights and the objects allow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from cli import live
from driver.errors import SENSELESS, InvalidInput
from driver.kube.api import Api, ApiError, Forbidden, NotFound, Object, Resource
from driver.limits import bounded

_MOST_TEXT: Final = 300
"""Characters of an error that is kept: it may quote what somebody else has written."""

T = TypeVar("T")


class Reading:
    """Reads, and remembers what could not be read.

    Attributes:
        unread: the reason why a check could not be made, by check.
        unreadable: objects that make no sense, by kind and name, with the error.
    """

    def __init__(self, api: Api):
        self._api = api
        self.unread: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}

    def attempt(self, check: str, read: Callable[[], T], otherwise: T) -> T:
        """What ``read`` gives; where the user may not read it, ``otherwise``, and the check counts as unread.

        Raises:
            OperatorFault: the API server does not answer, or does not know the user.
        """
        try:
            return read()
        except Forbidden as error:
            if error.status == 401:
                raise live.fault_of_api_error(error) from error
            self.unread[check] = str(error)
        except ApiError as error:
            raise live.fault_of_api_error(error) from error
        except live.NoRights as error:
            self.unread[check] = str(error)
        return otherwise

    def each(self, resource: Resource, read: Callable[[Object], T], namespace: str = "") -> Iterator[T]:
        """Read each object of the kind. An object that cannot be decoded is left out, and named at the end."""
        for obj in live.each(self._api, resource, namespace):
            with self.naming(f"{resource.kind} {_name_of(obj)}"):
                yield read(obj)

    @contextmanager
    def naming(self, subject: str) -> Iterator[None]:
        """Ends the block where an object makes no sense, which is named at the end."""
        try:
            yield
        except (*SENSELESS, InvalidInput) as error:
            self.unreadable[subject] = bounded(repr(error), _MOST_TEXT)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object; None if it does not exist."""
        try:
            return self._api.get(resource, name, namespace)
        except NotFound:
            return None


def _name_of(obj: Any) -> str:
    """``object_key``, also of an object that does not say who it is."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    parts = [str(known[part]) for part in ("namespace", "name") if known.get(part)]
    return bounded("/".join(parts), _MOST_TEXT) or "without a name"
