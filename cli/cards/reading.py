"""Reads what the commands for cards need, with the rights of the user, and says which rights are missing."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cli import live
from cli.cards.card import CardHolder, CardTarget, PublishedCard, cards_of, find, holders, parse
from cli.cards.rules import KnownRule, RuleChanges, known_rules
from controller.state import DEVICE_TAINT_RULES_BETA
from driver.errors import OperatorFault
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    AlreadyExists,
    Api,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    Resource,
)
from driver.names import Names

_NOT_SERVED = (
    "the API server serves no DeviceTaintRules, by which cards are taken out of service. Kubernetes 1.37 does by "
    "default; for 1.36 switch on the feature gate DRADeviceTaintRules and "
    "--runtime-config=resource.k8s.io/v1beta2=true"
)


@contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[tuple[Api, Names]]:
    """Connect to the cluster that a command's arguments name.

    Raises:
        OperatorFault: there is none, or a right is missing, and then who grants it.
    """
    try:
        with live.cluster(arguments.kubeconfig, arguments.context) as (api, _):
            yield api, Names(arguments.driver)
    except live.NoRights as error:
        rights = "; ".join(map(str, error.missing))
        raise OperatorFault(
            f"{rights}. Have an administrator grant this (docs/cards.md has the ClusterRole)"
        ) from error


def read_target(api: Api, what: str, names: Names, *, may_be_gone: bool = False) -> CardTarget:
    """Return the card, or the cards of the node, that ``NODE[/CARD]`` names.

    Args:
        may_be_gone: whether a card that the node does not publish is taken by its name.

    Raises:
        OperatorFault: it names no card, or several; the message has the candidates.
    """
    node, wanted = parse(what)
    cards = _cards(api, node, names)
    if not cards and not may_be_gone:
        raise OperatorFault(
            f"node {node} publishes no cards of {names.driver}; correct the name, or see the log of its plugin"
        )
    if not wanted:
        return CardTarget(node, None, cards)
    try:
        card = find(node, wanted, cards)
    except OperatorFault:
        if not may_be_gone or cards:
            raise
        card = PublishedCard(node, wanted)
    return CardTarget(node, card, (card,))


def _cards(api: Api, node: str, names: Names) -> tuple[PublishedCard, ...]:
    selector = f"spec.nodeName={node},spec.driver={names.driver}"
    return cards_of(node, live.list_all(api, RESOURCE_SLICES, field_selector=selector), names)


def read_holders(api: Api, target: CardTarget, names: Names) -> list[CardHolder]:
    """Return the claims of all namespaces that hold the target, with admin access as well."""
    return holders(live.list_all(api, RESOURCE_CLAIMS), target, names)


@dataclass(frozen=True, slots=True)
class ServedRules:
    """The DeviceTaintRules of the cluster, in the version that is served."""

    resource: Resource
    rules: Sequence[KnownRule]

    def write(self, api: Api, changes: RuleChanges) -> None:
        """Delete and create. What is done already, by a call at the same time, is no error."""
        for rule in changes.delete:
            try:
                api.delete(self.resource, rule.rule.name, uid=rule.uid)
            except (NotFound, Conflict):
                continue
            except Forbidden as error:
                raise live.fault_of_forbidden(error, live.MissingRight("delete", self.resource)) from error
        for rule_object in changes.create:
            try:
                api.create(self.resource, {**rule_object, "apiVersion": self.resource.api_version})
            except AlreadyExists:
                continue
            except Forbidden as error:
                raise live.fault_of_forbidden(error, live.MissingRight("create", self.resource)) from error


def read_rules(api: Api, names: Names) -> ServedRules:
    """Return all DeviceTaintRules.

    Raises:
        OperatorFault: the API server serves none, or does not answer.
        NoRights: the user may not list them.
    """
    for resource in (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA):
        try:
            api.list(resource, limit=1)
        except NotFound:
            continue
        except Forbidden as error:
            raise live.fault_of_forbidden(error, live.MissingRight("list", resource)) from error
        except ApiError as error:
            raise live.fault_of_api_error(error) from error
        return ServedRules(resource, known_rules(live.list_all(api, resource), names))
    raise OperatorFault(_NOT_SERVED)
