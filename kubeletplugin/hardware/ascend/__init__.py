"""Ascend NPUs: discovery, vNPUs and health through Huawei's DCMI, and what containers need to use them."""
