"""The kubelet is asked over its socket which devices it hands out."""

import socket
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import grpc
import pytest
from structlog.testing import capture_logs

from driver.observe import logger
from driver.settings import Settings
from kubeletplugin.kubelet_devices import KubeletAnswer, KubeletClaim, KubeletDevices, PluginDevice, SilentKubelet
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
                answer, requests[name].FromString, lambda it: it if it == NO_MESSAGE else it.SerializeToString()
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
    assert isinstance(found, KubeletDevices)
    said = KubeletDevices(frozenset({first, second}), frozenset({first}), frozenset({"gpu.nvidia.com"}))
    assert replace(found, run="") == said


def test_it_says_of_which_claims_containers_have_devices(serve: Serve) -> None:
    found = PodResources([serve(List=given)], logger("test")).claims()
    assert found == (KubeletClaim("team", "c", frozenset({"gpu.nvidia.com/claim=uid_gpu_gpu-0"}), "p", "side"),)


def test_a_kubelet_that_does_not_answer_names_no_claims() -> None:
    assert PodResources(["/does/not/exist"], logger("test")).claims() == ()


def test_a_kubelet_that_does_not_answer_is_not_known_to_hand_out_nothing(serve: Serve) -> None:
    resources = PodResources([serve(List=given)], logger("test"))
    with capture_logs() as lines:
        assert [resources.devices(), resources.devices()] == [SilentKubelet(), SilentKubelet()]
    (line,) = lines
    assert "UNIMPLEMENTED" in line["reason"]


NO_MESSAGE = b"\xff\xff"


class Failing:
    """Answers a call, but at first with an error, or with OK and something that is no message, so many times."""

    def __init__(self, answer: Answer, code: grpc.StatusCode, times: int):
        self._answer = answer
        self._code = code
        self._times = times

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Any:
        if self._times == 0:
            return self._answer(request, context)
        self._times -= 1
        if self._code is not grpc.StatusCode.OK:
            return context.abort(self._code, "not now")
        return NO_MESSAGE


@pytest.mark.parametrize("call", ["List", "GetAllocatableResources"])
@pytest.mark.parametrize("code", grpc.StatusCode, ids=lambda code: code.name)
@pytest.mark.parametrize(("times", "expected"), [(1, 1), (3, 3), (99, 5)], ids=["once", "for a while", "for ever"])
def test_an_error_of_either_call_is_no_answer_and_the_next_one_is(
    serve: Serve, call: str, code: grpc.StatusCode, times: int, expected: int
) -> None:
    calls: dict[str, Answer] = {"List": given, "GetAllocatableResources": offered}
    resources = PodResources([serve(**{**calls, call: Failing(calls[call], code, times)})], logger("test"))
    found = [resources.devices() for _ in range(5)]
    assert found[:expected] == [SilentKubelet()] * expected
    assert all(isinstance(one, KubeletDevices) and one.offered and one.used for one in found[expected:])


def test_a_kubelet_that_starts_again_is_another_run_and_one_that_was_busy_is_not(serve: Serve, tmp_path: Path) -> None:
    answers = {"List": given, "GetAllocatableResources": Failing(offered, grpc.StatusCode.RESOURCE_EXHAUSTED, 1)}
    resources = PodResources([serve(**answers)], logger("test"))
    runs = [found.run for found in (resources.devices(), resources.devices(), resources.devices()) if answered(found)]
    (tmp_path / "kubelet.sock").unlink()
    assert resources.devices() == SilentKubelet(has_socket=False)
    serve(List=given, GetAllocatableResources=offered)
    runs += [found.run for found in (resources.devices(), resources.devices()) if answered(found)]
    assert len(runs) == 4
    assert runs[0] == runs[1] != runs[2] == runs[3]


def answered(found: KubeletAnswer) -> TypeGuard[KubeletDevices]:
    return isinstance(found, KubeletDevices)


def test_answers_of_two_runs_are_not_put_together(serve: Serve, tmp_path: Path) -> None:
    def start_again(request: Any, context: grpc.ServicerContext) -> Any:
        (tmp_path / "kubelet.sock").unlink()
        serve(List=given, GetAllocatableResources=offered)
        return given(request, context)

    resources = PodResources([serve(List=start_again, GetAllocatableResources=offered)], logger("test"))
    assert resources.devices() == SilentKubelet()
    assert answered(resources.devices())


def test_nobody_listens_at_a_socket_that_a_killed_kubelet_has_left(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert PodResources([str(path)], logger("test")).devices() == SilentKubelet(has_socket=True)


@pytest.mark.parametrize(("mebibytes", "read"), [(17, True), (33, False)])
def test_the_answer_may_be_long(serve: Serve, mebibytes: int, read: bool) -> None:
    name = "x" * 2**20

    def long(request: Any, context: grpc.ServicerContext) -> Any:
        answer = given(request, context)
        answer.pod_resources.extend(pb.PodResources(name=name) for _ in range(mebibytes))
        return answer

    resources = PodResources([serve(List=long, GetAllocatableResources=offered)], logger("test"))
    assert answered(resources.devices()) is read


def test_without_a_socket_it_is_said_once_where_it_was_looked_for() -> None:
    resources = PodResources(["/does/not/exist"], logger("test"))
    with capture_logs() as lines:
        assert [resources.devices(), resources.devices()] == [SilentKubelet(has_socket=False)] * 2
    (line,) = lines
    assert "/does/not/exist" in line["reason"]


def test_the_socket_is_looked_for_in_the_hosts_files_too() -> None:
    path = "/var/lib/kubelet/pod-resources/kubelet.sock"
    assert socket_paths(Settings()) == (f"/host{path}", path)
