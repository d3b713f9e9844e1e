"""What a controller may do to claim templates: make and remove those on demand."""

from collections.abc import Iterator

from controller.state.templates import is_made_on_demand
from driver.kube.api import Object
from driver.names import Names


def template_problems(before: Object | None, after: Object | None, names: Names) -> Iterator[str]:
    """Yield what is wrong with a controller's write of a template; ``after`` is None if it was deleted."""
    if before is not None and after is not None:
        yield "a template is changed"
    for obj in (before, after):
        if obj is not None and not is_made_on_demand(obj, names):
            yield "a template of others is made or removed"
