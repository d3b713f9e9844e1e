"""``lode doctor``: whether a cluster or a node has what Lode needs, and what to do where not. Reads only.

run               looks, checks, prints
upgrade           what a newer Kubernetes refuses, changes or does not get over
cluster_look      reads what there is in a cluster, as far as rights and objects allow
| node_look       reads what there is on this node, of device plugins and of the container runtime
cluster_checks    whether a cluster has what Lode needs, and whether pods of other systems are adopted as it is meant
| node_checks     whether a node has what the kubelet plugin needs
allocated         whether drivers that the controller allocates, too, are there, and nobody else allocates for them
| rivals          which cards of Lode another DRA driver publishes, too
findings          what checks found, and how it is printed
"""
