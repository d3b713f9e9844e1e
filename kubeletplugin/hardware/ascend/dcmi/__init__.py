"""DCMI (``libdcmi.so``), Huawei's library to query and manage NPUs, as Python calls. No other package knows its ABI.

library   loads DCMI and calls it
abi       its structures and numbers
"""

from kubeletplugin.hardware.ascend.dcmi.library import Code, Dcmi, DcmiError, Die

__all__ = ["Code", "Dcmi", "DcmiError", "Die"]
