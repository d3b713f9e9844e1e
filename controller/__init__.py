"""Decides which devices a claim gets and on which node its pod runs. Each package imports only those below it.

    loop         takes in changes, decides about one pod or claim at a time, writes through the API
    reconcile    what to do about one pod or claim (pure)
    state        what is known of the cluster, indexed (pure)
    placement    nodes, and whether a pod can run on one (pure)
    allocation   devices for claims, or the reasons why not (pure)
    selectors    CEL (pure)

``election`` decides which replica works; ``__main__`` puts everything together in threads.
"""
