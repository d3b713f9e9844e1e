"""``lode kubeletplugin``: puts the plugin together and runs its loops in threads."""

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from driver.backoff import spread
from driver.clock import SystemClock
from driver.errors import SENSELESS, InvalidInput, LodeError, OperatorFault
from driver.files import SystemFiles
from driver.kube.api import NODES, Api, Object
from driver.kube.reflector_loop import ReflectorLoop
from driver.observe import Logger, Metrics, ObserveServer, configure_logs, logger
from driver.settings import Settings
from driver.settings_file import settings_in
from driver.threads import start_thread
from driver.wire.fields import text_map
from kubeletplugin.finding import FoundNode, find_hardware, profile_name
from kubeletplugin.hardware import HardwarePorts
from kubeletplugin.hardware.choosing import CombinedHardware
from kubeletplugin.hardware.deviceplugin.metrics import BridgeMetrics
from kubeletplugin.hardware.guarded import GuardedHardware
from kubeletplugin.known_node import KnownNode
from kubeletplugin.kubelet_devices import KubeletAnswer, KubeletClaim, SilentKubelet
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare import DeviceStatusWriter, Preparer, Retiring
from kubeletplugin.prepare.storage import plugin_directory
from kubeletplugin.publish import Publisher, PublishingMetrics
from kubeletplugin.publish.other_programs import OtherPrograms, file_of_signs
from kubeletplugin.server import PluginServer

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0
LONGEST_RESTORE_PAUSE_SECONDS = 300.0
"""The longest pause between tries to restore claims whose cards did not answer."""
API_SECONDS = 5.0
"""Longest time of one call of the API. The kubelet waits 45 s for the plugin, which may need several calls."""

T = TypeVar("T")


class PluginProcess:
    """One run of the program, from the first attempt to reach the API to a graceful stop.

    Attributes:
        metrics: what is served under /metrics.
    """

    def __init__(self, api: Api, settings: Settings, node_name: str, pod_uid: str):
        self._api = api
        self._settings = settings
        self._node_name = node_name
        self._pod_uid = pod_uid
        self._clock = SystemClock()
        self._files = SystemFiles()
        self._log = logger("kubeletplugin").bind(node=node_name)
        self.metrics = Metrics()
        self._bridge_metrics = cache(lambda: BridgeMetrics(self.metrics))
        """Made where device plugins are served."""
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._crashed = threading.Event()
        self._not_ready = "starting"
        self._publisher: Publisher | None = None
        self._server: PluginServer | None = None
        self._profile = ""
        """The profile of the simulated hardware that was found last."""

    def run(self) -> int:
        """Serve until ``stop`` is called; returns the exit status of the process."""
        gc.collect()  # what imports and settings leave
        observe = self._observe()
        try:
            boot_id = self._retry(self._boot_id)
            if boot_id is not None:
                self._serve(boot_id)
        finally:
            if observe:
                observe.close()
        return 1 if self._crashed.is_set() else 0

    def stop(self) -> None:
        """Request a graceful stop. May be called from a signal handler, and more than once."""
        self._stop.set()
        self._wake.set()

    def ready(self) -> str:
        """The reason why pods cannot get devices on this node; "" if they can."""
        if self._not_ready or self._publisher is None or self._server is None:
            return self._not_ready
        return self._server.problem or ("" if self._publisher.published else "slices are not published yet")

    def healthy(self) -> str:
        """The reason to restart the process; "" if there is none."""
        if self._crashed.is_set():
            return "a thread ended unexpectedly"
        return self._server.probe() if self._server is not None and not self._stop.is_set() else ""

    def _observe(self) -> ObserveServer | None:
        if not self._settings.observe_address:
            return None
        checks = {"/healthz": self.healthy, "/readyz": self.ready}
        return ObserveServer(self._settings.observe_address, self.metrics, checks)

    def _retry(self, act: Callable[[], T]) -> T | None:
        """Call ``act`` until it succeeds; returns its result, or None if the program was stopped before.

        A fault that an operator must correct is retried, too: ending the process would not help, and /readyz could no
        longer report the fault.
        """
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.is_set():
            try:
                return act()
            except (LodeError, OSError) as error:
                if self._not_ready != str(error):
                    self._not_ready = str(error)
                    self._log.error("cannot start yet", reason=self._not_ready)
            self._stop.wait(spread(pause, self._node_name))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return None

    def _boot_id(self) -> str:
        return Path(self._settings.kubeletplugin.boot_id_file).read_text().strip()

    def _find_hardware(self) -> CombinedHardware:
        node = self._watched() or self._api.get(NODES, self._node_name)
        self._profile = profile_name(self._settings, node)
        found = FoundNode(
            self._node_name,
            self._profile,
            lambda: _labels(self._watched() or node),
            bridge_metrics=self._bridge_metrics,
            serves=True,
        )
        return find_hardware(self._settings, found, files=self._files, clock=self._clock, log=self._log)

    def _has_other_profile(self) -> bool:
        """Whether the Node's label names another profile than that of the hardware found last."""
        node = self._watched()
        return node is not None and profile_name(self._settings, node) != self._profile

    def _watched(self) -> Object | None:
        return self._publisher.node if self._publisher else None

    def _serve(self, boot_id: str) -> None:
        """Serve the kubelet, then find the hardware, recover and publish; return after a graceful stop.

        Pods must be able to end whatever is wrong with the hardware or the API, so the kubelet is served first.
        """
        settings, log = self._settings, self._log
        guarded = GuardedHardware(self._find_hardware, self._clock, is_other=self._has_other_profile)
        node = NodeContext(
            name=self._node_name,
            settings=settings,
            boot_id=boot_id,
            api=self._api,
            clock=self._clock,
            files=self._files,
            hardware=HardwarePorts(guarded, guarded),
            log=log,
        )
        cards = node.remembered_cards(plugin_directory(settings), guarded.finds)
        node = replace(node, hardware=HardwarePorts(cards, guarded))
        release, unwritten = threading.Event(), threading.Event()
        device_status = DeviceStatusWriter(node, wake=unwritten.set)
        preparer = Preparer(
            replace(node, api=KnownNode(self._api, self._node_name, self._watched)),
            self.metrics,
            wake=release.set,
            kubelet_claims=partial(_kubelet_claims, settings, log),
            device_status=device_status,
        )
        publisher = Publisher(
            node,
            PublishingMetrics(self.metrics),
            wake=self._wake.set,
            releasing=preparer.retiring.releasing,
            recorded=preparer.recorded,
            others=self._other_programs(),
        )
        self._publisher = publisher
        self._show_use_of_shares(preparer)
        self._show_cards(guarded)

        def start() -> PluginServer:
            preparer.tidy()
            server = PluginServer(node, preparer, self._pod_uid, on_registered=publisher.republish_now)
            server.start()
            return server

        def recover() -> bool:
            cards.cards()
            preparer.restore()
            return True

        self._server = self._retry(start)
        if self._server is None:
            return
        self._thread("retiring", partial(self._step, preparer.retiring, release))
        self._thread("device status", partial(self._step, device_status, unwritten))
        if self._retry(recover):
            self._not_ready = ""
            publishing = self._publishing(publisher)
            self._restore_rest(preparer)
            self._wake.set()
            publishing.join()
        log.info("stopping")
        self._server.stop()
        cards.leave()
        self._remove_own_files(preparer)

    def _other_programs(self) -> OtherPrograms:
        file = file_of_signs(self._files, plugin_directory(self._settings), self._log)
        return OtherPrograms(self._clock, _elsewhere(self._settings, self._log), file)

    def _remove_own_files(self, preparer: Preparer) -> None:
        try:
            preparer.leave()
        except (LodeError, OSError) as error:
            self._log.warning("own files not removed", reason=str(error))

    def _show_use_of_shares(self, preparer: Preparer) -> None:
        settings = self._settings.kubeletplugin
        if not (settings.claim_metrics or settings.peer_metrics):
            return
        from kubeletplugin.share_usage import ShareUsage  # only who wants its series pays for it

        containers = partial(_kubelet_claims, self._settings, self._log)
        usage = ShareUsage(settings.nvidia.run_folder, preparer.claims, containers, self._clock, self._log)
        if settings.claim_metrics:
            self.metrics.add("/metrics", usage.own)
        if "hami" in settings.peer_metrics:
            self.metrics.add("/metrics/hami", usage.hami)

    def _show_cards(self, hardware: GuardedHardware) -> None:
        if not self._settings.kubeletplugin.card_metrics:
            return
        from kubeletplugin.card_metrics import CardMetrics  # only who wants its series pays for it

        self.metrics.add("/metrics", CardMetrics(hardware.all_readings, self.metrics, self._clock).text)

    def _restore_rest(self, preparer: Preparer) -> None:
        """Restore the claims that could not be restored before, until the program is stopped."""
        pause = LONGEST_PAUSE_SECONDS
        while not self._stop.wait(pause):
            if not preparer.unrestored:
                pause = LONGEST_PAUSE_SECONDS
                continue
            try:
                preparer.restore_rest()
            except (LodeError, OSError) as error:
                self._log.warning("claims not restored yet", reason=str(error))
            pause = min(2 * pause, LONGEST_RESTORE_PAUSE_SECONDS)

    def _publishing(self, publisher: Publisher) -> threading.Thread:
        for reflector in publisher.reflectors:
            loop = ReflectorLoop(reflector, self._clock, self._log, self._node_name)
            self._thread(f"reflector {reflector.resource.plural}", partial(self._follow, loop))
        return self._thread("publisher", partial(self._publish, publisher))

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def on_death() -> None:
            self._crashed.set()
            self.stop()

        return start_thread(name, work, on_death)

    def _follow(self, loop: ReflectorLoop) -> None:
        while not self._stop.is_set():
            self._stop.wait(loop.step())

    def _step(self, work: DeviceStatusWriter | Retiring, wake: threading.Event) -> None:
        """Do the work whenever some is due, until the program is stopped."""
        while not self._stop.is_set():
            wake.clear()
            if not work.step():
                due = work.next_due()
                pause = LONGEST_PAUSE_SECONDS if due is None else due - self._clock.monotonic()
                wake.wait(min(LONGEST_PAUSE_SECONDS, max(0.0, pause)))

    def _publish(self, publisher: Publisher) -> None:
        waited_for = True
        while not self._stop.is_set():
            self._wake.clear()
            if waited_for and not self.ready():
                waited_for = False
                self._log.info("ready", seconds=round(self.metrics.mark_ready(), 3))
                gc.collect()
            if not publisher.step():
                due = publisher.next_due()
                self._wake.wait(None if due is None else max(0.0, due - self._clock.monotonic()))


def _labels(node: Object) -> Mapping[str, str]:
    try:
        return text_map(node["metadata"].get("labels"))
    except SENSELESS:
        return {}


def _kubelet_claims(settings: Settings, log: Logger) -> Collection[KubeletClaim]:
    """The claims of running containers, as the kubelet reports them; () if it does not answer."""
    from kubeletplugin.podresources import PodResources, socket_paths  # only nodes that have lost records pay for it

    return PodResources(socket_paths(settings), log).claims()


def _elsewhere(settings: Settings, log: Logger) -> Callable[[], KubeletAnswer]:
    """The function that asks for devices that other programs hand out; simulated cards have no other program."""
    if settings.kubeletplugin.hardware == "simulated":
        return lambda: SilentKubelet(has_socket=False)
    from kubeletplugin.podresources import PodResources, socket_paths  # only nodes that may have cards pay for it

    return PodResources(socket_paths(settings), log).devices


def main(argv: Sequence[str] | None = None) -> int:
    """Run the kubelet plugin until SIGTERM or SIGINT; 0 then, 2 if the settings or the access are not valid."""
    parser = argparse.ArgumentParser("lode kubeletplugin", description="Publish and prepare the devices of one node.")
    parser.add_argument("--settings", default="", help="YAML file with the settings; without it, the defaults")
    parser.add_argument("--node-name", default=os.environ.get("NODE_NAME", ""), help="default: $NODE_NAME")
    parser.add_argument("--kubeconfig", default="", help="default: $KUBECONFIG, the service account, ~/.kube/config")
    arguments = parser.parse_args(argv)
    try:
        process = _process(arguments.settings, arguments.node_name, arguments.kubeconfig)
    except (InvalidInput, OperatorFault, OSError) as error:
        sys.stderr.write(f"lode kubeletplugin: {error}\n")
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: process.stop())
    return process.run()


def _process(settings_file: str, node_name: str, kubeconfig: str) -> PluginProcess:
    from driver.kube.client import KubeClient  # its imports are slow, and a wrong setting should be reported at once

    settings = settings_in(settings_file)
    if not node_name:
        raise OperatorFault("node name is not set; set NODE_NAME (downward API, spec.nodeName) or --node-name")
    configure_logs(settings.log_level, settings.log_format)
    api = KubeClient.from_environment(kubeconfig, call_seconds=API_SECONDS)
    return PluginProcess(api, settings, node_name, os.environ.get("POD_UID", ""))


if __name__ == "__main__":
    sys.exit(main())
