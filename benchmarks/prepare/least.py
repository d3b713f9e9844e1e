"""``python -m benchmarks.prepare.least``: the least that a kubelet plugin in Python does for a claim.

It has the libraries of our plugin and the files of a claim, and nothing else: it checks nothing, asks no hardware and
syncs no file. Its times are those of the language and of the libraries, which our plugin cannot be faster than.
"""

import os
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from driver.files import SystemFiles
from driver.kube.access import in_cluster
from driver.kube.api import RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.kube.client import KubeClient
from driver.kube.codec import encode_object
from driver.observe import logger
from kubeletplugin.proto import dra_v1_pb2, dra_v1_pb2_grpc, pluginregistration_v1_pb2_grpc
from kubeletplugin.server import RegistrationService
from kubeletplugin.sockets import socket_paths

_WORKERS = 32


class LeastService:
    """``v1.DRAPlugin`` for claims of this driver alone.

    Args:
        folder: where records and the files that containers read are kept.
        cdi: where CDI specs are kept.
    """

    def __init__(self, api: Api, folder: Path, cdi: Path):
        self._api = api
        self._folder = folder
        self._cdi = cdi
        self._files = SystemFiles()
        self._held: dict[str, Object] = {}

    def NodePrepareResources(
        self, request: dra_v1_pb2.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> dra_v1_pb2.NodePrepareResourcesResponse:
        """Every claim with the devices of its allocation."""
        response = dra_v1_pb2.NodePrepareResourcesResponse()
        for wanted in request.claims:
            claim = self._api.get(RESOURCE_CLAIMS, wanted.name, wanted.namespace)
            allocation = self._held[wanted.uid] = claim["status"]["allocation"]
            results = allocation["devices"]["results"]
            self._write(self._metadata(wanted.uid), {"metadata": claim["metadata"], "requests": results})
            self._write(self._spec(wanted.uid), _cdi_spec(wanted.uid, allocation))
            self._write(self._folder / "records.json", self._held)
            response.claims[wanted.uid].devices.extend(_device(wanted.uid, result) for result in results)
        return response

    def NodeUnprepareResources(
        self, request: dra_v1_pb2.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> dra_v1_pb2.NodeUnprepareResourcesResponse:
        """Forget the claims."""
        response = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for wanted in request.claims:
            del self._held[wanted.uid]
            self._spec(wanted.uid).unlink()
            self._metadata(wanted.uid).unlink()
            self._write(self._folder / "records.json", self._held)
            response.claims[wanted.uid].error = ""
        return response

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        self._files.write(str(path), encode_object(content), "content")

    def _metadata(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"

    def _spec(self, uid: str) -> Path:
        return self._cdi / f"least-{uid}.json"


def _cdi_spec(uid: str, allocation: Object) -> Object:
    node = {"path": "/dev/card", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3}
    devices = [
        {"name": f"{uid}_{result['device']}", "containerEdits": {"env": ["CARDS=void"], "deviceNodes": [node]}}
        for result in allocation["devices"]["results"]
    ]
    return {"cdiVersion": "0.6.0", "kind": "least/claim", "devices": devices}


def _device(uid: str, result: Object) -> dra_v1_pb2.Device:
    return dra_v1_pb2.Device(
        request_names=[result["request"]],
        pool_name=result["pool"],
        device_name=result["device"],
        cdi_device_ids=[f"least/claim={uid}_{result['device']}"],
    )


def main(driver: str, cards: str, node: str, kubelet: str, cdi: str, service_account: str) -> int:
    """Publish so many cards and serve until SIGTERM. ``service_account`` is the folder with the token and the CA."""
    api = KubeClient(in_cluster(os.environ, Path(service_account)))
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(int(cards))]
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    api.create(RESOURCE_SLICES, {"metadata": {"name": driver}, "spec": spec})
    paths = socket_paths(kubelet, driver)
    folder = Path(paths.service).parent
    folder.mkdir(parents=True)
    registration = RegistrationService(driver, paths.service, lambda: None, logger("least"))
    claims: Any = dra_v1_pb2_grpc
    registrations: Any = pluginregistration_v1_pb2_grpc
    server = grpc.server(ThreadPoolExecutor(_WORKERS))
    for path in (paths.service, paths.registration):
        server.add_insecure_port(f"unix:{path}")
    claims.add_DRAPluginServicer_to_server(LeastService(api, folder, Path(cdi)), server)
    registrations.add_RegistrationServicer_to_server(registration, server)
    server.start()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopped.set())
    stopped.wait()
    server.stop(grace=1).wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
