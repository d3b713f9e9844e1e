"""How the kubelet learns of the plugin (``pluginregistration.Registration``)."""

from collections.abc import Callable, Sequence
from typing import Any

import grpc

from driver.observe import Logger
from kubeletplugin.proto import pluginregistration_v1_pb2 as pb

SUPPORTED_VERSIONS = ("v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""Best first: the kubelet takes the first of each kind that it knows.

Kubernetes 1.36 knows v1alpha1.DRAResourceHealth only. Kubernetes 1.37 prefers v1.DRAResourceHealth.
"""


class RegistrationService:
    """Says what the plugin is, and keeps what the kubelet made of it.

    Args:
        on_registered: called after each registration; a kubelet registers all plugins anew when it starts.
    """

    def __init__(self, driver: str, endpoint: str, on_registered: Callable[[], None], log: Logger):
        self._driver = driver
        self._endpoint = endpoint
        self._on_registered = on_registered
        self._log = log
        self.problem = "not registered with the kubelet yet"
        """"" while registered, else why not."""

    def GetInfo(self, request: Any, context: grpc.ServicerContext) -> pb.PluginInfo:
        """What the kubelet asks within a second of finding the socket."""
        versions: Sequence[str] = SUPPORTED_VERSIONS
        return pb.PluginInfo(type="DRAPlugin", name=self._driver, endpoint=self._endpoint, supported_versions=versions)

    def NotifyRegistrationStatus(
        self, request: pb.RegistrationStatus, context: grpc.ServicerContext
    ) -> pb.RegistrationStatusResponse:
        """Take note of the kubelet's verdict."""
        if request.plugin_registered:
            self.problem = ""
            self._log.info("registered with the kubelet", endpoint=self._endpoint)
            self._on_registered()
        else:
            self.problem = f"the kubelet refused the registration: {request.error}"
            self._log.error("registration refused", endpoint=self._endpoint, error=request.error)
        return pb.RegistrationStatusResponse()
