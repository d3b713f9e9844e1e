"""Structures and numbers of DCMI's C interface (``dcmi_interface_api.h`` of Huawei's driver package).

A structure ends in reserved bytes where Huawei reserves them: the library writes as many bytes as it knows.
"""

import ctypes
from typing import Any

NAME_BYTES = 32
TEMPLATE_NAME_BYTES = 16
MAX_CARDS = 64
MAX_VDEVICES = 32
MAX_FAULTS = 128
MAX_TEMPLATES = 10

DIE_VDIE = 1
RATE_AI_CORE = 2

CMD_CHIP_INFO = 12
SUB_SUPER_POD = 1
LINKED_BY_HCCS = (3, 7)
"""``DCMI_TOPO_TYPE_HCCS`` and ``DCMI_TOPO_TYPE_HCCS_SW``, over a switch."""
CMD_VDEVICES = 52
SUB_VDEVICE = 0
SUB_TOTAL = 1

ANY_GROUP = 0xFFFFFFFF
"""The virtual group of a vNPU that the driver may choose."""
ALL_VDEVICES = 0xFFFF
"""To destroy a vNPU of this id destroys all vNPUs of the chip."""


def _each(kind: type, names: str) -> tuple[tuple[str, Any], ...]:
    """Fields that follow one another and have the same type."""
    return tuple((name, kind) for name in names.split())


class ChipInfo(ctypes.Structure):
    """``struct dcmi_chip_info_v2``; ``struct dcmi_chip_info`` is the same without the last field."""

    _fields_ = (
        *_each(ctypes.c_char * NAME_BYTES, "chip_type chip_name chip_ver"),
        ("aicore_cnt", ctypes.c_uint),
        ("npu_name", ctypes.c_char * NAME_BYTES),
    )


class PcieInfo(ctypes.Structure):
    """``struct dcmi_pcie_info_all``"""

    _fields_ = (
        *_each(ctypes.c_uint, "venderid subvenderid deviceid subdeviceid"),
        ("domain", ctypes.c_int),
        *_each(ctypes.c_uint, "bdf_busid bdf_deviceid bdf_funcid"),
        ("reserve", ctypes.c_ubyte * 32),
    )


class BoardInfo(ctypes.Structure):
    """``struct dcmi_board_info``"""

    _fields_ = _each(ctypes.c_uint, "board_id pcb_id bom_id slot_id")


class DieId(ctypes.Structure):
    """``struct dcmi_die_id``"""

    _fields_ = (("soc_die", ctypes.c_uint * 5),)


class HbmInfo(ctypes.Structure):
    """``struct dcmi_hbm_info``; sizes in MiB"""

    _fields_ = (
        ("memory_size", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("memory_usage", ctypes.c_ulonglong),
        ("temp", ctypes.c_int),
        ("bandwith_util_rate", ctypes.c_uint),
    )


class MemoryInfo(ctypes.Structure):
    """``struct dcmi_get_memory_info_stru``; sizes in MiB"""

    _fields_ = (
        *_each(ctypes.c_ulonglong, "memory_size memory_available"),
        ("freq", ctypes.c_uint),
        *_each(ctypes.c_ulong, "hugepagesize hugepages_total hugepages_free"),
        ("utiliza", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 60),
    )


class BaseResource(ctypes.Structure):
    """``struct dcmi_base_resource``"""

    _fields_ = (
        *_each(ctypes.c_ulonglong, "token token_max task_timeout"),
        ("vfg_id", ctypes.c_uint),
        ("vip_mode", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 31),
    )


class ComputingResource(ctypes.Structure):
    """``struct dcmi_computing_resource``; memory in MiB"""

    _fields_ = (
        *_each(ctypes.c_float, "aic aiv"),
        *_each(ctypes.c_ushort, "dsa rtsq acsq cdqm c_core ffts sdma pcie_dma"),
        ("memory_size", ctypes.c_ulonglong),
        *_each(ctypes.c_uint, "event_id notify_id stream_id model_id"),
        *_each(ctypes.c_ushort, "topic_schedule_aicpu host_ctrl_cpu host_aicpu device_aicpu topic_ctrl_cpu_slot"),
        ("vdev_aicore_utilization", ctypes.c_uint),
        *_each(ctypes.c_ulonglong, "vdev_memory_total vdev_memory_free"),
        ("reserved", ctypes.c_ubyte * 12),
    )


class MediaResource(ctypes.Structure):
    """``struct dcmi_media_resource``"""

    _fields_ = (
        *_each(ctypes.c_float, "jpegd jpege vpc vdec pngd venc"),
        ("reserved", ctypes.c_ubyte * 32),
    )


class TotalResource(ctypes.Structure):
    """``struct dcmi_soc_total_resource``"""

    _fields_ = (
        ("vdev_num", ctypes.c_uint),
        ("vdev_id", ctypes.c_uint * MAX_VDEVICES),
        *_each(ctypes.c_uint, "vfg_num vfg_bitmap"),
        ("base", BaseResource),
        ("computing", ComputingResource),
        ("media", MediaResource),
    )


class VdeviceInfo(ctypes.Structure):
    """``struct dcmi_vdev_query_info``"""

    _fields_ = (
        ("name", ctypes.c_char * TEMPLATE_NAME_BYTES),
        *_each(ctypes.c_uint, "status is_container_used vfid vfg_id"),
        ("container_id", ctypes.c_ulonglong),
        ("base", BaseResource),
        ("computing", ComputingResource),
        ("media", MediaResource),
    )


class VdeviceQuery(ctypes.Structure):
    """``struct dcmi_vdev_query_stru``"""

    _fields_ = (("vdev_id", ctypes.c_uint), ("query_info", VdeviceInfo))


class CreateVdevice(ctypes.Structure):
    """``struct dcmi_create_vdev_res_stru``"""

    _fields_ = (
        *_each(ctypes.c_uint, "vdev_id vfg_id"),
        ("template_name", ctypes.c_char * NAME_BYTES),
        ("reserved", ctypes.c_ubyte * 64),
    )


class CreatedVdevice(ctypes.Structure):
    """``struct dcmi_create_vdev_out``. Only the id means something."""

    _fields_ = (
        *_each(ctypes.c_uint, "vdev_id pcie_bus pcie_device pcie_func vfg_id"),
        ("reserved", ctypes.c_ubyte * 64),
    )


class TemplateInfo(ctypes.Structure):
    """``struct dcmi_computing_template``; memory in MiB"""

    _fields_ = (
        ("name", ctypes.c_char * TEMPLATE_NAME_BYTES),
        ("specification", ctypes.c_char * 8),
        *_each(ctypes.c_uint, "aicore_num mem_size"),
        *_each(ctypes.c_float, "aicpu_num vpc venc vdec jpegd jpege pngd"),
    )


class SuperPodInfo(ctypes.Structure):
    """``struct dcmi_spod_info``"""

    _fields_ = (
        *_each(ctypes.c_uint, "sdid super_pod_size super_pod_id server_index chassis_id super_pod_type"),
        ("reserve", ctypes.c_uint * 6),
    )


class DmsFault(ctypes.Structure):
    """``struct dcmi_dms_fault_event``"""

    _fields_ = (
        ("event_id", ctypes.c_uint),
        ("deviceid", ctypes.c_ushort),
        *_each(ctypes.c_ubyte, "node_type node_id sub_node_type sub_node_id severity assertion"),
        *_each(ctypes.c_int, "event_serial_num notify_serial_num"),
        ("alarm_raised_time", ctypes.c_ulonglong),
        ("event_name", ctypes.c_char * 256),
        ("additional_info", ctypes.c_char * 32),
        ("resv", ctypes.c_ubyte * 32),
    )


class Event(ctypes.Structure):
    """``struct dcmi_event``: its union has one member"""

    _fields_ = (("type", ctypes.c_int), ("dms_event", DmsFault))
