"""Which pods may be evicted, and what that means for their gangs. Pure."""

from collections.abc import Collection, Iterator

from controller.gangs import GangTerms
from controller.state import State
from driver.kube.api import Object
from driver.kube.objects import is_deleting


def obstacle(pod: Object, *, force: bool, delete_emptydir_data: bool) -> str:
    """Return why a pod must not be evicted without being asked for, and the option that asks for it; "" if it may.

    The rules are those of ``kubectl drain``, but for two. A pod of a DaemonSet is evicted: its successor gets no device
    of a cordoned card. An emptyDir in memory has no data to lose.
    """
    if is_deleting(pod):
        return ""
    owners = pod["metadata"].get("ownerReferences") or ()
    if not force and not any(owner.get("controller") for owner in owners):
        return "it has no controller, so nobody makes it again (--force evicts it)"
    volumes = [volume for volume in pod["spec"].get("volumes") or () if volume.get("emptyDir") is not None]
    if not delete_emptydir_data and any(volume["emptyDir"].get("medium") != "Memory" for volume in volumes):
        return "the content of its emptyDir would be lost (--delete-emptydir-data evicts it)"
    return ""


def gang_notes(state: State, evicted: Collection[str]) -> Iterator[str]:
    """Yield for each gang with members among ``evicted`` (``namespace/name``) what it has left."""
    gangs = dict.fromkeys(gang for pod in sorted(evicted) if (gang := state.gangs.of(pod)))
    for gang in gangs:
        members = state.gangs.members(gang)
        lost = [pod for pod in members if pod in evicted]
        if not lost:
            continue
        running = [pod for pod in members if state.pods[pod].node_name and pod not in evicted]
        terms = state.gangs.terms(gang)
        names = ", ".join(pod.partition("/")[2] for pod in lost)
        text = f"gang {gang} loses {len(lost)} of its {len(members)} members ({names})"
        if not isinstance(terms, GangTerms):
            yield text
        elif len(running) < terms.minimum:
            yield f"{text}: {len(running)} are left and it needs {terms.minimum}, so it stops until they run elsewhere"
        else:
            yield f"{text}: {len(running)} are left, and it needs {terms.minimum}"
