"""The feature gates that Kubernetes 1.38 does not know any more, or does not let anybody turn off. Pure.

A program of 1.38 that is told one of them ends at its start. Source: k8s.io/kubernetes/pkg/features and the packages
``features`` of its libraries, 1.38.0-beta.0 beside 1.37.1.
"""

from typing import Final

REMOVED: Final = frozenset(
    """
    AggregatedDiscoveryRemoveBetaType AllowOverwriteTerminationGracePeriodSeconds CRDValidationRatcheting
    CustomResourceFieldSelectors DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
    InPlacePodVerticalScaling JobManagedBy KubeletTracing MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
    NFTablesProxyMode NodeSwap PodGroupPreemptionPolicy PodSchedulingReadiness PreferSameTrafficDistribution
    RecoverVolumeExpansionFailure SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SupplementalGroupsPolicy SystemdWatchdog
    WinDSR WinOverlay WindowsHostNetwork
    """.split()
)
LOCKED: Final = frozenset(
    """
    AuthorizePodWebsocketUpgradeCreatePermission DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints
    DRAPartitionableDevices EnvFiles ExtendWebSocketsToKubelet HPAGeneration PortForwardWebsockets
    StrictIPCIDRValidation TranslateStreamCloseWebsocketRequests
    """.split()
)
"""Those that are on, and can no longer be turned off."""
