"""Updates the indexes of gangs when an object changes that says something about them: one handler per kind. Pure."""

from controller.gangs import Group, JobSet, Source, Workload, group_id
from controller.state.changes import Changes
from controller.state.gangs import Gangs
from controller.state.handlers import PodCounter
from controller.state.ondemand import TemplatesOnDemand
from controller.state.templates import ClaimTemplates, DecodedTemplate


class GroupHandler:
    """Objects that stand for a gang, in one version of their API."""

    def __init__(self, gangs: Gangs, counter: PodCounter, source: Source, version: str):
        self._gangs = gangs
        self._counter = counter
        self._source = source
        self._version = version

    def on_update(self, group: Group, changes: Changes) -> None:
        """See ``Handler``."""
        if self._gangs.objects.put_group(self._version, group):
            self._changed(group.key, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        if self._gangs.objects.remove_group(self._version, key):
            self._changed(key, changes)

    def _changed(self, key: str, changes: Changes) -> None:
        """Look again at the pods of the group: they may be in another gang now, and use other claims in its name."""
        name = group_id(self._source, key)
        self._gangs.depend_on((name,), changes)
        for pod in self._gangs.dependents(name):
            changes.pods[pod] = None
            self._counter.recount(pod, changes)


class WorkloadHandler:
    """Jobs or StatefulSets, which say how many pods there will be."""

    def __init__(self, gangs: Gangs, kind: str):
        self._gangs = gangs
        self._kind = kind

    def on_update(self, made: tuple[str, Workload], changes: Changes) -> None:
        """See ``Handler``."""
        self._gangs.depend_on(self._gangs.objects.put_workload(self._kind, *made), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._gangs.depend_on(self._gangs.objects.remove_workload(self._kind, key), changes)


class JobSetHandler:
    """JobSets, which say how many pods there will be, and what those ask for that come later."""

    def __init__(self, gangs: Gangs):
        self._gangs = gangs

    def on_update(self, job_set: JobSet, changes: Changes) -> None:
        """See ``Handler``."""
        self._gangs.depend_on(self._gangs.objects.job_sets.add(job_set), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._gangs.depend_on(self._gangs.objects.job_sets.remove(key), changes)


class TemplateHandler:
    """ResourceClaimTemplates, which say what members of gangs ask for that come later; some are made on demand."""

    def __init__(self, templates: ClaimTemplates, on_demand: TemplatesOnDemand, gangs: Gangs):
        self._templates = templates
        self._on_demand = on_demand
        self._gangs = gangs

    def on_update(self, template: DecodedTemplate, changes: Changes) -> None:
        """See ``Handler``."""
        key = template.claim.claim.key
        self._on_demand.put_template(key, template.made, changes)
        if self._templates.put(template.claim):
            self._changed(key, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._on_demand.remove_template(key, changes)
        if self._templates.remove(key):
            self._changed(key, changes)

    def _changed(self, key: str, changes: Changes) -> None:
        namespace = key.partition("/")[0]
        self._gangs.note(self._gangs.objects.job_sets.in_order(namespace), changes)
