"""The files of a node, damaged in any way, and the kubelet's calls: the program starts and serves other claims."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from google.protobuf.message import DecodeError
from prometheus_client.parser import text_string_to_metric_families

from driver.kube.api import RESOURCE_CLAIMS, Api, ApiCall, Object
from driver.kube.codec import decode_object
from driver.kube.decorator import ApiDecorator
from driver.observe import logger
from kubeletplugin.hardware.nvidia.sharing.region import CardLimit, read_region, write_limit
from kubeletplugin.prepare import ClaimRef, NamedClaim, PrepareError, PrepareResult
from kubeletplugin.proto import dra_v1_pb2
from kubeletplugin.share_usage import ShareUsage
from tests.fuzz.hostile import encoded, mutated
from tests.fuzz.source import Source
from tests.fuzz.targets.target import Target
from tests.simulation.clock import VirtualClock
from tests.unit.kubeletplugin.hami_regions import UUID, put_region, recorded
from tests.unit.kubeletplugin.plugin_node import (
    CDI,
    METADATA,
    PLUGIN,
    SHARE_A,
    PluginNode,
    opaque,
    prepare,
    recover,
    result,
    share,
)

_FOLDERS: Final = (PLUGIN, CDI, METADATA)


def _files(data: bytes) -> None:
    """With one file damaged or gone, claims can still be unprepared, and a new claim gets a card that nobody has."""
    source = Source(data)
    rig = PluginNode()
    plugin = rig.plugin()
    first = rig.claim("first", [result("gpu-0")])
    second = rig.claim("second", [result("gpu-1-mig-1g-5gb-6")])
    prepare(plugin, first)
    prepare(plugin, second)
    names = [f"{folder}/{name}" for folder in _FOLDERS for name in sorted(rig.files.names(folder))]
    name = source.choice(names)
    content = rig.files.read(name) or b""
    match source.below(4):
        case 0:
            rig.files.remove(name)
        case 1:
            rig.files.write(name, content[: source.below(len(content) + 1)])
        case 2:
            rig.files.write(name, source.rest())
        case _:
            rig.files.write(name, encoded(_damaged(content, source)))
    later = rig.plugin()
    recover(later)
    third = rig.claim("third", [result("gpu-2")])
    assert isinstance(later.prepare([third])[third.uid], PrepareResult)
    taken = rig.claim("taken", [result("gpu-0")])
    assert isinstance(later.prepare([taken])[taken.uid], PrepareError), "a card in use is handed out"
    assert later.unprepare([third, second, first]) == {third.uid: None, second.uid: None, first.uid: None}


def _damaged(content: bytes, source: Source) -> Any:
    try:
        return mutated(json.loads(content), source)
    except ValueError:
        return source.text()


_RESULTS: Final = [share("gpu-0-share", SHARE_A), result("gpu-1")]


def _claims(data: bytes) -> None:
    """Whatever an allocated claim says, the kubelet gets an answer for it, and the other claim of the call its card."""
    source = Source(data)
    rig = PluginNode()
    plugin = rig.plugin()
    odd = rig.claim("odd", _RESULTS, [opaque(kind="GpuConfig", sharing="none")])
    other = rig.claim("other", [result("gpu-2")])
    raw = rig.api.get(RESOURCE_CLAIMS, "odd", "team")
    stored = decode_object(encoded({**raw, "status": mutated(raw["status"], source)}))
    if not stored:
        return
    answers = rig.plugin(api=_Stored(rig.api, stored)).prepare([odd, other])
    assert isinstance(answers[other.uid], PrepareResult)
    assert odd.uid in answers
    assert plugin.unprepare([odd, other]) == {odd.uid: None, other.uid: None}


def _calls(data: bytes) -> None:
    """Whatever a caller on the socket sends, there is an answer for each claim."""
    try:
        request = dra_v1_pb2.NodePrepareResourcesRequest.FromString(data)
    except DecodeError:  # gRPC refuses it before it reaches the program
        return
    plugin = PluginNode().plugin()
    refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in request.claims]
    assert set(plugin.prepare(refs)) == {ref.uid for ref in refs}
    assert set(plugin.unprepare(refs)) == {ref.uid for ref in refs}


def _regions(data: bytes) -> None:
    """Whatever a container writes where HAMi-core counts, the use of another claim is shown, and its limit is kept."""
    source = Source(data)
    claims = {uid: NamedClaim("team", uid, {"gpu-0-share": UUID}) for uid in ("odd", "other")}
    with TemporaryDirectory() as folder:
        usage = ShareUsage(folder, lambda: claims, lambda: (), VirtualClock(), logger("fuzz"))
        odd = put_region(Path(folder), UUID, "odd", recorded("two"))
        put_region(Path(folder), UUID, "other", recorded("one"))
        content = bytearray(odd.read_bytes())
        while not source.exhausted:
            place = (source.below(4000) if source.below(2) else -1 - source.below(64)) % len(content)
            content[place] = source.below(256)
        odd.write_bytes(content if source.below(4) else content[: source.below(1 << 16)])
        found = {
            sample.labels["claim"]: sample.value
            for family in text_string_to_metric_families(usage.own().decode())
            for sample in family.samples
        }
        assert found["other"] == 2690650112
        write_limit(odd.parent, (0,), CardLimit(1 << 30, 30))
        assert all(use.limit_bytes == 1 << 30 for use in read_region(odd.parent)[:1])


class _Stored(ApiDecorator):
    """The API, which serves another version of one claim than the one in memory."""

    def __init__(self, api: Api, claim: Object):
        super().__init__(api)
        self._claim = claim

    def call(self, call: ApiCall) -> Any:
        if (call.verb, call.resource, call.name) == ("get", RESOURCE_CLAIMS, self._claim["metadata"]["name"]):
            return dict(self._claim)
        return super().call(call)


_PREPARE: Final = dra_v1_pb2.NodePrepareResourcesRequest(
    claims=[dra_v1_pb2.Claim(namespace="team", name="c", uid=uid) for uid in ("u", "../u", "")]
)

TARGETS: Final = (
    Target("files", _files, tuple(bytes([file, how, 1]) for file in range(6) for how in range(4))),
    Target("claims", _claims),
    Target("regions", _regions, (b"", bytes([1, 0, 0, 7]), bytes([0, 3, 9]))),
    Target("calls", _calls, (_PREPARE.SerializeToString(),)),
)
