"""The search for devices where the first fit is not a solution: bounds by counting first, then trying in order.

The question
    Each request has candidates: devices that suffice by themselves, in the order in which kube-scheduler's allocator
    tries them. Together, requests compete for devices, for the counters of a card and for the capacity of a shareable
    device, and constraints say that devices agree in an attribute or differ in it. Wanted is the solution that trying
    everything in this order would find first, or a proof that there is none. That is hard in general, so a budget of
    steps may end the search without an answer (``OutOfSteps``). A step tries one device.

How it is answered
    Depth first. A **level** of the search picks one device of one request. If a level has no candidates left, the pick
    of the level before is undone. Three rules leave out only what cannot succeed, so they change how long the search
    takes, and never what it finds:

    1. **Bounds.** Before a level picks anything, the devices, values, counters and capacities that are left are counted
       against all that is still asked for. Too few of anything closes the level (``bounds``). Devices that nothing
       tells apart are counted as one **cell** (``symmetry``).
    2. **Symmetry.** Where a device failed, one that is interchangeable with it fails, too, and is skipped. Two devices
       are, for example, if they are at the same position of cards in the same state (``symmetry``).
    3. **Failed states.** What is left after some picks is a state. If the same is left after other picks, up to
       interchangeable devices, and it failed before, it is not searched again.

An example
    Two cards, c0 and c1, have four slices of memory each. Each slice is a counter of one, and a device draws on those
    that are marked:

        ======  =======  =======  =======  =======
        device  slice 0  slice 1  slice 2  slice 3
        ======  =======  =======  =======  =======
        1g-0       x
        1g-1                x
        1g-2                         x
        1g-3                                  x
        3g         x        x        x
        ======  =======  =======  =======  =======

    A claim asks for two 1g, and then for two 3g. The first fit takes c0-1g-0 and c0-1g-1, after which only the 3g of c1
    is left: a pick would have to be undone, so the search begins.

        ====  ========  ============================================================
        step  pick      what follows
        ====  ========  ============================================================
        1     c0-1g-0   one 3g is left, and two are asked for: closed, and undone
        2     c0-1g-1   the same
        3     c0-1g-2   the same
        4     c0-1g-3   both 3g are left: on to the second 1g
        5     c1-1g-3   c1-1g-0 to c1-1g-2 are skipped: c0-1g-0 to c0-1g-2 failed
        6, 7  c0-3g     and c1-3g: all four are picked
        ====  ========  ============================================================

    Without symmetry it takes ten steps. If nobody may have a 1g-3, it takes none: eight slices are asked for, and of
    those that the candidates draw on there are six.
    ``tests/unit/controller/allocation/search/test_example.py`` plays this.

search       depth first, in the order of kube-scheduler's allocator
bounds       prunes by counting
flow         maximum flow: enough devices for several needs that compete for them
| symmetry   devices that nothing tells apart, tried once, and counted in cells
attempt      the devices picked so far, what they leave, and undoing picks
"""
