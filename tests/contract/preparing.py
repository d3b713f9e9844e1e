"""A stand-in for the kubelet of a node whose plugin is real: it prepares the claims of pods, and lets them run."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from driver.kube.api import RESOURCE_CLAIMS, Api, Object
from simulation.kubernetes.dra_plugin import ClaimName, PluginDown
from simulation.kubernetes.plugin_client import PluginClient
from testclusters.commands import start_process
from testclusters.controlplane import ControlPlane
from tests.contract.running import let_run


def start_plugin(plane: ControlPlane, place: Path, node: str, settings: Object) -> "subprocess.Popen[bytes]":
    """Start our kubelet plugin with the rights of its service account on a node; its log is ``plugin.log``.

    Args:
        place: the folder of its files: ``kubelet`` is the kubelet's, and ``cdi`` that of CDI specs.
        settings: of the plugin, where these folders are added.
    """
    own = {"kubeletRoot": str(place / "kubelet"), "cdiRoot": str(place / "cdi")}
    whole = {**settings, "observeAddress": "", "kubeletplugin": {**settings["kubeletplugin"], **own}}
    (place / "plugin.yaml").write_text(yaml.safe_dump(whole))
    token = ["create", "token", "lode-kubeletplugin", "-n", "lode-plugin", "--bound-object-kind=Node"]
    issued = plane.kubectl(*token, f"--bound-object-name={node}").stdout.strip()
    access = yaml.safe_load(plane.kubeconfig().read_text())
    access["users"][0]["user"] = {"token": issued}
    (place / "plugin.kubeconfig").write_text(yaml.safe_dump(access))
    command = [sys.executable, "-m", "cli", "kubeletplugin", "--node-name", node]
    options = ["--settings", str(place / "plugin.yaml"), "--kubeconfig", str(place / "plugin.kubeconfig")]
    return start_process([*command, *options], place / "plugin.log", dict(os.environ))


class PreparingKubelet:
    """The kubelet of a node: ``sync`` does what is due with one pod."""

    def __init__(self, api: Api, node: str, kubelet: Path):
        self._api = api
        self._node = node
        self._client = PluginClient(str(kubelet), "lode.dev")
        self._of_pods: dict[str, Mapping[str, ClaimName]] = {}
        """By the uids of pods that have been prepared, their claims by the names that the pods give them."""
        self._answers: dict[str, Any] = {}
        """What the plugin has answered, by the uids of claims."""
        self.refusals: dict[str, str] = {}
        """Why a claim of a pod is not prepared, by the pods' names."""

    def close(self) -> None:
        """Close the connections to the plugin."""
        self._client.close()

    def sync(self, pod: Object) -> None:
        """Prepare its claims and let it run; or let it end, and unprepare what no other pod has.

        Raises:
            ApiError: somebody has changed or deleted something meanwhile.
            PluginDown: the plugin is away.
        """
        if pod["spec"].get("nodeName") != self._node:
            return
        uid = pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in ("Succeeded", "Failed"):
            self._end(uid)
        elif uid not in self._of_pods and not self._prepared(pod):
            return
        let_run(self._api, pod)

    def devices_of(self, pod: Object, container: str) -> Sequence[str]:
        """The devices that a container of a pod gets: those of the claims, or of their requests, that it names."""
        (found,) = [each for each in pod["spec"]["containers"] if each["name"] == container]
        claims = self._of_pods[pod["metadata"]["uid"]]
        named = found.get("resources", {}).get("claims") or ()
        return sorted(
            device.device_name
            for entry in named
            for device in self._answers[claims[entry["name"]].uid].devices
            if not entry.get("request") or entry["request"] in {name.partition("/")[0] for name in device.request_names}
        )

    def _prepared(self, pod: Object) -> bool:
        self._client.registered()
        claims = dict(self._claims(pod))
        answers = self._client.prepare_resources(list(claims.values())) if claims else {}
        errors = [answer.error for answer in answers.values() if answer.error]
        if errors:
            self.refusals[pod["metadata"]["name"]] = errors[0]
            return False
        self._answers |= answers
        self._of_pods[pod["metadata"]["uid"]] = claims
        return True

    def _end(self, uid: str) -> None:
        claims = self._of_pods.get(uid, {})
        others = {each.uid for pod, has in self._of_pods.items() if pod != uid for each in has.values()}
        ending = [each for each in claims.values() if each.uid not in others]
        if ending:
            self._client.registered()
            errors = [answer.error for answer in self._client.unprepare(ending).values() if answer.error]
            if errors:
                raise PluginDown(errors[0])
        self._of_pods.pop(uid, None)

    def _claims(self, pod: Object) -> Mapping[str, ClaimName]:
        made = {each["name"]: each["resourceClaimName"] for each in pod["status"].get("resourceClaimStatuses", ())}
        names = {
            each["name"]: each.get("resourceClaimName") or made[each["name"]]
            for each in pod["spec"].get("resourceClaims", ())
        }
        namespace = pod["metadata"]["namespace"]
        return {
            entry: ClaimName(namespace, name, self._api.get(RESOURCE_CLAIMS, name, namespace)["metadata"]["uid"])
            for entry, name in names.items()
        }
