"""Registration of the plugin with the kubelet (``pluginregistration.Registration``)."""

from collections.abc import Callable, Sequence
from typing import Any

import grpc

from driver.observe import Logger
from kubeletplugin.proto import pluginregistration_v1_pb2 as pb

SUPPORTED_VERSIONS = ("v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""Preferred versions first: the kubelet uses the first of each kind that it knows.

Kubernetes 1.36 knows v1alpha1.DRAResourceHealth only. Kubernetes 1.37 prefers v1.DRAResourceHealth.
"""


class RegistrationService:
    """Answers the kubelet's questions about the plugin and records the result of the registration.

    Args:
        on_registered: called after each registration; a kubelet registers all plugins again when it starts.
    """

    def __init__(self, driver: str, endpoint: str, on_registered: Callable[[], None], log: Logger):
        self._driver = driver
        self._endpoint = endpoint
        self._on_registered = on_registered
        self._log = log
        self.problem = "not registered with the kubelet yet"
        """The reason why the plugin is not registered; "" while it is."""

    def GetInfo(self, request: Any, context: grpc.ServicerContext) -> pb.PluginInfo:
        """The kubelet calls this within a second of finding the socket."""
        versions: Sequence[str] = SUPPORTED_VERSIONS
        return pb.PluginInfo(type="DRAPlugin", name=self._driver, endpoint=self._endpoint, supported_versions=versions)

    def NotifyRegistrationStatus(
        self, request: pb.RegistrationStatus, context: grpc.ServicerContext
    ) -> pb.RegistrationStatusResponse:
        """The kubelet reports whether it registered the plugin."""
        if request.plugin_registered:
            self.problem = ""
            self._log.info("registered with the kubelet", endpoint=self._endpoint)
            self._on_registered()
        else:
            self.problem = f"the kubelet rejected the registration: {request.error}"
            self._log.error("registration rejected", endpoint=self._endpoint, error=request.error)
        return pb.RegistrationStatusResponse()
