"""A Kubernetes API in memory with its schema and rules; it answers the programs' calls as a kube-apiserver does.

server            the calls of the port, answered from the store
claims            ResourceClaims and their templates
| evictions       evictions of pods, and what PodDisruptionBudgets allow
| object_writer   single writes: create, change, mark for deletion, remove
| pods            Pods: defaults, and the fields that an update may change
| simple_kinds    the kinds with few rules
| slices          ResourceSlices, DeviceClasses and DeviceTaintRules
claim_rules       what makes claims and allocations invalid
| device_rules    what makes devices and slices invalid
| patches         merge, strategic merge and JSON patch
admission         what Lode's MutatingAdmissionPolicies do
| kind_rules      what a kind adds to its schema
| rules           what makes single fields invalid
| schema          field names, types, and how lists merge
| selectors       label and field selectors
| store           objects by kind, all changes in order, paged lists
versions          the versions of Kubernetes that the rules tell apart
"""

from driver.kube.api import JOBS
from memoryapi.server import MemoryApi
from memoryapi.versions import V1_37, V1_38

__all__ = ["JOBS", "V1_37", "V1_38", "MemoryApi"]
