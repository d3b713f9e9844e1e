"""Structures and numbers of DCMI's C interface (``dcmi_interface_api.h`` of Huawei's driver package).

A structure ends in reserved bytes where Huawei reserves them: the library writes as many bytes as it knows.
"""

import ctypes

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
CMD_VDEVICES = 52
SUB_VDEVICE = 0
SUB_TOTAL = 1

ANY_GROUP = 0xFFFFFFFF
"""The virtual group of a vNPU that the driver may choose."""
ALL_VDEVICES = 0xFFFF
"""To destroy a vNPU of this id destroys all vNPUs of the chip."""


class ChipInfo(ctypes.Structure):
    """``struct dcmi_chip_info_v2``; ``struct dcmi_chip_info`` is the same without the last field."""

    _fields_ = (
        ("chip_type", ctypes.c_char * NAME_BYTES),
        ("chip_name", ctypes.c_char * NAME_BYTES),
        ("chip_ver", ctypes.c_char * NAME_BYTES),
        ("aicore_cnt", ctypes.c_uint),
        ("npu_name", ctypes.c_char * NAME_BYTES),
    )


class PcieInfo(ctypes.Structure):
    """``struct dcmi_pcie_info_all``"""

    _fields_ = (
        ("venderid", ctypes.c_uint),
        ("subvenderid", ctypes.c_uint),
        ("deviceid", ctypes.c_uint),
        ("subdeviceid", ctypes.c_uint),
        ("domain", ctypes.c_int),
        ("bdf_busid", ctypes.c_uint),
        ("bdf_deviceid", ctypes.c_uint),
        ("bdf_funcid", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 32),
    )


class BoardInfo(ctypes.Structure):
    """``struct dcmi_board_info``"""

    _fields_ = (
        ("board_id", ctypes.c_uint),
        ("pcb_id", ctypes.c_uint),
        ("bom_id", ctypes.c_uint),
        ("slot_id", ctypes.c_uint),
    )


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
        ("memory_size", ctypes.c_ulonglong),
        ("memory_available", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("hugepagesize", ctypes.c_ulong),
        ("hugepages_total", ctypes.c_ulong),
        ("hugepages_free", ctypes.c_ulong),
        ("utiliza", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 60),
    )


class BaseResource(ctypes.Structure):
    """``struct dcmi_base_resource``"""

    _fields_ = (
        ("token", ctypes.c_ulonglong),
        ("token_max", ctypes.c_ulonglong),
        ("task_timeout", ctypes.c_ulonglong),
        ("vfg_id", ctypes.c_uint),
        ("vip_mode", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 31),
    )


class ComputingResource(ctypes.Structure):
    """``struct dcmi_computing_resource``; memory in MiB"""

    _fields_ = (
        ("aic", ctypes.c_float),
        ("aiv", ctypes.c_float),
        ("dsa", ctypes.c_ushort),
        ("rtsq", ctypes.c_ushort),
        ("acsq", ctypes.c_ushort),
        ("cdqm", ctypes.c_ushort),
        ("c_core", ctypes.c_ushort),
        ("ffts", ctypes.c_ushort),
        ("sdma", ctypes.c_ushort),
        ("pcie_dma", ctypes.c_ushort),
        ("memory_size", ctypes.c_ulonglong),
        ("event_id", ctypes.c_uint),
        ("notify_id", ctypes.c_uint),
        ("stream_id", ctypes.c_uint),
        ("model_id", ctypes.c_uint),
        ("topic_schedule_aicpu", ctypes.c_ushort),
        ("host_ctrl_cpu", ctypes.c_ushort),
        ("host_aicpu", ctypes.c_ushort),
        ("device_aicpu", ctypes.c_ushort),
        ("topic_ctrl_cpu_slot", ctypes.c_ushort),
        ("vdev_aicore_utilization", ctypes.c_uint),
        ("vdev_memory_total", ctypes.c_ulonglong),
        ("vdev_memory_free", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ubyte * 12),
    )


class MediaResource(ctypes.Structure):
    """``struct dcmi_media_resource``"""

    _fields_ = (
        ("jpegd", ctypes.c_float),
        ("jpege", ctypes.c_float),
        ("vpc", ctypes.c_float),
        ("vdec", ctypes.c_float),
        ("pngd", ctypes.c_float),
        ("venc", ctypes.c_float),
        ("reserved", ctypes.c_ubyte * 32),
    )


class TotalResource(ctypes.Structure):
    """``struct dcmi_soc_total_resource``"""

    _fields_ = (
        ("vdev_num", ctypes.c_uint),
        ("vdev_id", ctypes.c_uint * MAX_VDEVICES),
        ("vfg_num", ctypes.c_uint),
        ("vfg_bitmap", ctypes.c_uint),
        ("base", BaseResource),
        ("computing", ComputingResource),
        ("media", MediaResource),
    )


class VdeviceInfo(ctypes.Structure):
    """``struct dcmi_vdev_query_info``"""

    _fields_ = (
        ("name", ctypes.c_char * TEMPLATE_NAME_BYTES),
        ("status", ctypes.c_uint),
        ("is_container_used", ctypes.c_uint),
        ("vfid", ctypes.c_uint),
        ("vfg_id", ctypes.c_uint),
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
        ("vdev_id", ctypes.c_uint),
        ("vfg_id", ctypes.c_uint),
        ("template_name", ctypes.c_char * NAME_BYTES),
        ("reserved", ctypes.c_ubyte * 64),
    )


class CreatedVdevice(ctypes.Structure):
    """``struct dcmi_create_vdev_out``. Only the id means something."""

    _fields_ = (
        ("vdev_id", ctypes.c_uint),
        ("pcie_bus", ctypes.c_uint),
        ("pcie_device", ctypes.c_uint),
        ("pcie_func", ctypes.c_uint),
        ("vfg_id", ctypes.c_uint),
        ("reserved", ctypes.c_ubyte * 64),
    )


class TemplateInfo(ctypes.Structure):
    """``struct dcmi_computing_template``; memory in MiB"""

    _fields_ = (
        ("name", ctypes.c_char * TEMPLATE_NAME_BYTES),
        ("specification", ctypes.c_char * 8),
        ("aicore_num", ctypes.c_uint),
        ("mem_size", ctypes.c_uint),
        ("aicpu_num", ctypes.c_float),
        ("vpc", ctypes.c_float),
        ("venc", ctypes.c_float),
        ("vdec", ctypes.c_float),
        ("jpegd", ctypes.c_float),
        ("jpege", ctypes.c_float),
        ("pngd", ctypes.c_float),
    )


class SuperPodInfo(ctypes.Structure):
    """``struct dcmi_spod_info``"""

    _fields_ = (
        ("sdid", ctypes.c_uint),
        ("super_pod_size", ctypes.c_uint),
        ("super_pod_id", ctypes.c_uint),
        ("server_index", ctypes.c_uint),
        ("chassis_id", ctypes.c_uint),
        ("super_pod_type", ctypes.c_uint),
        ("reserve", ctypes.c_uint * 6),
    )


class DmsFault(ctypes.Structure):
    """``struct dcmi_dms_fault_event``"""

    _fields_ = (
        ("event_id", ctypes.c_uint),
        ("deviceid", ctypes.c_ushort),
        ("node_type", ctypes.c_ubyte),
        ("node_id", ctypes.c_ubyte),
        ("sub_node_type", ctypes.c_ubyte),
        ("sub_node_id", ctypes.c_ubyte),
        ("severity", ctypes.c_ubyte),
        ("assertion", ctypes.c_ubyte),
        ("event_serial_num", ctypes.c_int),
        ("notify_serial_num", ctypes.c_int),
        ("alarm_raised_time", ctypes.c_ulonglong),
        ("event_name", ctypes.c_char * 256),
        ("additional_info", ctypes.c_char * 32),
        ("resv", ctypes.c_ubyte * 32),
    )


class Event(ctypes.Structure):
    """``struct dcmi_event``: its union has one member"""

    _fields_ = (("type", ctypes.c_int), ("dms_event", DmsFault))
