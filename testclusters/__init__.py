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
