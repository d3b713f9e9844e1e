"""Which cards other programs hand out, of which signs stay until an answer takes them away.

A kubelet that has just started names no device of a device plugin until that has registered again, may not know the
pods yet, and deletes the slices of DRA drivers. So it takes away only what it has named itself, or what it has not
named for as long as it waits for a device plugin. While it does not answer, nothing is taken away.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from driver.clock import Clock
from driver.files import Files
from driver.kube.api import Object
from driver.observe import Logger
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.kubelet_devices import KubeletAnswer, KubeletDevices, SilentKubelet
from kubeletplugin.publish.other_drivers import (
    NOT_HEARD,
    KnownCard,
    OtherDevice,
    OtherProgram,
    Sign,
    handed_out,
    signs_in_api,
    signs_of_kubelet,
)

GRACE_SECONDS: Final = 300.0
"""How long a kubelet keeps the place of a device plugin that has gone (``endpointStopGracePeriod``), and waits for one
after it has started."""


@dataclass(frozen=True, slots=True)
class KeptSign:
    """A sign, and the run of the kubelet that may take it away at once.

    Attributes:
        run: see ``KubeletDevices``.
    """

    sign: Sign
    run: str


def file_of_signs(files: Files, folder: str, log: Logger) -> BootFile[list[KeptSign]]:
    """The file with the signs in the plugin's folder, which exists only while there are some. A reboot ends no device
    plugin, so it is valid afterwards, too."""
    return BootFile(files, f"{folder}/other-programs.json", "", list[KeptSign], log)


class OtherPrograms:
    """The programs that hand out each card of the node, too. One thread calls it.

    Args:
        ask: asks the kubelet.
        file: keeps the signs when the program or the machine restarts; without it, they end with the program.
        writes: whether the file is written; it is only read otherwise.
    """

    def __init__(
        self,
        clock: Clock,
        ask: Callable[[], KubeletAnswer],
        file: BootFile[list[KeptSign]] | None = None,
        *,
        writes: bool = True,
    ):
        self._clock = clock
        self._ask = ask
        self._file = file if writes else None
        self._kept: dict[Sign, str] = {one.sign: one.run for one in (file.load() if file else None) or ()}
        self._heard: KubeletDevices | None = None
        """The last answer of the kubelet."""
        self._has_answered = any(self._kept.values())
        """Whether the node has a kubelet that answers, now or to a program before this one."""
        self._since = 0.0
        """When this run of the kubelet answered first."""

    def find(
        self, cards: Collection[KnownCard], node: Object, published: Collection[OtherDevice]
    ) -> Mapping[str, tuple[OtherProgram, ...]]:
        """Ask the kubelet; return the programs of each card by its name. Cards that no other program has are left out.

        Args:
            node: as it was before this call: a count of a kubelet that has started since would be taken for one of
                the kubelet that answers.
            published: the devices of cards that other drivers publish on this node.
        """
        if not cards:
            return {}
        answer = self._ask()
        silent = isinstance(answer, SilentKubelet) and (answer.has_socket or self._has_answered)
        if not silent:
            # Where no kubelet was ever found, the Node and the slices are all that can be known.
            self._hear(answer if isinstance(answer, KubeletDevices) else KubeletDevices())
        resources = {known.group for known in cards if known.card.bridged}
        named = set(signs_of_kubelet(self._heard, published, resources)) if self._heard else set[Sign]()
        self._keep(named, set(signs_in_api(node, published, self._heard, resources)), silent=silent)
        # A kubelet whose socket has come since is one that was never heard.
        unknown = self._heard is None or (silent and not self._has_answered)
        unheard = {Sign(known.group, NOT_HEARD) for known in cards} if unknown else set[Sign]()
        return handed_out(cards, [*self._kept, *unheard])

    def _hear(self, answer: KubeletDevices) -> None:
        if self._heard is None or self._heard.run != answer.run:
            self._since = self._clock.monotonic()
        self._heard = answer
        self._has_answered = self._has_answered or bool(answer.run)

    def _keep(self, named: Collection[Sign], told: Iterable[Sign], *, silent: bool) -> None:
        """Keep these signs, and those of before that nothing has taken away.

        Args:
            named: by the kubelet that runs.
            told: by objects of the API, which may be of before it started.
        """
        run = self._heard.run if self._heard else ""
        settled = not silent and self._clock.monotonic() - self._since > GRACE_SECONDS
        before = self._kept
        kept = {sign: of for sign, of in before.items() if silent or (of != run and not settled)}
        kept |= {sign: before.get(sign, run) for sign in told}
        kept |= dict.fromkeys(named, run)
        self._kept = kept
        if self._file and kept != before:
            self._file.choose([KeptSign(sign, of) for sign, of in kept.items()] or None)
            self._file.save()
