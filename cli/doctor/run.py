"""The work of ``lode doctor``: look, check, print."""

import argparse
import json
import time
from contextlib import suppress

from cli.decisions.settings import installed_settings
from cli.doctor.cluster_checks import check_cluster
from cli.doctor.cluster_look import CONTROLLER, PLUGIN, ClusterLook
from cli.doctor.findings import Finding, passed, text, to_json
from cli.doctor.node_checks import check_node
from cli.doctor.node_look import observe_node
from cli.doctor.upgrade.look import UpgradeLook
from cli.doctor.upgrade.program_rules import check_registrations
from cli.live import NoRights, fault_of_api_error
from driver.errors import InvalidInput
from driver.kube.access import Access, from_environment
from driver.kube.api import ApiError
from driver.kube.client import KubeClient
from driver.settings import Settings
from driver.settings_file import settings_in

PASSED, NOT_PASSED = 0, 1
_KUBELET_SECONDS = 10.0


def run(arguments: argparse.Namespace) -> int:
    """Check as the command's arguments say; the exit status."""
    findings = _findings(arguments)
    print(json.dumps(to_json(findings), indent=2) if arguments.output == "json" else text(findings))
    return PASSED if passed(findings) else NOT_PASSED


def _findings(arguments: argparse.Namespace) -> tuple[Finding, ...]:
    settings = settings_in(arguments.settings)
    if arguments.what == "node":
        node = observe_node(settings, arguments.root, arguments.driver_root)
        return tuple(check_registrations(node.registrations)) if arguments.upgrade else check_node(node)
    access = from_environment(arguments.kubeconfig, context=arguments.context)
    if arguments.upgrade:
        return _before_upgrade(access)
    client = KubeClient(access)
    try:
        namespaces = {CONTROLLER: arguments.namespace, PLUGIN: arguments.plugin_namespace}
        if not arguments.settings:
            settings = _with_drivers_of(client, arguments.namespace, settings)
        facts = ClusterLook(client, settings, namespaces, _version(client), time.time()).facts()
    finally:
        client.close()
    return check_cluster(facts)


def _with_drivers_of(client: KubeClient, namespace: str, settings: Settings) -> Settings:
    """The settings with the other drivers that the installed controller allocates, if these may be read."""
    with suppress(NoRights, InvalidInput):
        if installed := installed_settings(client, namespace):
            also = {"also_allocates": installed.also_allocates}
            return settings.model_copy(update={"controller": settings.controller.model_copy(update=also)})
    return settings


def _before_upgrade(access: Access) -> tuple[Finding, ...]:
    client, kubelets = KubeClient(access), KubeClient(access, call_seconds=_KUBELET_SECONDS)
    try:
        return UpgradeLook(client, kubelets.kubelet_configuration).findings()
    finally:
        client.close()
        kubelets.close()


def _version(client: KubeClient) -> str:
    try:
        return client.server_version()
    except ApiError as error:
        raise fault_of_api_error(error) from error
