"""What Kubernetes 1.38 refuses, changes or does not get over, found in a cluster of an older version. Reads only.

look             reads the cluster, object by object, and asks the rules about each
claim_rules      claims and their templates
| taint_rules    DeviceTaintRules
| program_rules  feature gates of Kubernetes' own programs
| client_rules   clients of versions of the API that are served no more
| driver_rules   drivers that the kubelet registers no more
| class_rules    DeviceClasses
slice_rules      ResourceSlices, and what they say that matters for claims
| selector_rules  selectors, and on which devices of the cluster versions differ
gates            the feature gates that are gone or locked
concerns         what the rules find, gathered into findings
"""

from typing import Final

VERSIONS: Final = ("1.38",)
"""The versions of Kubernetes whose rules are known."""
