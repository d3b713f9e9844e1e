"""ResourceClaimTemplates on demand: their names say what they ask for, and they are made when a pod names them.

The state knows who names them (``controller.state.templates``), because decisions about pods and gangs depend on it.

templatesync   has templates made, and removed
ondemand       decides which are made and removed
"""

from controller.templates.templatesync import TemplateSync

__all__ = ["TemplateSync"]
