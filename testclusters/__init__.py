"""Real Kubernetes clusters for tests and benchmarks, on one Linux machine and without a container registry.

- `ControlPlane`: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as plain processes, without nodes;
  ready in seconds. For contract tests.
- `KindCluster`: a kind cluster with one control plane and three workers, each a container. For end-to-end tests.

Everything they need is built from Go modules and Debian packages into a cache outside the repository, or taken from
the machine if it is installed there. testclusters/README.md describes the cache, the environment variables and how to
add a version of Kubernetes.

__main__       the command line
lifecycle      creates and removes kind clusters
| kindupgrade  another Kubernetes in place, on a kind cluster that runs
controlplane   a control plane without nodes, as plain processes
| kind         a kind cluster with real kubelets
| nodeimage    the image of a cluster's nodes
suiteimages    the images of pods of suites that others wrote
images         the images that tests load onto nodes
daemon         a Docker daemon: the machine's, or a private one
debian         what comes from Debian packages
programs       the programs of a cluster, built or found
upcoming       Kubernetes before its first release, as far as its modules are served
gomodules      builds programs from Go modules
| pki          a certificate authority, and kubeconfigs
| oci          writes container images without a daemon
cache          folders outside the repository for what takes long to build
| folders      temporary folders that are removed after their process
| commands     runs other programs
progress       progress messages for the person who waits
| forwarder    a TCP forwarder that delays what clients send
"""

from testclusters.cache import cached_folder, content_key
from testclusters.commands import CommandFailed, start_process
from testclusters.controlplane import ControlPlane, ControlPlaneFailed
from testclusters.daemon import Docker
from testclusters.debian import installed, prometheus, promtool
from testclusters.folders import OwnFolder
from testclusters.forwarder import Forwarder
from testclusters.gomodules import ProgramMissing, go_version
from testclusters.images import (
    PREVIOUS,
    RDMA_DEVICE_PLUGIN,
    build_context,
    busybox_layer,
    image_labels,
    previous_source,
    software_bill,
)
from testclusters.kind import KindCluster, NoCluster, NotReady
from testclusters.kindupgrade import upgrade_control_plane, upgrade_kubelet
from testclusters.lifecycle import NoRoom, check_room, kind_configuration, write_programs
from testclusters.oci import Layer, write_archive
from testclusters.pki import Authority
from testclusters.programs import (
    KUBERNETES_VERSIONS,
    NEWEST,
    UPCOMING,
    cdi_program,
    default_kubernetes_version,
    example_driver,
    helm_program,
    jobset_folder,
    karpenter_program,
    kubectl_program,
    kubernetes_suites_folder,
    kubernetes_suites_version,
    kueue_folder,
    rdma_device_plugin_folder,
)
from testclusters.progress import progress_step
from testclusters.suiteimages import shell_image, suite_image
from testclusters.upcoming import STAND_INS, StandIn, newest_first, plan_build

__all__ = [
    "KUBERNETES_VERSIONS",
    "NEWEST",
    "PREVIOUS",
    "RDMA_DEVICE_PLUGIN",
    "STAND_INS",
    "UPCOMING",
    "Authority",
    "CommandFailed",
    "ControlPlane",
    "ControlPlaneFailed",
    "Docker",
    "Forwarder",
    "KindCluster",
    "Layer",
    "NoCluster",
    "NoRoom",
    "NotReady",
    "OwnFolder",
    "ProgramMissing",
    "StandIn",
    "build_context",
    "busybox_layer",
    "cached_folder",
    "cdi_program",
    "check_room",
    "content_key",
    "default_kubernetes_version",
    "example_driver",
    "go_version",
    "helm_program",
    "image_labels",
    "installed",
    "jobset_folder",
    "karpenter_program",
    "kind_configuration",
    "kubectl_program",
    "kubernetes_suites_folder",
    "kubernetes_suites_version",
    "kueue_folder",
    "newest_first",
    "plan_build",
    "previous_source",
    "progress_step",
    "prometheus",
    "promtool",
    "rdma_device_plugin_folder",
    "shell_image",
    "software_bill",
    "start_process",
    "suite_image",
    "upgrade_control_plane",
    "upgrade_kubelet",
    "write_archive",
    "write_programs",
]
