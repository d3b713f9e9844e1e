"""Carries out writes of slices."""

from collections.abc import Iterable
from contextlib import suppress

from driver.kube.api import RESOURCE_SLICES, AlreadyExists, Api, ApiError, Conflict, NotFound, Object
from driver.observe import Logger
from kubeletplugin.publish.dropped import DroppedFields
from kubeletplugin.publish.metrics import PublishingMetrics
from kubeletplugin.publish.poolview import PoolView
from kubeletplugin.publish.reports import ErrorReports
from kubeletplugin.publish.slices import Action, Create, Delete, Update


class SliceWriter:
    """Writes slices, and keeps the view and the dropped fields up to date with the answers."""

    def __init__(
        self,
        api: Api,
        view: PoolView,
        dropped: DroppedFields,
        metrics: PublishingMetrics,
        reports: ErrorReports,
        log: Logger,
    ):
        self._api = api
        self._view = view
        self._dropped = dropped
        self._metrics = metrics
        self._reports = reports
        self._log = log

    def carry_out(self, actions: Iterable[Action]) -> bool:
        """Do the writes in order; returns False if the rest must be planned again because the server dropped counters.

        Raises:
            ApiError: a write failed. The rest is not done.
        """
        for action in actions:
            had_counters = not self._dropped.counters
            self._write(action)
            if had_counters and self._dropped.counters:
                return False
        return True

    def _write(self, action: Action) -> None:
        operation = type(action).__name__.lower()
        try:
            match action:
                case Delete(name, uid, version):
                    with suppress(NotFound):
                        self._api.delete(RESOURCE_SLICES, name, uid=uid, resource_version=version)
                    self._view.forget(name)
                case Create():
                    body = action.object
                    self._stored(body, self._api.create(RESOURCE_SLICES, body))
                case Update():
                    body = action.object
                    self._stored(body, self._api.update(RESOURCE_SLICES, body))
        except ApiError as error:
            self._metrics.writes.labels(operation, type(error).__name__).inc()
            if isinstance(error, (Conflict, AlreadyExists, NotFound)):
                self._read_again(action.name)
            raise
        self._metrics.writes.labels(operation, "ok").inc()

    def _stored(self, sent: Object, stored: Object) -> None:
        self._view.store(stored)
        for field in self._dropped.compare(sent, stored):
            self._metrics.dropped_fields.labels(field).inc()
            self._log.error(
                "field not stored by the API server",
                field=f"spec.{field}",
                remedy="enable the feature gate of this field on the API server and restart this plugin",
            )

    def _read_again(self, name: str) -> None:
        """Read a slice that another writer changed, instead of waiting for a watch that may lag."""
        try:
            item = self._api.get(RESOURCE_SLICES, name)
        except NotFound:
            self._view.forget(name)
            return
        if self._view.is_own(item):
            self._view.store(item)
        else:
            self._view.forget(name)
            self._reports.once(
                "slice name is taken by another driver or node", slice=name, driver=item["spec"].get("driver")
            )
