"""What Kubernetes 1.38 refuses, changes or does not get over, found in a cluster of an older version. Reads only.

look             reads the cluster, object by object, and asks the rules about each
object_rules     claims, slices, classes and taint rules, and on which devices of the cluster selectors differ
| program_rules  feature gates of Kubernetes' programs, clients of old versions of the API, drivers at the kubelet
concerns         what the rules find, gathered into findings
"""
