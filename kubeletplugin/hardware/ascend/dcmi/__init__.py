"""DCMI (``libdcmi.so``), Huawei's library to query and manage NPUs, as Python calls. No other package knows its ABI.

library   loads DCMI and calls it
abi       its structures and numbers
"""

from kubeletplugin.hardware.ascend.dcmi.library import Dcmi, DcmiCode, DcmiError, Die

__all__ = ["Dcmi", "DcmiCode", "DcmiError", "Die"]
