"""A device plugin of no vendor, which does on request what vendors' device plugins do.

plugin     the process: a real gRPC server that registers with whoever plays the kubelet
script     what the plugin has and how it behaves, as values
folder     what this process does to the names in a folder, as it does it
host_tree  the files of a host that its answers name, without a disk
"""
