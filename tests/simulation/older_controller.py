"""A controller from before ``status.devices``. As kube-scheduler, it does not say which cards a claim gets."""

from typing import Any

from driver.kube.api import RESOURCE_CLAIMS, ApiCall
from driver.kube.decorator import WriteDecorator


class SilentAllocations(WriteDecorator):
    """The API, to which allocations are written without what the status says about the devices."""

    def call(self, call: ApiCall) -> Any:
        """See ``Api``."""
        if (call.verb, call.resource, call.subresource) == ("patch", RESOURCE_CLAIMS, "status"):
            status = {name: value for name, value in call.body["status"].items() if name != "devices"}
            call = call._replace(body={**call.body, "status": status})
        return super().call(call)
