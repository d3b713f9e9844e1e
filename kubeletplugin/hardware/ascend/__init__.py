"""Ascend NPUs: discovery, vNPUs and health through Huawei's DCMI, and what containers need to use them.

backend         answers the port
| installinfo   where the driver's installer says that the driver is
discovery       finds chips through DCMI
| measuring     what a chip measures of itself
| watching      the health of chips, also of those that do not answer
npusmi          finds chips with ``npu-smi``, where DCMI cannot be loaded
| vnpus         which vNPU a claim gets, and what is on a chip
cards           cards from chips
container       what a container needs: device files, the driver's files, environment
| faults        what faults of a chip mean for its health
dcmi            Huawei's library as Python calls
| templates     vNPU templates, and the scheme of a chip
generations     what differs between the generations of chips
facts           what DCMI says about a chip, as values
"""
