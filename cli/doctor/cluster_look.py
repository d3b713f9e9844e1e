"""Reads a cluster for its check, as far as the rights of the user and the objects allow.

Nothing is changed: a review of rights is answered and not stored.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

from cli import live, shipped
from cli.doctor.allocated import AllocatedDriver, changed_at, driver_of, holding, published
from cli.doctor.cluster_checks import (
    ClusterFacts,
    ClusterNode,
    Lease,
    Migration,
    NamespaceLabels,
    OldLimit,
    Program,
    Right,
)
from cli.doctor.rivals import CardsOfNode
from controller.policies import base_policies, controller_policies, deviation, policy_resource
from driver.adoption import NAMESPACE_LABEL, SOURCES, resources_of
from driver.errors import SENSELESS, InvalidInput
from driver.kube.api import (
    ACCESS_REVIEWS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    LEASES,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    VALIDATING_POLICIES,
    Api,
    ApiError,
    Forbidden,
    NotFound,
    Object,
    Resource,
)
from driver.kube.objects import is_terminal, name_key, object_key
from driver.label_selectors import label_selector_from
from driver.limits import bounded
from driver.names import NVIDIA_DRA_DRIVER, Names
from driver.settings import Settings
from kubeletplugin.hardware.vendors import vendor_of_resource

_MOST_TEXT: Final = 300
"""Characters of an error that is kept: it may quote what somebody else has written."""
T = TypeVar("T")


class Reading:
    """Reads, and remembers what could not be read.

    Attributes:
        unread: the reason why a check could not be made, by check.
        unreadable: objects that make no sense, by kind and name, with the error.
    """

    def __init__(self, api: Api):
        self._api = api
        self.unread: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}

    def attempt(self, check: str, read: Callable[[], T], otherwise: T) -> T:
        """What ``read`` gives; where the user may not read it, ``otherwise``, and the check counts as unread.

        Raises:
            OperatorFault: the API server does not answer, or does not know the user.
        """
        try:
            return read()
        except Forbidden as error:
            if error.status == 401:
                raise live.fault_of_api_error(error) from error
            self.unread[check] = str(error)
        except ApiError as error:
            raise live.fault_of_api_error(error) from error
        except live.NoRights as error:
            self.unread[check] = str(error)
        return otherwise

    def each(self, resource: Resource, read: Callable[[Object], T], namespace: str = "") -> Iterator[T]:
        """Read each object of the kind. An object that cannot be decoded is left out, and named at the end."""
        for obj in live.each(self._api, resource, namespace):
            with self.naming(f"{resource.kind} {_name_of(obj)}"):
                yield read(obj)

    @contextmanager
    def naming(self, subject: str) -> Iterator[None]:
        """Ends the block where an object makes no sense, which is named at the end."""
        try:
            yield
        except (*SENSELESS, InvalidInput) as error:
            self.unreadable[subject] = bounded(repr(error), _MOST_TEXT)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object; None if it does not exist."""
        try:
            return self._api.get(resource, name, namespace)
        except NotFound:
            return None


def _name_of(obj: Any) -> str:
    """``object_key``, also of an object that does not say who it is."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    parts = [str(known[part]) for part in ("namespace", "name") if known.get(part)]
    return bounded("/".join(parts), _MOST_TEXT) or "without a name"


LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", namespaced=True)
_WANTS = ("In", "Exists", "Gt", "Lt")
"""Operators that no node meets without the label."""


def _migration(reading: Reading, policy_of: Callable[[str], Object | None]) -> Migration:
    """Read the facts. Where nobody asks for adoption, only namespaces are listed.

    Args:
        policy_of: the policy that adopts the pods of a source, by name; None if it is not in force.
    """
    each = reading.each
    policies = {source: policy for source in SOURCES if (policy := policy_of(source))}
    found = tuple(each(NAMESPACES, lambda raw: _labels(raw, policies)))
    namespaces = tuple(it for it in found if it.asked or it.adopted)
    adopted = {it.name: it.adopted for it in namespaces if it.adopted}
    if not adopted:
        return Migration(tuple(policies), namespaces)
    old: dict[str, list[str]] = {}
    astray: dict[str, list[str]] = {}
    labels = {key for keys in each(NODES, lambda node: [*(node["metadata"].get("labels") or {})]) for key in keys}
    for pod, sources, wanted in each(PODS, lambda raw: _pod(raw, adopted)):
        for source in sources:
            old.setdefault(source, []).append(pod)
        for label in sorted({*wanted} - labels):
            astray.setdefault(label, []).append(pod)
    quotas = each(RESOURCE_QUOTAS, lambda raw: _old_limits(raw, adopted))
    ranges = each(LIMIT_RANGES, lambda raw: _old_ranges(raw, adopted))
    names = each(DEVICE_CLASSES, lambda raw: str(raw["spec"].get("extendedResourceName") or ""))
    return Migration(
        installed=tuple(policies),
        namespaces=namespaces,
        old_pods={source: tuple(pods) for source, pods in old.items()},
        quotas=tuple(quota for found in quotas for quota in found),
        ranges=tuple(limit for found in ranges for limit in found),
        class_names=frozenset(names) - {""},
        astray={label: tuple(pods) for label, pods in astray.items()},
    )


def _labels(namespace: Object, policies: Mapping[str, Object]) -> NamespaceLabels:
    name, labels = namespace["metadata"]["name"], namespace["metadata"].get("labels") or {}
    asked = (
        key.removeprefix(NAMESPACE_LABEL)
        for key, value in labels.items()
        if key.startswith(NAMESPACE_LABEL) and value == "on"
    )
    adopted = (source for source, policy in policies.items() if _selects(policy, labels))
    return NamespaceLabels(name, tuple(sorted(asked)), tuple(adopted))


def _selects(policy: Object, labels: Mapping[str, str]) -> bool:
    selector = label_selector_from((policy["spec"].get("matchConstraints") or {}).get("namespaceSelector"))
    return selector is None or selector.selects(labels)


def _pod(pod: Object, adopted: Mapping[str, tuple[str, ...]]) -> tuple[str, list[str], list[str]]:
    """Its key, the sources whose resources it has, and, while it has no node, the labels that it wants of one."""
    sources = adopted.get(name_key(pod)[0], ())
    if not sources or is_terminal(pod):
        return object_key(pod), [], []
    asked = resources_of(pod)
    old = [source for source in sources if SOURCES[source].taken(asked)]
    return object_key(pod), old, [] if pod["spec"].get("nodeName") else _wanted_labels(pod["spec"])


def _wanted_labels(spec: Mapping[str, Any]) -> list[str]:
    """The labels that every node for the pod needs, as far as terms do not offer others."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        {one["key"] for one in term.get("matchExpressions") or () if one["operator"] in _WANTS}
        for term in required.get("nodeSelectorTerms") or ()
    ]
    return [*(spec.get("nodeSelector") or {}), *(set.intersection(*terms) if terms else ())]


def _old_limits(quota: Object, adopted: Mapping[str, tuple[str, ...]]) -> list[OldLimit]:
    limited = {key.removeprefix("requests.").removeprefix("limits.") for key in quota["spec"].get("hard") or {}}
    return _of_sources(quota, limited, adopted)


def _old_ranges(limits: Object, adopted: Mapping[str, tuple[str, ...]]) -> list[OldLimit]:
    ranges = limits["spec"].get("limits") or ()
    limited = {name for one in ranges for part in ("min", "max") for name in one.get(part) or {}}
    return _of_sources(limits, limited, adopted)


def _of_sources(obj: Object, limited: set[str], adopted: Mapping[str, tuple[str, ...]]) -> list[OldLimit]:
    resources = {it for source in adopted.get(name_key(obj)[0], ()) for it in SOURCES[source].taken(limited)}
    return [OldLimit(object_key(obj), resource) for resource in sorted(resources)]


PLUGIN, CONTROLLER = "lode-kubeletplugin", "lode-controller"
NEEDED: Final = (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, MUTATING_POLICIES)
_NVIDIA_CLASSES: Final = (NVIDIA_DRA_DRIVER, "mig.nvidia.com")
_REVIEWS_AT_ONCE: Final = 8
_ABSENT: Final = "does not exist"
_OFF: Final = ("lode.dev/kubeletplugin", "off")


class ClusterLook:
    """Reads one cluster.

    Args:
        namespaces: of each program, by its name.
        version: of the API server, as ``/version`` says it.
        now: seconds since the epoch.
    """

    def __init__(self, api: Api, settings: Settings, namespaces: Mapping[str, str], version: str, now: float):
        self._api = api
        self._settings = settings
        self._namespaces = namespaces
        self._version = version
        self._now = now
        self._reading = Reading(api)

    def facts(self) -> ClusterFacts:
        """Read the facts, as far as the user's rights allow.

        Raises:
            OperatorFault: the API server does not answer, or does not know the user.
        """
        namespaces = self._namespaces
        also = self._settings.controller.also_allocates
        where = (self._settings.driver_name, namespaces[CONTROLLER], namespaces[PLUGIN], also)
        plugin = self._reading.attempt(
            "programs", lambda: self._reading.get(DAEMON_SETS, PLUGIN, namespaces[PLUGIN]), None
        )
        controller = self._reading.attempt(
            "programs", lambda: self._reading.get(DEPLOYMENTS, CONTROLLER, namespaces[CONTROLLER]), None
        )
        none: Mapping[str, str] = {}
        of_controller = self._reading.attempt("policies", lambda: self._problems(controller_policies(*where)), none)
        allocates = controller is not None or any(problem != _ABSENT for problem in of_controller.values())
        of_plugin = self._reading.attempt("policies", lambda: self._problems(base_policies(*where)), none)
        return ClusterFacts(
            version=self._version,
            served=self._reading.attempt(
                "API", lambda: {f"{it.api_version} {it.plural}": self._serves(it) for it in NEEDED}, {}
            ),
            plugin=_daemon_set(plugin),
            other_plugins=self._reading.attempt("programs", self._other_plugins, ()),
            controller=_deployment(controller),
            lease=self._reading.attempt("leader", self._lease, None),
            controller_allocates=allocates,
            missing_classes=self._reading.attempt("device classes", self._missing_classes, ()),
            policies={**of_plugin, **(of_controller if allocates else {})},
            denied=self._reading.attempt("rights", lambda: tuple(self._denied(allocates)), ()),
            nodes=self._reading.attempt("devices", lambda: self._nodes(plugin), ()),
            gated=()
            if controller or "programs" in self._reading.unread
            else self._reading.attempt("pods", self._gated, ()),
            holding=()
            if plugin or "programs" in self._reading.unread
            else self._reading.attempt("pods", self._holding, ()),
            nvidia_classes=self._reading.attempt("device classes", self._nvidia_classes, ()),
            migration=self._reading.attempt("adoption", self.migration, Migration()),
            also_allocated=self._reading.attempt("other drivers", self._also_allocated, ()),
            unread=self._reading.unread,
            unreadable=self._reading.unreadable,
        )

    def _other_plugins(self) -> tuple[str, ...]:
        found = (name_key(it) for it in live.list_all(self._api, DAEMON_SETS))
        return tuple(where for where, name in found if name == PLUGIN and where != self._namespaces[PLUGIN])

    def _serves(self, resource: Resource) -> bool:
        try:
            self._api.list(resource, limit=1)
        except NotFound:
            return False
        return True

    def _gated(self) -> tuple[str, ...]:
        gate = Names(self._settings.driver_name).gate

        def gated(pod: Object) -> str:
            gates = [it["name"] for it in pod["spec"].get("schedulingGates") or ()]
            return object_key(pod) if gate in gates else ""

        return tuple(filter(None, self._reading.each(PODS, gated)))

    def _holding(self) -> tuple[str, ...]:
        def users(claim: Object) -> list[str]:
            if self._settings.driver_name not in _drivers(claim):
                return []
            return [f"{name_key(claim)[0]}/{user['name']}" for user in claim["status"].get("reservedFor") or ()]

        return tuple(pod for pods in self._reading.each(RESOURCE_CLAIMS, users) for pod in pods)

    def _lease(self) -> Lease | None:
        found = self._reading.get(LEASES, self._settings.controller.lease_name, self._namespaces[CONTROLLER])
        spec = (found or {}).get("spec") or {}
        if not spec.get("renewTime"):
            return None
        renewed = datetime.fromisoformat(spec["renewTime"]).timestamp()
        return Lease(spec.get("holderIdentity") or "", renewed + spec["leaseDurationSeconds"] - self._now)

    def _missing_classes(self) -> tuple[str, ...]:
        wanted = [raw["metadata"]["name"] for raw in shipped.device_classes(self._settings.driver_name)]
        return tuple(name for name in wanted if self._reading.get(DEVICE_CLASSES, name) is None)

    def _nvidia_classes(self) -> tuple[str, ...]:
        """The classes with names of NVIDIA's DRA driver whose selectors name our driver."""
        found = ((name, self._reading.get(DEVICE_CLASSES, name)) for name in _NVIDIA_CLASSES)
        driver = f'"{self._settings.driver_name}"'
        return tuple(name for name, raw in found if raw and driver in str(raw["spec"].get("selectors")))

    def _also_allocated(self) -> tuple[AllocatedDriver, ...]:
        drivers = self._settings.controller.also_allocates
        if not drivers:
            return ()
        name = f"single-allocator.{self._settings.driver_name}"
        since = changed_at(self._reading.get(VALIDATING_POLICIES, name))
        slices = [*self._reading.each(RESOURCE_SLICES, published)]
        holdings = [*self._reading.each(RESOURCE_CLAIMS, holding)]
        return tuple(driver_of(driver, slices, holdings, since) for driver in drivers)

    def _problems(self, expected: Sequence[Object]) -> Mapping[str, str]:
        return {f"{obj['kind']} {obj['metadata']['name']}": self._problem(obj) for obj in expected}

    def _problem(self, expected: Object) -> str:
        actual = self._reading.get(policy_resource(expected), expected["metadata"]["name"])
        return _ABSENT if actual is None else deviation(expected, actual)

    def migration(self) -> Migration:
        """Read what there is of other systems. Raises ApiError."""
        return _migration(self._reading, self._adopting)

    def _adopting(self, source: str) -> Object | None:
        """The policy that adopts the pods of a source; None if it is not in force."""
        name = f"adopt-{source}.{self._settings.driver_name}"
        policy = self._reading.get(MUTATING_POLICIES, name)
        return policy if policy and self._reading.get(MUTATING_BINDINGS, name) else None

    def _denied(self, controller: bool) -> Iterator[Right]:
        roles = shipped.roles(self._settings.driver_name)
        names = (PLUGIN, CONTROLLER) if controller else (PLUGIN,)
        rights = [right for name in names for right in rights_of(roles, name, self._namespaces[name])]
        # A hundred questions: one after the other, they would take seconds where the API server is far away.
        with ThreadPoolExecutor(_REVIEWS_AT_ONCE) as threads:
            for right, allowed in zip(rights, threads.map(self._allowed, rights), strict=True):
                if not allowed:
                    yield right

    def _allowed(self, right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "name": right.name,
            "namespace": right.namespace,
        }
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{right.account.split(':')[2]}"]
        spec = {"user": right.account, "groups": groups, "resourceAttributes": attributes}
        answer = self._api.create(ACCESS_REVIEWS, {"spec": spec})
        return bool(answer["status"].get("allowed"))

    def _nodes(self, plugin: Object | None) -> tuple[ClusterNode, ...]:
        ready = set(self._reading.each(PODS, _plugin_node, self._namespaces[PLUGIN]))
        devices: dict[str, int] = {}
        others: dict[str, set[str]] = {}
        nvidia_names: set[str] = set()
        cards: dict[str, CardsOfNode] = {}
        names = self._settings.names

        def read(part: Object) -> tuple[str, str, int, bool]:
            node, driver, count, named = _published(part)
            known = cards.setdefault(node, CardsOfNode())
            if driver == names.driver:
                known.add_own(part, names)
            else:
                known.add_other(part)
            return node, driver, count, named

        for node, driver, count, named in self._reading.each(RESOURCE_SLICES, read):
            if driver == self._settings.driver_name:
                devices[node] = devices.get(node, 0) + count
                nvidia_names |= {node} if named else set()
            elif driver.endswith((".nvidia.com", ".huawei.com")):
                others.setdefault(node, set()).add(driver)
        claims = Counter(node for held in self._reading.each(RESOURCE_CLAIMS, self._held_on) for node in held)
        selector = _selector(plugin)

        def of_linux(raw: Object) -> ClusterNode | None:
            if raw["status"].get("nodeInfo", {}).get("operatingSystem") not in ("linux", "", None):
                return None
            found = _node(raw, selector, raw["metadata"]["name"] in ready, devices, others)
            twice = tuple(cards[found.name].twice()) if found.name in cards else ()
            return replace(found, nvidia_names=found.name in nvidia_names, claims=claims[found.name], twice=twice)

        return tuple(filter(None, self._reading.each(NODES, of_linux)))

    def _held_on(self, claim: Object) -> set[str]:
        """The nodes of which the claim holds our devices."""
        pools = {result["pool"] for result in _results(claim) if result["driver"] == self._settings.driver_name}
        return {str(pool).partition("/")[0] for pool in pools}


def rights_of(roles: Sequence[Object], name: str, namespace: str) -> Iterator[Right]:
    """Each right that the roles of this name give."""
    account = f"system:serviceaccount:{namespace}:{name}"
    for role in roles:
        if role["metadata"]["name"] != name:
            continue
        where = namespace if role["kind"] == "Role" else ""
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for object_name in rule.get("resourceNames") or [""]:
                            yield Right(account, verb, group, resource, name=object_name, namespace=where)


def _results(claim: Object) -> Sequence[Mapping[str, Any]]:
    """The devices that the claim has."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()


def _drivers(claim: Object) -> set[str]:
    """The drivers of the claim's devices."""
    return {result["driver"] for result in _results(claim)}


def _daemon_set(raw: Object | None) -> Program | None:
    status = (raw or {}).get("status") or {}
    return Program(status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)) if raw else None


def _deployment(raw: Object | None) -> Program | None:
    status = (raw or {}).get("status") or {}
    return Program(raw["spec"].get("replicas", 1), status.get("readyReplicas", 0)) if raw else None


def _plugin_node(pod: Object) -> str:
    """The node of a pod of the plugin that is ready; "" for any other pod."""
    is_ours = (pod["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == PLUGIN
    return str(pod["spec"].get("nodeName") or "") if is_ours and _is_ready(pod) else ""


def _published(part: Object) -> tuple[str, str, int, bool]:
    """Node, driver and number of devices of a slice, and whether they have the attributes of NVIDIA's DRA driver."""
    spec = part["spec"]
    devices = spec.get("devices") or ()
    named = any(f"{NVIDIA_DRA_DRIVER}/type" in (device.get("attributes") or {}) for device in devices)
    return str(spec.get("nodeName") or ""), str(spec["driver"]), len(devices), named


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _selector(plugin: Object | None) -> Mapping[str, str]:
    return plugin["spec"]["template"]["spec"].get("nodeSelector") or {} if plugin else {}


def _node(
    raw: Object,
    selector: Mapping[str, str],
    ready: bool,
    devices: Mapping[str, int],
    others: Mapping[str, set[str]],
) -> ClusterNode:
    name, labels, info = raw["metadata"]["name"], raw["metadata"].get("labels") or {}, raw["status"].get("nodeInfo", {})
    off = labels.get(_OFF[0]) == _OFF[1] or any(labels.get(key) != value for key, value in selector.items())
    allocatable: Mapping[str, Any] = raw["status"].get("allocatable") or {}
    offered = tuple(
        key for key, amount in sorted(allocatable.items()) if vendor_of_resource(key) and str(amount) != "0"
    )
    return ClusterNode(
        name=name,
        kubelet=info.get("kubeletVersion", ""),
        runtime=info.get("containerRuntimeVersion", ""),
        excluded=off,
        plugin_ready=ready,
        devices=devices.get(name, 0),
        device_plugins=offered,
        drivers=tuple(sorted(others.get(name, ()))),
    )
