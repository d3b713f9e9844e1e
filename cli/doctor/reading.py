"""Reads objects of a cluster one by one, as far as the user's rights and the objects allow."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from cli import live
from driver.errors import SENSELESS, InvalidInput
from driver.kube.api import Api, ApiError, Forbidden, NotFound, Object, Resource
from driver.kube.objects import object_key

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
            try:
                yield read(obj)
            except (*SENSELESS, InvalidInput) as error:
                self.unreadable[f"{resource.kind} {object_key(obj)}"] = repr(error)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object; None if it does not exist."""
        try:
            return self._api.get(resource, name, namespace)
        except NotFound:
            return None
