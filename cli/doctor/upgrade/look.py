"""Reads a cluster object by object, and asks the rules of the newer version about each. Nothing is changed."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import yaml

from cli.decisions.settings import CONFIG_MAPS
from cli.doctor.cluster_look import Reading
from cli.doctor.findings import SHOWN, Finding, some
from cli.doctor.upgrade.concerns import Concern, Concerns
from cli.doctor.upgrade.object_rules import (
    Published,
    SelectorRules,
    of_claim,
    of_class,
    of_slice,
    of_taint_rule,
    of_template,
)
from cli.doctor.upgrade.program_rules import GONE, KUBEADMS, Clients, of_config_map, of_kubelet, of_pod
from driver.errors import SENSELESS
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiError,
    NotFound,
    Object,
    Resource,
)
from driver.kube.objects import object_key
from driver.yaml_values import InvalidDocument, yaml_values

SLICES, CLAIMS, TEMPLATES, CLASSES, RULES = "slices", "claims", "claim templates", "device classes", "taint rules"
GATES, KUBELETS = "feature gates", "kubelets"
_SYSTEM: Final = "kube-system"
_ADMINISTRATOR: Final = "run this with the rights of an administrator"
_AT_ONCE: Final = 8
MOST_KUBELETS: Final = 500
"""Kubelets that are asked; one that does not answer takes seconds."""

_MOST_TEXT: Final = 1 << 16
"""Characters of a configuration that are read."""

Rule = Callable[[Object], Iterable[Concern]]


class UpgradeLook:
    """Looks at one cluster.

    Args:
        configuration_of: what the kubelet of a node says of its configuration; raises ApiError. Called in several
            threads.
    """

    def __init__(self, api: Api, configuration_of: Callable[[str], Object]):
        self._api = api
        self._configuration_of = configuration_of
        self._reading = Reading(api)
        self._concerns = Concerns()
        self._clients = Clients()
        self._published = Published()
        self._selectors = SelectorRules()

    def findings(self) -> tuple[Finding, ...]:
        """Read the cluster, as far as the user's rights allow, and say what is found.

        Raises:
            OperatorFault: the API server does not answer, or does not know the user.
        """
        published, selectors, none = self._published, self._selectors, list[Finding]()
        # Slices come first: what claims ask for has a meaning by what there is.
        self._ask(SLICES, RESOURCE_SLICES, self._of_slice)
        self._ask(CLAIMS, RESOURCE_CLAIMS, lambda claim: of_claim(claim, published, selectors))
        self._ask(TEMPLATES, RESOURCE_CLAIM_TEMPLATES, lambda template: of_template(template, published, selectors))
        self._ask(CLASSES, DEVICE_CLASSES, lambda device_class: of_class(device_class, selectors))
        self._ask(RULES, DEVICE_TAINT_RULES, of_taint_rule)
        self._ask(GATES, PODS, of_pod, _SYSTEM)
        self._reading.attempt(GATES, self._config_maps, None)
        kubelets = self._reading.attempt(KUBELETS, self._kubelets, none)
        clients = self._reading.attempt("API clients", self._found_clients, none)
        checks = [
            check for check in (SLICES, CLAIMS, TEMPLATES, CLASSES, RULES, GATES) if check not in self._reading.unread
        ]
        return (*self._concerns.findings(checks), *kubelets, *clients, *self._not_known())

    def _ask(self, check: str, resource: Resource, rule: Rule, namespace: str = "") -> None:
        """Ask the rule about each object of the kind."""

        def ask(obj: Object) -> None:
            subject = f"{resource.kind} {object_key(obj)}"
            self._concerns.add(check, subject, [*rule(obj)])
            self._clients.add(resource.kind, obj)

        def each() -> None:
            for _ in self._reading.each(resource, ask, namespace):
                pass

        self._reading.attempt(check, each, None)

    def _of_slice(self, part: Object) -> Iterable[Concern]:
        self._published.add(part)
        self._selectors.add(part)
        return of_slice(part)

    def _config_maps(self) -> None:
        for name in KUBEADMS:
            subject = f"ConfigMap {_SYSTEM}/{name}"
            if found := self._reading.get(CONFIG_MAPS, name, _SYSTEM):
                with self._reading.naming(subject):
                    self._concerns.add(GATES, subject, [*of_config_map(name, _documents(found))])

    def _kubelets(self) -> list[Finding]:
        """What kubelets say of their configurations. One that does not answer may be down: it is named, and so is one
        whose answer makes no sense."""
        names = [*self._reading.each(NODES, lambda node: str(node["metadata"]["name"]))]
        asked, silent, concerns = names[:MOST_KUBELETS], list[str](), Concerns()
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for name, found in zip(asked, threads.map(self._of_kubelet, asked), strict=True):
                if found is None:
                    silent.append(name)
                else:
                    concerns.add(KUBELETS, f"Node {name}", found)
        silent += names[MOST_KUBELETS:]
        findings = [*concerns.findings([KUBELETS])] if len(silent) < len(names) or not names else []
        if silent:
            message = "what their kubelets have in featureGates is not known: not asked, or no answer that makes sense"
            remedy = "look at featureGates of the kubelet's configuration on these nodes, or call this again"
            findings.append(Finding("unknown", KUBELETS, some(silent), message, remedy))
        return findings

    def _of_kubelet(self, node: str) -> list[Concern] | None:
        """All concerns about the configuration of a node's kubelet; None if it is not known."""
        try:
            return [*of_kubelet(node, self._configuration_of(node))]
        except (ApiError, *SENSELESS):
            return None

    def _found_clients(self) -> list[Finding]:
        try:
            self._api.list(GONE, limit=1)
        except NotFound:
            return self._clients.findings(served=False)
        return self._clients.findings(served=True)

    def _not_known(self) -> list[Finding]:
        """What could not be read, of kinds and of single objects."""
        found = [Finding("unknown", check, "API", why, _ADMINISTRATOR) for check, why in self._reading.unread.items()]
        if left := self._selectors.left_out:
            message = "were not looked at: there are too many, or they take too long"
            found.append(Finding("unknown", "selectors", f"{left} selectors", message, "look again with fewer claims"))
        unreadable = sorted(self._reading.unreadable.items())
        for subject, error in unreadable[:SHOWN]:
            found.append(Finding("unknown", "objects", subject, f"cannot be read: {error}", "write it anew"))
        if more := len(unreadable[SHOWN:]):
            found.append(Finding("unknown", "objects", f"{more} more", "cannot be read", "write them anew"))
        return found


def _documents(config_map: Object) -> Iterator[tuple[str, Any]]:
    """Each document of a ConfigMap with its key. What is no YAML, such as a script, is no configuration."""
    for key, text in (config_map.get("data") or {}).items():
        try:
            yield from [(str(key), document) for document in yaml_values(str(text)[:_MOST_TEXT])]
        except (InvalidDocument, yaml.YAMLError):
            continue
