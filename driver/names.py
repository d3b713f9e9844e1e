"""The names that other objects use for the driver, derived from the setting ``driverName``. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

DEFAULT_DRIVER = "lode.dev"
"""Driver name and API group unless the settings say otherwise."""

DEFAULT_SCHEDULER = "default-scheduler"
"""The profile of kube-scheduler that binds a pod which names no other (core/v1 PodSpec)."""
CONTROLLER_NAMESPACE = "lode-system"
"""The namespace of the controller in the manifests."""
PLUGIN_NAMESPACE = "lode-plugin"
"""The namespace of the kubelet plugin in the manifests."""

FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer that the resource-claim-controller handles (resource.k8s.io well-known names)."""

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation on a generated claim: the name of the entry in pod.spec.resourceClaims."""

_FIXED = ("/run/lode.dev", "lode.dev/kubeletplugin", "lode.dev/gate", "lode.dev/adopt", "lode.dev/accelerators")
"""Paths and labels of nodes and namespaces in the manifests that do not follow from the driver's name."""

NVIDIA_DRA_DRIVER = "gpu.nvidia.com"
"""The name of NVIDIA's DRA driver: the domain of its attributes, and the driver of its parameters."""

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"

PCIE_SWITCH = "pcieSwitch"
"""Our attribute with the PCIe switch nearest to a card: the address of the switch's port to the root."""
LINKS = "links"
"""Our attribute with the number of a card's links to others of its domain, by their ``index``: ``1:2,3:1``. Only where
not all cards of the domain have as many."""


def renamed(manifest: str, name: str, pattern: str) -> str:
    """The text of a manifest for a driver of another name.

    Args:
        name: replaces the name of the driver.
        pattern: replaces the regular expression for the name of the driver, in expressions of policies.
    """
    fixed = "|".join(map(re.escape, _FIXED))
    spared = re.compile(rf"({fixed})\b|{re.escape(DEFAULT_DRIVER)}|{re.escape(DEFAULT_DRIVER.replace('.', '[.]'))}")
    return spared.sub(lambda it: it[0] if it[1] else pattern if "[.]" in it[0] else name, manifest)


def pattern_of(driver: str) -> str:
    """The regular expression for the name of a driver, as in expressions of policies."""
    return driver.replace(".", "[.]")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that contain the driver's name.

    >>> Names("lode.dev").gate
    'lode.dev/allocation'
    """

    driver: str = DEFAULT_DRIVER
    nvidia_dra: bool = False
    """Whether the names of NVIDIA's DRA driver stand for ours, in attributes and in parameters."""
    also_allocates: tuple[str, ...] = ()
    """The other drivers whose devices our controller allocates, too."""

    @property
    def allocated_drivers(self) -> tuple[str, ...]:
        """All drivers whose devices our controller allocates; ours is the first."""
        return (self.driver, *self.also_allocates)

    def allocates(self, driver: str) -> bool:
        """Whether our controller allocates the driver's devices."""
        return driver == self.driver or driver in self.also_allocates

    def reads_parameters_of(self, driver: str) -> bool:
        """Whether parameters for that driver are for our devices."""
        return driver == self.driver or (self.nvidia_dra and driver == NVIDIA_DRA_DRIVER)

    @property
    def gate(self) -> str:
        """The pod scheduling gate that the admission policy adds and the controller removes."""
        return f"{self.driver}/allocation"

    @property
    def fits_now(self) -> str:
        """The ``controllerName`` of AdmissionChecks of Kueue that the controller answers."""
        return f"{self.driver}/fits-now"

    @property
    def unhealthy(self) -> str:
        """The key of the taint of devices that do not work."""
        return self.attribute("unhealthy")

    @property
    def gang(self) -> str:
        """The pod label that joins a pod to a gang, also one without claims; its value is the gang's name, or ""."""
        return f"{self.driver}/gang"

    @property
    def protection(self) -> str:
        """The annotation of a node that says that this driver's controller keeps autoscalers from it."""
        return f"{self.driver}/do-not-disrupt"

    @property
    def on_demand(self) -> str:
        """The label of a ResourceClaimTemplate that the controller made because a pod names it."""
        return f"{self.driver}/on-demand"

    @property
    def fabric(self) -> tuple[str, ...]:
        """Attributes with the place of a card in the fabric: mostly the domains that gangs ask for."""
        return tuple([self.attribute(name) for name in ("ibCluster", "ibLeaf", "rail", "nvlinkDomain")])

    @property
    def parameters_api_version(self) -> str:
        """apiVersion of the opaque parameters in a claim's or class's config."""
        return f"{self.driver}/v1alpha1"

    def pool(self, node: str) -> str:
        """The one pool of a node. Unique across drivers: allocators have confused pools of the same name."""
        return f"{node}/{self.driver}"

    def attribute(self, name: str) -> str:
        """The fully qualified name of an attribute of the driver, such as ``lode.dev/type``."""
        return _qualified(self.driver, name)


@lru_cache(maxsize=256)
def _qualified(driver: str, name: str) -> str:
    """Returns the same text object each time, because every device has all of them."""
    return f"{driver}/{name}"
