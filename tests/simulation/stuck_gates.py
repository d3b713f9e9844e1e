"""An API server that does not answer controllers which remove gates: a webhook of others does not answer it."""

from driver.kube.api import PODS, Api, ApiCall, Unavailable
from driver.kube.decorator import ApiDecorator


class StuckGates:
    """Whether gates cannot be removed now."""

    stuck = False


class StuckGatesApi(ApiDecorator):
    """The API as a controller has it."""

    def __init__(self, api: Api, gates: StuckGates):
        super().__init__(api)
        self._gates = gates

    def before(self, call: ApiCall) -> None:
        """Give no answer to the removal of a gate.

        Raises:
            Unavailable: gates are stuck.
        """
        if self._gates.stuck and call.resource == PODS and call.verb == "patch" and not call.subresource:
            raise Unavailable("failed calling webhook: no answer", status=500)
