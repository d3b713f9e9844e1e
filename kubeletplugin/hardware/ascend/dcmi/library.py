"""Loads DCMI and calls it. Each function is looked up when it is called, so a driver may lack any of them."""

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from driver.errors import TransientFault
from kubeletplugin.hardware.answer import LACKS, Answer, Unread
from kubeletplugin.hardware.ascend.dcmi import abi
from kubeletplugin.hardware.ascend.facts import ENGINES, ActiveFault, Resources, Template, Vnpu

T = TypeVar("T")
Written = TypeVar("Written", bound=ctypes.Structure | ctypes.c_int | ctypes.c_uint)


class DcmiCode(IntEnum):
    """The return codes of DCMI that matter here."""

    INVALID_PARAMETER = -8001
    NOT_PERMITTED = -8002
    INNER_ERROR = -8005
    TIMEOUT = -8006
    INVALID_DEVICE = -8007
    NO_DEVICE = -8008
    NOT_READY = -8012
    NOT_IN_CONTAINER = -8013
    OCCUPIED = -8020
    NOT_SUPPORTED = -8255
    NO_LIBRARY = -1
    """Of this program: the library cannot be loaded."""
    NO_FUNCTION = -2
    """Of this program: the library lacks the function."""


GONE = frozenset({DcmiCode.INVALID_DEVICE, DcmiCode.NO_DEVICE, DcmiCode.NOT_READY})
"""The chip has fallen off the bus, or was removed."""
LACKING = frozenset({DcmiCode.NO_FUNCTION, DcmiCode.NOT_SUPPORTED, DcmiCode.NOT_IN_CONTAINER})
"""The driver, the chip or the environment does not support the call."""


class DcmiError(TransientFault):
    """A call of DCMI failed; ``code`` says how, and is a ``DcmiCode`` or another number of DCMI."""

    def __init__(self, function: str, code: int, text: str = ""):
        self.code = code
        known = DcmiCode(code).name.lower().replace("_", " ") if code in DcmiCode.__members__.values() else "failed"
        super().__init__(f"DCMI: {function}: {text or known} (code {code})")


@dataclass(frozen=True, slots=True, order=True)
class Die:
    """DCMI's name of a chip: its card, and its number on the card."""

    card: int
    device: int


class Dcmi:
    """The library of the node's driver, loaded when it is first called. Thread-safe, as DCMI is.

    Args:
        path: of ``libdcmi.so``. The libraries that it needs must be where the dynamic linker looks
            (``LD_LIBRARY_PATH``).
    """

    def __init__(self, path: str):
        self._path = path
        self._lock = threading.Lock()
        self._library: ctypes.CDLL | None = None

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function that returns a code.

        Raises:
            DcmiError: it failed, the driver lacks it, or the library cannot be loaded.
        """
        try:
            pointer = getattr(self._loaded(), function)
        except AttributeError:
            raise DcmiError(function, DcmiCode.NO_FUNCTION, "the driver lacks this function") from None
        code = int(pointer(*arguments))
        if code:
            raise DcmiError(function, code)

    def driver_version(self) -> str:
        """Version of the driver: ``25.2.0``."""
        text = ctypes.create_string_buffer(64)
        self.call("dcmi_get_driver_version", text, ctypes.c_uint(len(text)))
        return _text(text.value)

    def cards(self) -> tuple[int, ...]:
        """The numbers of the node's cards, in order."""
        count, cards = ctypes.c_int(), (ctypes.c_int * abi.MAX_CARDS)()
        self.call("dcmi_get_card_list", ctypes.byref(count), cards, abi.MAX_CARDS)
        return tuple(sorted(cards[: max(0, min(count.value, abi.MAX_CARDS))]))

    def chips_on(self, card: int) -> int:
        """The number of NPU chips on a card."""
        npus, mcu, cpu = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        pointers = (ctypes.byref(each) for each in (npus, mcu, cpu))
        self.call("dcmi_get_device_id_in_card", card, *pointers)
        return npus.value

    def physical_id(self, die: Die) -> int:
        """The number in ``/dev/davinci<n>``."""
        logical, physical = ctypes.c_int(), ctypes.c_uint()
        self.call("dcmi_get_device_logic_id", ctypes.byref(logical), die.card, die.device)
        self.call("dcmi_get_device_phyid_from_logicid", ctypes.c_uint(logical.value), ctypes.byref(physical))
        return physical.value

    def vdie(self, die: Die) -> str:
        """The hardware's own id of the chip."""
        answer = self._of(die, "dcmi_get_device_die_v2", abi.DieId(), abi.DIE_VDIE)
        return "-".join(f"{part:08X}" for part in answer.soc_die)

    def chip_name(self, die: Die) -> tuple[str, int]:
        """The name of the chip (``910B3``) and the number of its AI cores."""
        try:
            answer = self._of(die, "dcmi_get_device_chip_info_v2", abi.ChipInfo())
        except DcmiError as error:
            if error.code not in LACKING:
                raise
            answer = self._of(die, "dcmi_get_device_chip_info", abi.ChipInfo())
        return _text(answer.chip_name), answer.aicore_cnt

    def board_id(self, die: Die) -> int:
        """The number of the board's model."""
        return int(self._of(die, "dcmi_get_device_board_info", abi.BoardInfo()).board_id)

    def bus_id(self, die: Die) -> str:
        """The PCI address."""
        answer = self._of(die, "dcmi_get_device_pcie_info_v2", abi.PcieInfo())
        return f"{answer.domain:04x}:{answer.bdf_busid:02x}:{answer.bdf_deviceid:02x}.{answer.bdf_funcid:x}"

    def high_bandwidth_memory(self, die: Die) -> int:
        """HBM in MiB."""
        return int(self._of(die, "dcmi_get_device_hbm_info", abi.HbmInfo()).memory_size)

    def high_bandwidth_memory_used(self, die: Die) -> int | None:
        """Used HBM in MiB; None if the chip has none."""
        answer = self._of(die, "dcmi_get_device_hbm_info", abi.HbmInfo())
        return int(answer.memory_usage) if answer.memory_size else None

    def memory(self, die: Die) -> int:
        """DDR memory in MiB."""
        return int(self._of(die, "dcmi_get_device_memory_info_v3", abi.MemoryInfo()).memory_size)

    def memory_used(self, die: Die) -> int | None:
        """Used DDR memory in MiB; None if the chip has none."""
        answer = self._of(die, "dcmi_get_device_memory_info_v3", abi.MemoryInfo())
        return int(answer.memory_size - answer.memory_available) if answer.memory_size else None

    def utilization(self, die: Die) -> int:
        """Per cent of the last moments in which the AI cores computed."""
        return self._of(die, "dcmi_get_device_utilization_rate", ctypes.c_uint(), abi.RATE_AI_CORE).value

    def temperature(self, die: Die) -> int:
        """Degrees Celsius."""
        return self._of(die, "dcmi_get_device_temperature", ctypes.c_int()).value

    def power(self, die: Die) -> float:
        """Watts."""
        return self._of(die, "dcmi_get_device_power_info", ctypes.c_int()).value / 10

    def super_pod(self, die: Die) -> int:
        """The number of the super pod that the chip belongs to."""
        answer = abi.SuperPodInfo()
        self._info(die, abi.CMD_CHIP_INFO, abi.SUB_SUPER_POD, answer)
        return int(answer.super_pod_id)

    def is_linked(self, one: Die, other: Die) -> bool:
        """Whether two chips reach one another over HCCS."""
        kind = ctypes.c_int()
        chips = one.card, one.device, other.card, other.device
        self.call("dcmi_get_topo_info_by_device_id", *chips, ctypes.byref(kind))
        return kind.value in abi.LINKED_BY_HCCS

    def templates(self, card: int) -> tuple[Template, ...]:
        """The vNPU templates of the chips on a card."""
        answer, count = (abi.TemplateInfo * abi.MAX_TEMPLATES)(), ctypes.c_uint()
        size = ctypes.c_uint(ctypes.sizeof(answer))
        self.call("dcmi_get_template_info_all", card, answer, size, ctypes.byref(count))
        return tuple(_template(entry) for entry in answer[: min(count.value, abi.MAX_TEMPLATES)])

    def resources(self, die: Die) -> Resources:
        """The resources that the chip's vNPUs share."""
        answer = self._total(die)
        engines = {name: amount for name in ENGINES if (amount := _units(getattr(answer.media, name)))}
        return Resources(_units(answer.computing.aic), _units(answer.computing.device_aicpu), engines)

    def vnpus(self, die: Die) -> tuple[Vnpu, ...]:
        """The vNPUs that exist on the chip, by id."""
        total = self._total(die)
        ids = sorted(total.vdev_id[: min(total.vdev_num, abi.MAX_VDEVICES)])
        return tuple(self._vnpu(die, number) for number in ids)

    def create_vnpu(self, die: Die, number: int, template: str) -> int:
        """Create a vNPU; returns its id."""
        wanted = abi.CreateVdevice(number, abi.ANY_GROUP, template.encode())
        made = abi.CreatedVdevice()
        self.call("dcmi_create_vdevice", die.card, die.device, ctypes.byref(wanted), ctypes.byref(made))
        return int(made.vdev_id)

    def destroy_vnpu(self, die: Die, number: int) -> None:
        """Destroy one vNPU.

        Raises:
            ValueError: the number means all vNPUs of the chip.
        """
        if number >= abi.ALL_VDEVICES:
            raise ValueError(f"not the id of a vNPU: {number}")
        self.call("dcmi_set_destroy_vdevice", die.card, die.device, ctypes.c_uint(number))

    def is_shared(self, die: Die) -> bool:
        """Whether several containers may use the chip."""
        return self._of(die, "dcmi_get_device_share_enable", ctypes.c_int()).value == 1

    def divides_for_machines(self) -> bool:
        """Whether vNPUs of this node are for virtual machines."""
        answer = ctypes.c_int()
        self.call("dcmi_get_vdevice_mode", ctypes.byref(answer))
        return answer.value == 1

    def is_symmetric(self, card: int) -> bool:
        """Whether the chips of a card work in SMP mode."""
        answer = ctypes.c_ubyte()
        self.call("dcmi_get_npu_work_mode", card, ctypes.byref(answer))
        return answer.value == 1

    def dies_are_independent(self) -> bool:
        """Whether a container may have one of the two dies of a 910C."""
        answer = ctypes.c_int()
        self.call("dcmi_get_multi_die_policy", ctypes.byref(answer))
        return answer.value == 1

    def alarm_level(self, die: Die) -> int:
        """0: no alarm, 1: minor, 2: major, 3: critical, 0xFFFFFFFF: the chip is not there."""
        return self._of(die, "dcmi_get_device_health", ctypes.c_uint()).value

    def fault_events(self, die: Die) -> tuple[ActiveFault, ...]:
        """The present faults of the chip, with their severities."""
        answer, count = (abi.Event * abi.MAX_FAULTS)(), ctypes.c_int()
        function = "dcmi_get_device_current_fault_event"
        self.call(function, die.card, die.device, answer, abi.MAX_FAULTS, ctypes.byref(count))
        events = [event.dms_event for event in answer[: max(0, min(count.value, abi.MAX_FAULTS))]]
        return tuple(ActiveFault(event.event_id, event.severity, _text(event.event_name)) for event in events)

    def fault_codes(self, die: Die) -> tuple[int, ...]:
        """The numbers of the chip's present faults."""
        answer, count = (ctypes.c_uint * abi.MAX_FAULTS)(), ctypes.c_int()
        function = "dcmi_get_device_errorcode_v2"
        self.call(function, die.card, die.device, ctypes.byref(count), answer, ctypes.c_uint(abi.MAX_FAULTS))
        return tuple(code for code in answer[: max(0, min(count.value, abi.MAX_FAULTS))] if code)

    def ask(self, question: Callable[..., T], *arguments: Any) -> Answer[T]:
        """The answer of ``question``, a method of this class. Only DCMI's own words for it mean that the driver lacks
        what was asked for.

        Raises:
            DcmiError: the chip or the library is gone.
        """
        try:
            return question(*arguments)
        except DcmiError as error:
            if error.code in LACKING:
                return LACKS
            if error.code in GONE or error.code == DcmiCode.NO_LIBRARY:
                raise
            return Unread(str(error))

    def _loaded(self) -> ctypes.CDLL:
        with self._lock:
            if self._library is None:
                try:
                    library = ctypes.CDLL(self._path)
                    code = int(library.dcmi_init())
                except (OSError, AttributeError) as error:
                    raise DcmiError("load", DcmiCode.NO_LIBRARY, str(error)) from error
                if code:
                    raise DcmiError("dcmi_init", code)
                self._library = library
            return self._library

    def _of(self, die: Die, function: str, answer: Written, *asked: int) -> Written:
        """The answer about a chip, which the function writes behind its last argument."""
        self.call(function, die.card, die.device, *asked, ctypes.byref(answer))
        return answer

    def _info(self, die: Die, command: int, sub_command: int, answer: ctypes.Structure) -> None:
        size = ctypes.c_uint(ctypes.sizeof(answer))
        where = ctypes.byref(answer), ctypes.byref(size)
        self.call("dcmi_get_device_info", die.card, die.device, command, ctypes.c_uint(sub_command), *where)

    def _total(self, die: Die) -> Any:
        answer = abi.TotalResource()
        self._info(die, abi.CMD_VDEVICES, abi.SUB_TOTAL, answer)
        return answer

    def _vnpu(self, die: Die, number: int) -> Vnpu:
        answer = abi.VdeviceQuery(number)
        self._info(die, abi.CMD_VDEVICES, abi.SUB_VDEVICE, answer)
        info = answer.query_info
        return Vnpu(number, _text(info.name), info.is_container_used == 1)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace").strip()


def _units(raw: float) -> int:
    """A number of units, or 0 for DCMI's "not available": -1, or 0xffff in a field of two unsigned bytes."""
    return 0 if raw < 0 or raw >= 0xFFFF else int(raw)


def _template(raw: Any) -> Template:
    engines = {name: amount for name in ENGINES if (amount := _units(getattr(raw, name)))}
    return Template(_text(raw.name), raw.aicore_num, _units(raw.aicpu_num), raw.mem_size, engines)
