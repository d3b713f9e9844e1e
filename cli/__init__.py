"""The ``lode`` command: one module or package for each subcommand, which is imported only when it is called.

__main__           reads the command line, calls the subcommand, prints what is wrong
completion         ``lode completion``, and what kubectl asks to complete its plugin
| demo             ``lode demo``: the whole system on this machine, over an API in memory
| doctor           ``lode doctor``: whether a cluster or a node has what Lode needs
| inventory        ``lode inventory``: the cards of a node and what it offers of them
| convert          ``lode convert``: manifests for other systems as manifests with claims
| advise           ``lode advise``: the moves that let pods run, and the idle cards
| classes          ``lode classes``: device classes for the resources of device plugins
| uninstall        ``lode uninstall``: the steps, each of which may be repeated
commands           the table of all subcommands: help, options, and the module that does the work
| objectnames      names of objects of a cluster, as far as the user may read them
| ui               ``lode ui``: the page and its server
wanted             which names of objects a word on the command line may be
| explain          ``lode explain``: what an object holds, or why it waits
top                ``lode top``: what is used, by subject
fleetview          the cards of a cluster, and who holds what of them
cards              ``lode cordon``, ``uncordon``, ``drain``, ``reset`` and ``handover``
| simulate         ``lode simulate``: what would be allocated where
decisions          what the controller would decide
| resource_classes  the device class for a resource of a device plugin
live               reads a cluster with the rights of the user
objects            objects that a command is given, before anything is decided
exitcodes          exit statuses of commands
| shipped          files of ``manifests/`` that the command needs
| tables           objects as ``kubectl get`` prints them
"""
