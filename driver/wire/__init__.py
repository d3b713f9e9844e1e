"""Translates the API's JSON objects (resource.k8s.io/v1) to and from the model. Pure.

Field names are the API's. Decoding keeps everything that decisions need, and names every unknown field that may change
the meaning of a request. Encoding leaves out empty fields, as the API server does.

shared_slices   the slices of a fleet; equal hardware shares objects
claims          ResourceClaims and DeviceClasses
| slices        ResourceSlices and their devices
allocations     allocations, their configuration and consumers
nodes           node selectors of core/v1
| taints        taints and tolerations of devices
fields          helpers of all translations
"""

from driver.wire.allocations import allocation_from, allocation_to, consumer_to
from driver.wire.claims import claim_from, claim_spec_from, class_from
from driver.wire.fields import Json
from driver.wire.nodes import node_selector_from, node_selector_to, node_term_from, only_node
from driver.wire.shared_slices import SharedSlices
from driver.wire.slices import device_from, device_to, slice_from, slice_spec_to
from driver.wire.taints import taint_from, taint_rule_from, toleration_from, toleration_to

__all__ = [
    "Json",
    "SharedSlices",
    "allocation_from",
    "allocation_to",
    "claim_from",
    "claim_spec_from",
    "class_from",
    "consumer_to",
    "device_from",
    "device_to",
    "node_selector_from",
    "node_selector_to",
    "node_term_from",
    "only_node",
    "slice_from",
    "slice_spec_to",
    "taint_from",
    "taint_rule_from",
    "toleration_from",
    "toleration_to",
]
