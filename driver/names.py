"""Every name of ours that other objects refer to. The driver's own name is a setting; these are derived from it."""

from dataclasses import dataclass

DEFAULT_DRIVER = "lode.dev"
"""Driver name and API group unless the settings say otherwise."""

FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer the resource-claim-controller understands (resource.k8s.io well-known names)."""

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation on a generated claim: the name of the entry in pod.spec.resourceClaims."""

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"


@dataclass(frozen=True, slots=True)
class Names:
    """The names that contain the driver's name.

    >>> Names("lode.dev").gate
    'lode.dev/allocation'
    """

    driver: str = DEFAULT_DRIVER

    @property
    def gate(self) -> str:
        """The pod scheduling gate our admission policy adds and the controller lifts."""
        return f"{self.driver}/allocation"

    @property
    def parameters_api_version(self) -> str:
        """apiVersion of the opaque parameters in a claim's or class's config."""
        return f"{self.driver}/v1alpha1"

    def pool(self, node: str) -> str:
        """The one pool of a node. Unique across drivers: allocators have mixed up pools of equal name."""
        return f"{node}/{self.driver}"

    def attribute(self, name: str) -> str:
        """The fully qualified name of one of our attributes, such as ``lode.dev/type``."""
        return f"{self.driver}/{name}"
