"""Fakes of the Kubernetes components that take part in the life of a claim.

Each fake does to API objects what the real component does to them (Kubernetes 1.36 and 1.37). It works only through the
``Api`` port, sees the cluster through watches that may lag, and does one piece of work per ``step``.
"""
