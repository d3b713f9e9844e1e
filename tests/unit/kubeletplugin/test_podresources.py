"""The kubelet is asked over its socket which devices it hands out."""

from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from driver.observe import logger
from driver.settings import Settings
from kubeletplugin.kubelet_devices import KubeletClaim, KubeletDevices, PluginDevice
from kubeletplugin.podresources import PodResources, socket_paths
from kubeletplugin.proto import podresources_v1_pb2 as pb


def offered(_request: Any, _context: grpc.ServicerContext) -> Any:
    """Two GPUs."""
    devices = [pb.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["GPU-a", "GPU-b"])]
    return pb.AllocatableResourcesResponse(devices=devices)


def given(_request: Any, _context: grpc.ServicerContext) -> Any:
    """One of them, and a device of a DRA driver."""
    devices = [pb.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["GPU-a"])]
    identity = pb.CDIDevice(name="gpu.nvidia.com/claim=uid_gpu_gpu-0")
    claimed = pb.ClaimResource(
        driver_name="gpu.nvidia.com", pool_name="n1", device_name="gpu-0", cdi_devices=[identity]
    )
    claims = [pb.DynamicResource(claim_name="c", claim_namespace="team", claim_resources=[claimed])]
    containers = [
        pb.ContainerResources(name="main", devices=devices),
        pb.ContainerResources(name="side", dynamic_resources=claims),
    ]
    return pb.ListPodResourcesResponse(pod_resources=[pb.PodResources(name="p", containers=containers)])


Answer = Callable[[Any, grpc.ServicerContext], Any]
Serve = Callable[..., str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a kubelet that answers these calls; returns the path of its socket."""
    servers: list[grpc.Server] = []

    def start(**answers: Answer) -> str:
        requests: dict[str, Any] = {
            "List": pb.ListPodResourcesRequest,
            "GetAllocatableResources": pb.AllocatableResourcesRequest,
        }
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                answer, requests[name].FromString, lambda message: message.SerializeToString()
            )
            for name, answer in answers.items()
        }
        server = grpc.server(futures.ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),))
        path = str(tmp_path / "kubelet.sock")
        server.add_insecure_port(f"unix:{path}")
        server.start()
        servers.append(server)
        return path

    yield start
    for each in servers:
        each.stop(None)


def test_it_says_what_device_plugins_offer_and_what_containers_have(serve: Serve) -> None:
    found = PodResources(
        ["/does/not/exist", serve(List=given, GetAllocatableResources=offered)], logger("test")
    ).devices()
    first, second = (PluginDevice("nvidia.com/gpu", name) for name in ("GPU-a", "GPU-b"))
    assert found == KubeletDevices(frozenset({first, second}), frozenset({first}), frozenset({"gpu.nvidia.com"}))


def test_it_says_of_which_claims_containers_have_devices(serve: Serve) -> None:
    found = PodResources([serve(List=given)], logger("test")).claims()
    assert found == (KubeletClaim("team", "c", frozenset({"gpu.nvidia.com/claim=uid_gpu_gpu-0"}), "p", "side"),)


def test_a_kubelet_that_does_not_answer_names_no_claims() -> None:
    assert PodResources(["/does/not/exist"], logger("test")).claims() == ()


def test_a_kubelet_that_does_not_answer_is_not_known_to_hand_out_nothing(serve: Serve) -> None:
    resources = PodResources([serve(List=given)], logger("test"))
    with capture_logs() as lines:
        assert [resources.devices(), resources.devices()] == [None, None]
    (line,) = lines
    assert "UNIMPLEMENTED" in line["reason"]


def test_without_a_socket_it_is_said_once_where_it_was_looked_for() -> None:
    resources = PodResources(["/does/not/exist"], logger("test"))
    with capture_logs() as lines:
        assert [resources.devices(), resources.devices()] == [None, None]
    (line,) = lines
    assert "/does/not/exist" in line["reason"]


def test_the_socket_is_looked_for_in_the_hosts_files_too() -> None:
    path = "/var/lib/kubelet/pod-resources/kubelet.sock"
    assert socket_paths(Settings()) == (f"/host{path}", path)
