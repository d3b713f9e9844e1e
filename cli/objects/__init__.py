"""Objects that a command is given, in files or by a cluster, before anything is decided.

expand     the pods of workloads and the claims of templates, as Kubernetes would create them
checks     which kinds are supported, and everything that is wrong with the objects
documents  objects in YAML and JSON files
"""
