import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.errors import OperatorFault
from driver.model import DeviceId, Result
from driver.quantity import Quantity
from kubeletplugin.inventory import Fabric
from kubeletplugin.prepare.checkpoint import (
    VERSION,
    Checkpoint,
    CorruptCheckpoint,
    Encoder,
    PreparedClaim,
    decode,
    decode_record,
    encode,
    encode_record,
)
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import ClaimPlan

PATH = "/var/lib/kubelet/plugins/lode.dev/checkpoint.json"
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
amounts = st.integers(0, 2**40).map(lambda n: Quantity.whole(n, "BinarySI"))
results = st.builds(
    Result,
    request=st.one_of(names, st.tuples(names, names).map("/".join)),
    device=st.builds(DeviceId, st.just("lode.dev"), st.just("node-a/lode.dev"), names),
    share_id=st.one_of(st.just(""), st.uuids().map(str)),
    consumed=st.dictionaries(st.sampled_from(["memory", "cores", "slots"]), amounts),
    admin_access=st.booleans(),
)
plans = st.builds(
    ClaimPlan,
    ref=st.builds(ClaimRef, names, names, st.uuids().map(str)),
    results=st.lists(results, max_size=2).map(tuple),
    pod_claim_name=st.one_of(st.just(""), names),
    fabric=st.builds(Fabric, names, names, names),
)
records = st.builds(PreparedClaim, plan=plans, state=st.sampled_from(["started", "completed"]), boot_id=names)
checkpoints = st.lists(records, max_size=3).map(
    lambda found: Checkpoint({record.plan.ref.uid: record for record in found})
)


def written(body: object, version: int = VERSION) -> bytes:
    """A checkpoint as another version of the program may have written it."""
    text = json.dumps(body).encode()
    header = {"kind": "LodeCheckpoint", "version": version, "sha256": hashlib.sha256(text).hexdigest(), "by": "other"}
    return json.dumps(header).encode() + b"\n" + text


@given(checkpoints)
def test_what_is_stored_is_read_back(checkpoint: Checkpoint) -> None:
    assert decode(encode(checkpoint), PATH) == checkpoint


@given(checkpoints, st.data())
def test_a_file_cut_short_is_noticed(checkpoint: Checkpoint, data: st.DataObject) -> None:
    whole = encode(checkpoint)
    with pytest.raises(CorruptCheckpoint):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))], PATH)


@given(checkpoints, st.data())
def test_an_altered_byte_of_the_content_is_noticed(checkpoint: Checkpoint, data: st.DataObject) -> None:
    whole = bytearray(encode(checkpoint))
    position = data.draw(st.integers(whole.index(b"\n") + 1, len(whole) - 1))
    whole[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptCheckpoint):
        decode(bytes(whole), PATH)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"null\n{}",
        b"[]\n",
        b'{"kind": "Other", "version": 1, "sha256": ""}\n',
        *(
            b'{"kind": "LodeCheckpoint", "version": %b, "sha256": ""}\n' % version
            for version in (
                b"-1",
                b"1e308",
                b"Infinity",
                b"NaN",
                b"true",
                b'"3"',
                b"null",
                b"[]",
                b"9" * 5000,
                b"1000000",
            )
        ),
        written({}),
        written({"claims": {"uid": {"state": "half"}}}),
        written({"claims": []}),
        written([]),
        b"\xff\xfe",
    ],
)
def test_what_is_no_checkpoint_is_damaged_never_a_crash(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint, match=PATH):
        decode(data, PATH)


def test_fields_of_a_newer_minor_version_survive_being_rewritten_by_this_one() -> None:
    allocation = {"devices": {"results": [{"request": "a", "driver": "d", "pool": "p", "device": "x"}]}}
    claim = {
        "state": "started",
        "bootId": "b",
        "namespace": "n",
        "name": "c",
        "podClaimName": "",
        "facts": {"ibCluster": "", "ibLeaf": "", "rail": "", "spine": "s9"},
        "allocation": allocation,
        "partitions": [7],
    }
    read = decode(written({"claims": {"uid": claim}, "epoch": 4}), PATH)
    stored = json.loads(encode(read).partition(b"\n")[2])
    assert (stored["epoch"], stored["claims"]["uid"]["partitions"]) == (4, [7])
    assert decode(encode(read), PATH) == read


def test_a_newer_version_is_the_operators_to_handle_not_damage() -> None:
    with pytest.raises(
        OperatorFault, match=f"reads up to {VERSION}.*run the newer plugin again, and drain the node while it runs"
    ):
        decode(written({"anything": True}, VERSION + 1), PATH)


def depth(levels: int) -> bytes:
    return b'{"claims":' + b"[" * levels


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where values are in a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def altered(document: Any, data: st.DataObject) -> None:
    """Put some JSON value in some place of the document."""
    *above, key = data.draw(st.sampled_from(list(places(document))))
    for step in above:
        document = document[step]
    document[key] = data.draw(json_values)


@given(checkpoints.filter(lambda found: bool(found.claims)), st.data())
def test_a_claim_that_cannot_be_read_takes_no_other_with_it(checkpoint: Checkpoint, data: st.DataObject) -> None:
    body = json.loads(encode(checkpoint).partition(b"\n")[2])
    uid = data.draw(st.sampled_from(sorted(checkpoint.claims)))
    altered(body["claims"][uid], data)
    try:
        left = decode(written(body), PATH)
    except CorruptCheckpoint as error:
        left = error.left
        assert uid not in left.claims
    assert left.without(uid) == checkpoint.without(uid)


@given(checkpoints, st.data())
def test_whatever_json_is_in_the_place_of_a_checkpoint_is_read_or_damaged(
    checkpoint: Checkpoint, data: st.DataObject
) -> None:
    body = json.loads(encode(checkpoint).partition(b"\n")[2])
    altered(body, data)
    with suppress(CorruptCheckpoint):
        decode(written(body), PATH)


@given(records, st.data())
def test_whatever_json_is_in_the_place_of_a_record_is_none_or_one_of_that_claim(
    claim: PreparedClaim, data: st.DataObject
) -> None:
    uid = claim.plan.ref.uid
    document = json.loads(encode_record(claim))
    assert decode_record(json.dumps(document), uid, "b") == replace(claim, state="completed", boot_id="b")
    altered(document, data)
    found = decode_record(json.dumps(document), uid, "b")
    assert found is None or found.plan.ref.uid == uid


@pytest.mark.parametrize("levels", [10, 100_000])
def test_nesting_of_any_depth_is_damage(levels: int) -> None:
    body = depth(levels)
    header = {"kind": "LodeCheckpoint", "version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
    with pytest.raises(CorruptCheckpoint):
        decode(json.dumps(header).encode() + b"\n" + body, PATH)
    assert decode_record(body.decode(), "uid", "b") is None


@given(st.lists(checkpoints, min_size=1, max_size=4))
def test_checkpoints_that_follow_each_other_are_written_as_each_alone(following: list[Checkpoint]) -> None:
    encoder = Encoder()
    for checkpoint in following:
        grown = Checkpoint({**following[0].claims, **checkpoint.claims}, checkpoint.extra)
        for each in (checkpoint, grown, grown):
            assert encoder.encode(each) == encode(each)
