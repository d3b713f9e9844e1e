"""NVIDIA GPUs, through the driver's library NVML.

assembly        puts the backend together
backend         answers the port
| toolkit       the driver's files as NVIDIA's container toolkit lists them
devices         device nodes of cards and MIG instances
| driverfiles   what every container with a card gets of the driver
| found         the cards that NVML finds
| health        whether cards and MIG instances work
| mig           MIG instances: what exists, and creating and destroying them
| sharing       how containers share a card: time slicing, MPS, HAMi-core
discovery       cards from what NVML and the kernel say
schemes         MIG schemes of cards
commands        runs programs of the driver and of the host, and services, which outlive the plugin and its pod
| nvml          NVML as values
| root          the driver's files on the host
| runfolder     folders that a reboot empties
"""
