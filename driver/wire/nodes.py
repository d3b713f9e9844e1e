"""Node selectors of core/v1."""

from driver.model import NodeRequirement, NodeSelector, NodeSelectorTerm
from driver.wire.fields import Json, many, sparse, text, texts


def node_selector_from(raw: Json) -> NodeSelector:
    """A core/v1 NodeSelector."""
    return NodeSelector(many(raw.get("nodeSelectorTerms"), node_term_from))


def node_term_from(raw: Json) -> NodeSelectorTerm:
    """A core/v1 NodeSelectorTerm."""

    def requirement(item: Json) -> NodeRequirement:
        return NodeRequirement(text(item["key"]), text(item["operator"]), texts(item.get("values")))

    return NodeSelectorTerm(many(raw.get("matchExpressions"), requirement), many(raw.get("matchFields"), requirement))


def node_selector_to(selector: NodeSelector) -> Json:
    """A core/v1 NodeSelector as JSON."""

    def requirement(item: NodeRequirement) -> Json:
        return sparse(key=item.key, operator=item.operator, values=list(item.values))

    return {
        "nodeSelectorTerms": [
            sparse(
                matchExpressions=[requirement(item) for item in term.expressions],
                matchFields=[requirement(item) for item in term.fields],
            )
            for term in selector.terms
        ]
    }


def only_node(name: str) -> NodeSelector:
    """The selector for exactly one node, in the only form that Kubernetes' node authorizer recognises."""
    return NodeSelector((NodeSelectorTerm(fields=(NodeRequirement("metadata.name", "In", (name,)),)),))
