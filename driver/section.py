"""What all sections of the settings have in common. Pure."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Fields written in camelCase; an unknown one is an error, so that a typo never silently selects the default."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: _camel(name), populate_by_name=True
    )


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)
