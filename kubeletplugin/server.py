"""The plugin's gRPC servers: claims and health on one socket, registration on the other."""

from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from driver.errors import OperatorFault
from driver.observe import Logger
from kubeletplugin.health import HealthFeed, HealthService
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare import ClaimRef, PreparedDevice, PrepareError, Preparer
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
from kubeletplugin.proto import pluginregistration_v1_pb2 as pb
from kubeletplugin.sockets import channel_to, remove_dead_sockets, socket_paths

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


PREPARE_WORKERS = 32
UNPREPARE_WORKERS = 16
STREAM_WORKERS = 8
"""Numbers of workers for each kind of call. A kubelet makes one call for each pod that starts or ends, and one long
call for each health stream. Prepares can wait for unprepares, so unprepares have workers of their own."""
PROBE_SECONDS = 2.0
"""Longest time of the plugin's own calls over its sockets. The kubelet's probe waits 5 s."""
STOP_SECONDS = 20.0
"""Time for calls in progress when the plugin stops. Its pod is killed after 30 s."""


class _WithWorkers:
    """A gRPC method with workers of its own instead of those of the server."""

    def __init__(self, behavior: Callable[[Any, grpc.ServicerContext], Any], workers: int, name: str):
        self._behavior = behavior
        self.experimental_thread_pool = futures.ThreadPoolExecutor(workers, thread_name_prefix=name)
        """gRPC finds the workers by this name."""

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._behavior(request, context)


class DraService:
    """``v1.DRAPlugin``, which kubelets call since Kubernetes 1.34."""

    def __init__(self, preparer: Preparer):
        self._preparer = preparer
        self.NodePrepareResources = _WithWorkers(self._prepare, PREPARE_WORKERS, "prepare")
        self.NodeUnprepareResources = _WithWorkers(self._unprepare, UNPREPARE_WORKERS, "unprepare")

    def _prepare(
        self, request: dra_v1_pb2.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> dra_v1_pb2.NodePrepareResourcesResponse:
        """Prepare the claims; returns an entry for each, with its devices or its error."""
        answers = self._preparer.prepare(_refs(request.claims), context.is_active)
        response = dra_v1_pb2.NodePrepareResourcesResponse()
        for uid, answer in answers.items():
            entry = response.claims[uid]
            if isinstance(answer, PrepareError):
                entry.error = answer.message
            else:
                entry.devices.extend(_device(device) for device in answer.devices)
        return response

    def _unprepare(
        self, request: dra_v1_pb2.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> dra_v1_pb2.NodeUnprepareResourcesResponse:
        """Unprepare the claims; returns an entry for each, with its error if there was one."""
        response = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for uid, failure in self._preparer.unprepare(_refs(request.claims), context.is_active).items():
            response.claims[uid].error = failure.message if failure else ""
        return response


def _device(device: PreparedDevice) -> dra_v1_pb2.Device:
    message = dra_v1_pb2.Device(
        request_names=[device.request],
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=list(device.cdi_ids),
    )
    if device.share_id:
        message.share_id = device.share_id
    return message


class PluginServer:
    """Serves one kubelet.

    Args:
        pod_uid: distinguishes the sockets of the instances of a rolling update.
        on_registered: called after each registration with the kubelet.

    Raises:
        OperatorFault: the path of the kubelet's root is too long for sockets.
    """

    def __init__(self, node: NodeContext, preparer: Preparer, pod_uid: str, on_registered: Callable[[], None]):
        settings = node.settings
        self._paths = socket_paths(settings.kubeletplugin.kubelet_root, settings.driver_name, pod_uid)
        self._prefix = f"{settings.driver_name}-"
        self._log = node.log
        self._feed = HealthFeed(node.hardware.source, node.clock, settings, node.name, node.log)
        self._registration = RegistrationService(settings.driver_name, self._paths.service, on_registered, node.log)
        self._service = _server(STREAM_WORKERS)
        _add_services(self._service, preparer, self._feed)
        self._registrar = _server(2)
        registration_stubs: Any = pluginregistration_v1_pb2_grpc
        registration_stubs.add_RegistrationServicer_to_server(self._registration, self._registrar)

    @property
    def problem(self) -> str:
        """The reason why the kubelet does not use this plugin; "" if it does."""
        return self._registration.problem

    def probe(self) -> str:
        """The reason why the kubelet cannot reach this plugin over its sockets; "" if it can.

        The files may have been removed, or all workers for unprepare may hang. Then only a restart helps.
        """
        registration, service = self._paths.registration, self._paths.service
        try:
            with channel_to(registration) as channel:
                registrar: Any = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
                info = registrar.GetInfo(pluginregistration_v1_pb2.InfoRequest(), timeout=PROBE_SECONDS)
            with channel_to(service) as channel:
                plugin: Any = dra_v1_pb2_grpc.DRAPluginStub(channel)
                plugin.NodeUnprepareResources(dra_v1_pb2.NodeUnprepareResourcesRequest(), timeout=PROBE_SECONDS)
        except grpc.RpcError as error:
            return f"sockets {registration} and {service}: one does not answer: {error.code().name}"
        return "" if info.endpoint == service else f"socket {registration}: belongs to another plugin: {info.endpoint}"

    def start(self) -> None:
        """Serve claims, then register with the kubelet.

        Raises:
            OperatorFault, OSError: a socket cannot be opened; the operator must correct its folder. Nothing is served;
                create a new server to retry.
        """
        try:
            self._start()
        except (OperatorFault, OSError):
            self._service.stop(grace=0).wait()
            raise

    def _start(self) -> None:
        service, registration = Path(self._paths.service), Path(self._paths.registration)
        service.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        registration.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        for directory, prefix in ((service.parent, "dra"), (registration.parent, self._prefix)):
            if dead := remove_dead_sockets(str(directory), prefix):
                self._log.info("sockets of killed instances removed", paths=dead)
        for server, path in ((self._service, service), (self._registrar, registration)):
            path.unlink(missing_ok=True)
            _listen(server, path)
            server.start()
        self._log.info("serving the kubelet", service=str(service), registration=str(registration))

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Unregister, finish calls in progress for up to ``seconds``, and stop."""
        Path(self._paths.registration).unlink(missing_ok=True)
        self._registrar.stop(grace=1).wait()
        self._feed.close()
        self._service.stop(grace=seconds).wait()
        Path(self._paths.service).unlink(missing_ok=True)


def _listen(server: grpc.Server, path: Path) -> None:
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise OperatorFault(f"socket {path}: cannot be opened: {error}") from error


def _server(workers: int) -> grpc.Server:
    return grpc.server(futures.ThreadPoolExecutor(workers, thread_name_prefix="grpc"))


def _add_services(server: grpc.Server, preparer: Preparer, feed: HealthFeed) -> None:
    stubs: Any = dra_v1_pb2_grpc
    stubs.add_DRAPluginServicer_to_server(DraService(preparer), server)
    for messages, stubs in (
        (dra_health_v1_pb2, dra_health_v1_pb2_grpc),
        (dra_health_v1alpha1_pb2, dra_health_v1alpha1_pb2_grpc),
    ):
        stubs.add_DRAResourceHealthServicer_to_server(HealthService(messages, feed), server)


def _refs(claims: Iterable[dra_v1_pb2.Claim]) -> Sequence[ClaimRef]:
    return [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in claims]
