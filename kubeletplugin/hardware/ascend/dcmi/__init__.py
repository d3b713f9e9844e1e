"""DCMI (``libdcmi.so``), Huawei's library to query and manage NPUs, as Python calls. The only home of its ABI."""

from kubeletplugin.hardware.ascend.dcmi.library import Code, Dcmi, DcmiError, Die

__all__ = ["Code", "Dcmi", "DcmiError", "Die"]
