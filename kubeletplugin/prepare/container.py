"""The files of a claim on the node, which give containers its devices, and the result for the kubelet. Pure.

Each allocated result has a CDI device of its own, so a container sees only the devices of the requests that it names.
Environment variables, with NAME the device's name in capitals, ``-`` as ``_``, and ``_<first 8 of the share's id>`` for
a share:

- ``LODE_DEVICE_<NAME>``: the card's uuid; - ``LODE_MEMORY_MIB_<NAME>``: device memory for the container, in MiB; -
``LODE_CORES_<NAME>``: compute for the container, in per cent of the card; 0 means that none is reserved; -
``LODE_MIG_UUID_<NAME>``: the uuid of a MIG instance; other devices do not have the variable.

The same values have names that follow from the claim and the request alone, so that programs need not know the device:
``LODE_REQUEST_<CLAIM>_<REQUEST>_<N>_UUID``, ``_MEMORY_MIB``, ``_CORES`` and ``_MIG_UUID``, with the names in capitals,
``_`` for ``-`` and ``.``, and N counting the devices of the request from 0.
"""

import json
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from driver.errors import Fault, InvalidInput
from driver.model import Device, Result
from driver.parameters import main_request
from kubeletplugin.hardware import Edits, Mount
from kubeletplugin.hardware.edits import Hook
from kubeletplugin.prepare import cdi, metadata
from kubeletplugin.prepare.claims import ClaimRef, PreparedDevice, PrepareResult
from kubeletplugin.prepare.plan import ClaimPlan

CDI_CLASS = "claim"
_SHARE_ID_LETTERS = 8
_UUID_VARIABLE = "LODE_DEVICE_"
_REQUEST_VARIABLE = "LODE_REQUEST_"
_TO_VARIABLE = str.maketrans("-.", "__")
_MEBI = 1024**2


@dataclass(frozen=True, slots=True)
class ClaimPaths:
    """Paths of the files of one driver's claims on the node."""

    driver: str
    cdi_root: str
    metadata_root: str

    @property
    def cdi_prefix(self) -> str:
        """Prefix of the names of this driver's CDI specs: other drivers use the same folder."""
        return f"{self.driver}-{CDI_CLASS}_"

    def cdi_file(self, uid: str) -> str:
        """Path of a claim's CDI spec."""
        return posixpath.join(self.cdi_root, f"{self.cdi_prefix}{uid}.json")

    def cdi_uid(self, file_name: str) -> str:
        """The claim whose CDI spec has this name, "" if it is not a CDI spec of this driver."""
        prefix, suffix = self.cdi_prefix, ".json"
        of_driver = file_name.startswith(prefix) and file_name.endswith(suffix)
        return file_name.removeprefix(prefix).removesuffix(suffix) if of_driver else ""

    def cdi_name_prefix(self, uid: str) -> str:
        """Prefix of the full names of a claim's CDI devices."""
        return f"{self.driver}/{CDI_CLASS}={uid}_"

    @property
    def record(self) -> str:
        """The annotation of a CDI spec that holds the record of its claim (``checkpoint.encode_record``)."""
        return f"{self.driver}/claim-record"

    def metadata_file(self, ref: ClaimRef, request: str) -> str:
        """Path of the metadata file of one main request."""
        return posixpath.join(self.metadata_root, metadata.file_name(ref, request))


def prepare_result(plan: ClaimPlan, driver: str) -> PrepareResult:
    """The result for the kubelet when the claim is prepared."""
    return PrepareResult(
        plan.ref,
        tuple(
            PreparedDevice(
                request=main_request(result.request),
                pool=result.device.pool,
                device=result.device.device,
                cdi_ids=(f"{driver}/{CDI_CLASS}={_cdi_name(plan.ref, result)}",),
                share_id=result.share_id,
            )
            for result in plan.results
        ),
    )


def claim_files(
    plan: ClaimPlan,
    devices: Mapping[str, Device],
    edits: Mapping[tuple[str, str], Edits],
    paths: ClaimPaths,
    uuid: str,
    record: str,
) -> dict[str, bytes]:
    """Path and content of every file of a claim; none without results. The CDI spec is last: it refers to the others.

    Args:
        edits: the edits of each device of the plan, by the device's name and the id of the share.
        uuid: name of the attribute that holds a card's uuid.
        record: the record of the claim, from which a damaged checkpoint is rebuilt.

    Raises:
        InvalidInput: a name cannot be used in a CDI spec.
    """
    if not plan.results:
        return {}
    texts = metadata.documents(plan, devices, paths.driver)
    mounts = {
        request: Mount(paths.metadata_file(plan.ref, request), metadata.container_path(plan, request, paths.driver))
        for request in texts
    }
    cdi_devices = []
    given: dict[str, set[Mount | Hook]] = {}
    for result, variable in zip(plan.results, _request_variables(plan), strict=True):
        # A container gets all devices of a request or none, so the file is mounted with the first of them.
        request, own = main_request(result.request), edits[result.device.device, result.share_id]
        own = _once(own, given.setdefault(request, set()))
        mount = (mounts.pop(request),) if request in mounts else ()
        env = _environment(result, devices[result.device.device], uuid, variable, own.mig_uuid)
        all_edits = replace(own, env=(*env, *own.env), mounts=(*mount, *own.mounts))
        cdi_devices.append(cdi.CdiDevice(_cdi_name(plan.ref, result), all_edits))
    # The record goes into the spec because that is there exactly as long as containers may have the claim: a damaged
    # checkpoint is rebuilt from it without asking anybody
    # (test_a_damaged_checkpoint_is_rebuilt_with_what_the_claims_have_on_the_hardware).
    spec = cdi.Spec(paths.driver, CDI_CLASS, tuple(cdi_devices), ((paths.record, record),))
    metadata_files = {paths.metadata_file(plan.ref, request): text for request, text in texts.items()}
    return {**metadata_files, paths.cdi_file(plan.ref.uid): cdi.encode(spec)}


def _once(edits: Edits, given: set[Mount | Hook]) -> Edits:
    """The edits without mounts and hooks of earlier devices of the request: eight cards need one copy of the driver's
    files."""
    new = replace(
        edits,
        mounts=tuple(mount for mount in edits.mounts if mount not in given),
        hooks=tuple(hook for hook in edits.hooks if hook not in given),
    )
    given.update((*new.mounts, *new.hooks))
    return new


def check_environment(plan: ClaimPlan, edits: Mapping[tuple[str, str], Edits]) -> None:
    """Check that a container can have all devices of the claim: each variable has one value.

    Edits are per device and the environment is per container, where the last device would win.

    Raises:
        InvalidInput: two devices need different values of a variable, such as the pipe directories of two MPS daemons.
    """
    first: dict[str, tuple[str, str]] = {}
    faults: dict[str, Fault] = {}
    for result in plan.results:
        for name, value in edits[result.device.device, result.share_id].env:
            # Of the claim as a whole, although a container may have only some of its devices: which container has which
            # is said in the pod, and pods that share the claim may come later.
            device, other = first.setdefault(name, (result.device.device, value))
            if value != other:
                message = (
                    f"devices {device} and {result.device.device} need different values of {name} in one container: "
                    f"{other!r} and {value!r}; allocate them by two claims, and use these in different containers"
                )
                faults.setdefault(name, Fault("status.allocation.devices.results", message))
    if faults:
        raise InvalidInput(str(plan.ref), faults.values())


def cards_in(spec: bytes) -> dict[str, str]:
    """The uuid of the card behind each device of a CDI spec of this program; {} if it cannot be read."""
    try:
        return {
            device["name"].split("_")[2]: uuid
            for device in json.loads(spec)["devices"]
            for name, _, uuid in (line.partition("=") for line in device["containerEdits"]["env"])
            if name.startswith(_UUID_VARIABLE)
        }
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}


def _cdi_name(ref: ClaimRef, result: Result) -> str:
    # The claim's uid keeps a runtime from using what it cached for an earlier claim.
    parts = [ref.uid, main_request(result.request), result.device.device, result.share_id[:_SHARE_ID_LETTERS]]
    return "_".join(part for part in parts if part)


def _request_variables(plan: ClaimPlan) -> Iterator[str]:
    """The beginnings of the variable names that follow from the request, one for each result, in order.

    They contain the claim's name, because claims of one container may have requests of the same name. The name of a
    claim from a template is random, so its name in the pod is used, as in the paths of metadata files.
    """
    counts: Counter[str] = Counter()
    for result in plan.results:
        request = main_request(result.request)
        name = f"{plan.pod_claim_name or plan.ref.name}-{request}-{counts[request]}"
        counts[request] += 1
        yield _REQUEST_VARIABLE + name.upper().translate(_TO_VARIABLE)


def _environment(result: Result, device: Device, uuid: str, request: str, mig_uuid: str) -> tuple[tuple[str, str], ...]:
    name = result.device.device.upper().translate(_TO_VARIABLE)
    if result.share_id:
        name += f"_{result.share_id[:_SHARE_ID_LETTERS]}"
    amounts = {key: capacity.value for key, capacity in device.capacity.items()} | dict(result.consumed)
    card = str(device.attributes[uuid])
    memory, cores = str(amounts["memory"].value // _MEBI), str(amounts["cores"].value)
    mig = ((f"LODE_MIG_UUID_{name}", mig_uuid), (f"{request}_MIG_UUID", mig_uuid)) if mig_uuid else ()
    return (
        (f"{_UUID_VARIABLE}{name}", card),
        (f"LODE_MEMORY_MIB_{name}", memory),
        (f"LODE_CORES_{name}", cores),
        (f"{request}_UUID", card),
        (f"{request}_MEMORY_MIB", memory),
        (f"{request}_CORES", cores),
        *mig,
    )
