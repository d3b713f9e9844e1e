"""Where PCI functions are in the machine. A file that is not there or cannot be read now moves no card."""

import threading

from kubeletplugin.hardware.answer import Answer, if_read
from kubeletplugin.hardware.place import Place
from kubeletplugin.hardware.sysfs import Sysfs


class Places:
    """The places of PCI functions, as they were read last. Thread-safe."""

    def __init__(self, sysfs: Sysfs):
        self._sysfs = sysfs
        self._lock = threading.Lock()
        self._known: dict[str, Place] = {}

    def place(self, bus_id: str) -> Place:
        """The place of the function with this address."""
        way, numa = self._sysfs.way_of(bus_id), self._sysfs.numa_node(bus_id)
        with self._lock:
            known = self._known.get(bus_id, Place())
            way = known.way if not _names_a_place(way) and _names_a_place(known.way) else way
            place = Place(way, known.numa_node if numa is None else numa)
            if _names_a_place(way) or place.numa_node is not None:
                # Nothing is kept of an address that is not there: device plugins may say any number of them.
                self._known[bus_id] = place
        return place


def _names_a_place(way: Answer[tuple[str, ...]]) -> bool:
    return bool(if_read(way))
