"""The whole system without a cluster: a virtual clock, faults on demand, and fake Kubernetes components.

The tests and ``lode demo`` use it. The two programs and the other subcommands do not, so the cluster image leaves it
out.
"""
