"""A reading of the world, as values: what the API says, what is on the disks of nodes, what their containers see. Pure.

It is not of one moment: lists come one after the other, and nodes are read beside them. What is wrong only in one of
two readings may be wrong because of that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from driver.kube.api import Object, Resource
from kubeletplugin.prepare import metadata
from tests.e2e.nodes import PLUGIN, pod_of

CDI: Final = "/var/run/cdi"
CHECKPOINT: Final = f"{PLUGIN}/checkpoint.json"
FILLER: Final = f"{PLUGIN}/chaos-filler"
"""The file that fills a small disk."""
_HARDWARE: Final = f"{PLUGIN}/simulated.json"
_SEPARATOR: Final = "@@@"
_MOUNTED: Final = "lode.dev-metadata.json"
"""The end of the path at which a container has a metadata file of ours."""

SCAN: Final = f"""
find {CDI}/ {PLUGIN}/ -type f \\( -name '*.json' -o -name '*.tmp' \\) 2>/dev/null; echo {_SEPARATOR}
cat {CHECKPOINT} 2>/dev/null; echo {_SEPARATOR}
cat {_HARDWARE} 2>/dev/null; echo {_SEPARATOR}
seen=
for process in /proc/[0-9]*; do
  grep -qs {_MOUNTED} $process/mountinfo || continue
  case "$(cat $process/comm 2>/dev/null)" in runc*) continue;; esac
  space=$(readlink $process/ns/mnt) || continue
  case "$seen" in *"$space"*) continue;; esac
  seen="$seen $space"
  echo "pod $(head -n 1 $process/cgroup 2>/dev/null)"
  grep -s {_MOUNTED} $process/mountinfo | while read _ _ _ file _; do echo "file $file"; done
  for name in $(ls $process/root/dev/lode 2>/dev/null); do echo "device $name"; done
  for name in $(ls $process/root/dev/dri 2>/dev/null); do echo "bridged $name"; done
done
"""
"""Prints to a shell of a node what `node_from` reads. Of the processes of a container one is looked at, and none that
is still being made."""


@dataclass(frozen=True, slots=True)
class ContainerReading:
    """What the processes of one container see of claims."""

    pod: str
    """The uid of its pod."""
    requests: frozenset[tuple[str, str]]
    """The claims that it has, by uid, each with a request, as the files say that are mounted into it."""
    devices: frozenset[str] = frozenset()
    """The names of device files of simulated cards."""
    bridged: frozenset[str] = frozenset()
    """The names of device files that a vendor's device plugin has given."""

    @property
    def claims(self) -> frozenset[str]:
        """The uids of its claims."""
        return frozenset(claim for claim, _ in self.requests)


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What is on a node that answers."""

    name: str
    files: Sequence[str] = ()
    """The paths of CDI specs of any driver, of metadata files, and of other files of the plugin."""
    checkpoint: bytes = b""
    hardware: str = ""
    """What exists on the simulated cards, as the backend keeps it."""
    containers: Sequence[ContainerReading] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """The world, about now."""

    objects: Mapping[Resource, Sequence[Object]] = field(default_factory=dict)
    nodes: Sequence[NodeReading] = ()
    """Those that answer."""

    def evidence(self) -> Mapping[str, Any]:
        """All of it as JSON."""
        return {
            "objects": {resource.plural: list(objects) for resource, objects in self.objects.items()},
            "nodes": {
                node.name: {
                    "files": list(node.files),
                    "checkpoint": node.checkpoint.decode(errors="replace"),
                    "hardware": node.hardware,
                    "containers": [_evidence(container) for container in node.containers],
                }
                for node in self.nodes
            },
        }


def _evidence(container: ContainerReading) -> Mapping[str, Any]:
    return {
        "pod": container.pod,
        "requests": sorted(container.requests),
        "devices": sorted(container.devices),
        "bridged": sorted(container.bridged),
    }


def node_from(name: str, printed: str) -> NodeReading:
    """A node by what `SCAN` has printed there."""
    files, checkpoint, hardware, containers = printed.split(f"{_SEPARATOR}\n")
    return NodeReading(
        name,
        tuple(sorted(files.split())),
        checkpoint.encode(),
        hardware.strip(),
        tuple(_containers(containers.splitlines())),
    )


def _containers(lines: Sequence[str]) -> Iterator[ContainerReading]:
    found: list[list[tuple[str, str]]] = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "pod":
            found.append([])
        if found:
            found[-1].append((word, rest))
    for said in found:
        pod = next(pod_of(rest) for word, rest in said if word == "pod")
        files = [rest.removesuffix("//deleted").rpartition("/")[2] for word, rest in said if word == "file"]
        yield ContainerReading(
            pod,
            frozenset((metadata.claim_uid(file), _request(file)) for file in files),
            frozenset(rest for word, rest in said if word == "device"),
            frozenset(rest for word, rest in said if word == "bridged" and rest.startswith("card")),
        )


def _request(file: str) -> str:
    """The request that a metadata file is of."""
    return file.partition("_")[2].removesuffix(".json")
