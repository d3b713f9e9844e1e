"""The kubelet's side of a plugin's sockets: registers the plugins in a folder, and calls them as a kubelet does.

It calls the real gRPC servers over real sockets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc

from kubeletplugin.proto import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)
from kubeletplugin.sockets import channel_to
from simulation.kubernetes.dra_plugin import ClaimName, ClaimResponse, PluginDown

GET_INFO_SECONDS = 1.0
NOTIFY_SECONDS = 5.0
CALL_SECONDS = 45.0
"""The time limits of a real kubelet."""

_DRA: Mapping[str, tuple[ModuleType, Any]] = {"v1.DRAPlugin": (dra_v1_pb2, dra_v1_pb2_grpc)}
_HEALTH: Mapping[str, tuple[Any, Any]] = {
    "v1.DRAResourceHealth": (dra_health_v1_pb2, dra_health_v1_pb2_grpc),
    "v1alpha1.DRAResourceHealth": (dra_health_v1alpha1_pb2, dra_health_v1alpha1_pb2_grpc),
}


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A plugin that was registered, and the connection to it."""

    socket: str
    driver: str
    endpoint: str
    versions: tuple[str, ...]
    channel: grpc.Channel


class PluginClient:
    """Implements ``simulation.kubernetes.dra_plugin.DraPlugin`` over the sockets below ``kubelet_root``.

    Args:
        versions: the service versions this kubelet knows, so that it can act as an older one.
            It uses the first of them that a plugin lists.
        call_seconds: the deadline of each call.
    """

    def __init__(
        self,
        kubelet_root: str,
        driver: str,
        versions: Sequence[str] = (*_DRA, *_HEALTH),
        call_seconds: float = CALL_SECONDS,
    ):
        self._folder = Path(kubelet_root, "plugins_registry")
        self._driver = driver
        self._versions = versions
        self._call_seconds = call_seconds
        self._plugins: list[RegisteredPlugin] = []

    def registered(self) -> None:
        """Register new plugins and forget removed ones.

        Raises:
            PluginDown: no plugin of the driver is registered.
        """
        if not self.sync():
            raise PluginDown(f"DRA driver {self._driver} is not registered")

    def sync(self) -> list[RegisteredPlugin]:
        """Register plugins with new sockets and forget those without one; returns all, the newest last."""
        present = {str(path): path.lstat().st_ino for path in self._folder.glob("*.sock")}
        for plugin in [plugin for plugin in self._plugins if plugin.socket not in present]:
            plugin.channel.close()
            self._plugins.remove(plugin)
        for path in sorted(set(present) - {plugin.socket for plugin in self._plugins}):
            if registered := self._register(path):
                self._plugins.append(registered)
        return list(self._plugins)

    def prepare(self, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        """NodePrepareResources; errors and CDI ids by claim uid."""
        return {
            uid: ClaimResponse(response.error, tuple(i for device in response.devices for i in device.cdi_device_ids))
            for uid, response in self.prepare_resources(claims).items()
        }

    def unprepare(self, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        """NodeUnprepareResources; errors by claim uid."""
        return {uid: ClaimResponse(response.error) for uid, response in self.unprepare_resources(claims).items()}

    def prepare_resources(self, claims: Sequence[ClaimName]) -> Mapping[str, Any]:
        """NodePrepareResources: NodePrepareResourceResponse by uid.

        Raises:
            PluginDown: no plugin, no connection, or no response for one of the claims.
        """
        return self._call("NodePrepareResources", claims)

    def unprepare_resources(self, claims: Sequence[ClaimName]) -> Mapping[str, Any]:
        """NodeUnprepareResources: NodeUnprepareResourceResponse by uid.

        Raises:
            PluginDown: no plugin, no connection, or no response for one of the claims.
        """
        return self._call("NodeUnprepareResources", claims)

    def health(self, seconds: float = CALL_SECONDS) -> Iterator[Any]:
        """The health stream: NodeWatchResourcesResponse messages until it ends or ``seconds`` have passed."""
        plugin = self._newest()
        messages, stubs = self._service(plugin, _HEALTH)
        stream = stubs.DRAResourceHealthStub(plugin.channel).NodeWatchResources(
            messages.NodeWatchResourcesRequest(), timeout=seconds
        )
        try:
            yield from stream
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
                raise PluginDown(str(error)) from error
        finally:
            stream.cancel()

    def close(self) -> None:
        """Close all connections."""
        for plugin in self._plugins:
            plugin.channel.close()
        self._plugins.clear()

    def _register(self, path: str) -> RegisteredPlugin | None:
        with channel_to(path) as channel:
            stub: Any = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
            status = pluginregistration_v1_pb2.RegistrationStatus(plugin_registered=True)
            try:
                info = stub.GetInfo(pluginregistration_v1_pb2.InfoRequest(), timeout=GET_INFO_SECONDS)
                if info.type != "DRAPlugin" or info.name != self._driver:
                    return None
                if not set(info.supported_versions) & set(self._versions) & set(_DRA):
                    status.plugin_registered = False
                    status.error = f"none of {', '.join(info.supported_versions)} is supported"
                stub.NotifyRegistrationStatus(status, timeout=NOTIFY_SECONDS)
            except grpc.RpcError:
                return None
        if not status.plugin_registered:
            return None
        service = channel_to(info.endpoint)
        return RegisteredPlugin(path, info.name, info.endpoint, tuple(info.supported_versions), service)

    def _newest(self) -> RegisteredPlugin:
        if not self._plugins:
            raise PluginDown(f"DRA driver {self._driver} is not registered")
        return self._plugins[-1]

    def _service(self, plugin: RegisteredPlugin, known: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any]:
        for version in plugin.versions:
            if version in known and version in self._versions:
                return known[version]
        raise PluginDown(f"{plugin.socket}: serves none of {', '.join(known)}")

    def _call(self, method: str, claims: Sequence[ClaimName]) -> Mapping[str, Any]:
        plugin = self._newest()
        messages, stubs = self._service(plugin, _DRA)
        request = getattr(messages, f"{method}Request")(
            claims=[messages.Claim(namespace=c.namespace, name=c.name, uid=c.uid) for c in claims]
        )
        try:
            responses = getattr(stubs.DRAPluginStub(plugin.channel), method)(request, timeout=self._call_seconds).claims
        except grpc.RpcError as error:
            raise PluginDown(f"{method}: {error}") from error
        if missing := [claim.uid for claim in claims if claim.uid not in responses]:
            raise PluginDown(f"{method}: no response for {', '.join(missing)}")
        return dict(responses)
