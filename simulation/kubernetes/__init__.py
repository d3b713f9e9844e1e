"""Fakes of the Kubernetes components that take part in the life of a claim.

Each fake does to API objects what the real component does to them (Kubernetes 1.36 and 1.37). It works only through the
``Api`` port, sees the cluster through watches that may lag, and does one piece of work per ``step``.

garbage_collector             deletes objects whose owner was deleted
| job_controller              creates the pods of Jobs
| kubelet                     runs the pods of one node
| plugin_client               registers and calls plugins over their sockets
| resource_claim_controller   creates claims from templates and cleans claims up
| scheduler                   binds pods, and allocates claims that nobody else allocates
other_drivers                 what kube-scheduler allocates itself
| preemption                  which pods kube-scheduler evicts
admission                     the admission policies of the flavour controller-allocated
| component                   the base of every fake
| dra_plugin                  a DRA plugin as a kubelet reaches it
"""
