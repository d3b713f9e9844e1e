"""Real Kubernetes clusters for the tests, on one Linux machine and without a container registry.

- `plain.ControlPlane`: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as plain processes, no nodes,
  up in seconds. For
  contract tests.
- `kind.KindCluster`: one control plane and three workers as containers. For end-to-end tests.

What they need is built from `programs/` and Debian packages into a cache outside the repository (`cache`), or taken
from the machine where it is there already. `python -m testclusters --help` is the same for the command line.
"""
