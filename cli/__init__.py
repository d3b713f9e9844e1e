"""The ``lode`` command: a module for each subcommand, and the work of each, which is imported only when it is called.

__main__           the command line: which subcommand is called
completion         ``lode completion``, and what kubectl asks to complete its plugin
objectnames        names of objects of a cluster, as far as the user may read them
demo               ``lode demo``: the whole system on this machine, over an API in memory
| simulate         ``lode simulate``: its options
| explain          ``lode explain``: its options
| convert          ``lode convert``: its options, and in its modules the work
| classes          ``lode classes``: its options
| inventory        ``lode inventory``: its options
| doctor           ``lode doctor``: its options, and in its modules the checks
| uninstall        ``lode uninstall``: its options
| advise           ``lode advise``: its options
ui                 ``lode ui``: its options, and in its modules the page and its server
advice             the moves that let pods run, and the idle cards
simulate_run       reads the input of ``simulate``, decides, prints
| explain_run      reads the object of ``explain``, decides, prints
| inventory_run    asks the hardware, prints or records
| classes_run      reads the resources of ``classes``, prints
| uninstall_run    the steps of ``uninstall``, each of which may be repeated
explanation        a live pod or claim explained, as the controller would decide about it
| card_explanation  a card explained: who holds what of it, and what closes it
| namespace_explanation  a namespace explained: what it holds, and who waits
top                ``lode top``: its options, and in its modules the subjects
fleetview          the cards of a cluster, and who holds what of them
| prices           what cards cost: a table of prices by type
| usage            what cards do, as Prometheus knows it
cards              ``lode cordon``, ``uncordon``, ``drain`` and ``reset``
simulator          what the controller would do about a snapshot, step by step
inventory_report   the cards of a node and what it offers of them, as text and JSON
| resource_classes  the device class for a resource of a device plugin
| outcomes         what came of a pod or claim, as a value, as JSON and as lines of a table
| podnotes         notes on a live pod: health of its devices, whether a controller leads, kube-scheduler's errors
| snapshot         input objects as the state that the controller decides from
decision_settings  the part of the controller's settings that decisions depend on
| evictions        who would be evicted for a pod or gang that waits
doubts             notes on claims that are allowed and hardly meant so
| unoffered        pods that ask for resources of device plugins which nothing offers
| expand           the pods of workloads and the claims of templates, as Kubernetes would create them
| live             reads a cluster with the rights of the user
checks             which kinds are supported, and everything that is wrong with the objects
documents          objects in YAML and JSON files
durations          durations as people write them
| allowance        what one simulation may cost
| wanted           which names of objects a word on the command line may be
| exitcodes        exit statuses of ``simulate`` and ``explain``
| options          the options by which commands name a cluster
| shipped          files of ``manifests/`` that the command needs
| tables           objects as ``kubectl get`` prints them
"""
