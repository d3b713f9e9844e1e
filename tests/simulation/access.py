"""Which kinds the API serves, and what programs may do: both may change at any time.

A cluster need not serve every kind that the controller reads, and may serve one in another version after an upgrade. An
operator may take a right from a program by mistake, and give it back.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from controller.state import DEVICE_TAINT_RULES_BETA
from driver.kube.api import DEVICE_TAINT_RULES, PODS, Api, ApiCall, Forbidden, NotFound, Resource, Unavailable
from driver.kube.decorator import ApiDecorator
from tests.simulation.event_log import EventLog

STORED_AS: Final = {DEVICE_TAINT_RULES_BETA: DEVICE_TAINT_RULES}
"""Kinds in other versions than the one in which the API in memory has them."""
Role = Literal["controller", "plugin", "anybody"]
"""Rights are taken from controllers and plugins only."""


@dataclass(frozen=True, slots=True)
class Right:
    """To read the objects of a kind (get, list, watch), or to write them."""

    role: Role
    resource: Resource
    writes: bool

    def __str__(self) -> str:
        return f"{self.role} may {'write' if self.writes else 'read'} {self.resource.plural}"


class Access:
    """What the programs of ours can reach of the API.

    Args:
        log: each change counts there as a write of its kind, so that watches are tried again.
    """

    def __init__(self, log: EventLog):
        self._log = log
        self._taken: set[Right] = set()
        self._unserved: set[Resource] = {*STORED_AS}
        self.gates_stuck = False
        """Whether controllers get no answer when they remove a gate, as from a webhook of others that is not there."""

    @property
    def taken(self) -> frozenset[Right]:
        """The rights that are taken away now."""
        return frozenset(self._taken)

    def serves(self, resource: Resource) -> bool:
        """Whether the kind is served in this version."""
        return resource not in self._unserved

    def serve(self, resource: Resource, *, served: bool) -> None:
        """The kind is served in this version from now on, or is not."""
        if self.serves(resource) != served:
            (self._unserved.discard if served else self._unserved.add)(resource)
            if resource in STORED_AS:
                self._log.follow(resource, STORED_AS[resource])
            self._log.note("api", f"{'serves' if served else 'does not serve'} {resource.plural}.{resource.version}")
            self._log.count_write(resource)

    def take(self, right: Right) -> None:
        """Take a right away."""
        self._taken.add(right)
        self._log.note("operator", f"takes away: {right}")
        self._log.count_write(right.resource)

    def give_back(self, right: Right) -> None:
        """Give a right back."""
        self._taken.remove(right)
        self._log.note("operator", f"gives back: {right}")
        self._log.count_write(right.resource)

    def check(self, role: Role, call: ApiCall) -> None:
        """Refuse a call that is not possible now.

        Raises:
            Forbidden: the right to it is taken away.
            NotFound: its kind is not served.
            Unavailable: it removes a gate, and gates are stuck.
        """
        removes_gate = role == "controller" and call.resource == PODS and call.verb == "patch" and not call.subresource
        if removes_gate and self.gates_stuck:
            raise Unavailable("failed calling webhook: no answer", status=500)
        if self._taken and Right(role, call.resource, call.is_write) in self._taken:
            raise Forbidden(f"{call} is forbidden", status=403, reason="Forbidden")
        if not self.serves(call.resource):
            raise NotFound("the server could not find the requested resource", status=404, reason="NotFound")


class AccessApi(ApiDecorator):
    """The API as a program of ours can reach it."""

    def __init__(self, api: Api, access: Access, role: Role):
        super().__init__(api)
        self._access = access
        self._role: Role = role

    def call(self, call: ApiCall) -> Any:
        """See ``Api``; a call that is not possible now is refused."""
        self._access.check(self._role, call)
        if not call.is_write and call.resource in STORED_AS:
            call = call._replace(resource=STORED_AS[call.resource])
        return self._api.call(call)
