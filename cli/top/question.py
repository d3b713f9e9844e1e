"""What ``lode top`` is asked for. Pure."""

from dataclasses import dataclass, field

from driver.names import Names


@dataclass(frozen=True, slots=True)
class Question:
    """What a report is about.

    Attributes:
        namespace: "" for all.
        selector: of labels, as the API server takes it; "" for all.
        only: names that are shown; empty for all.
    """

    names: Names = field(default_factory=Names)
    namespace: str = ""
    selector: str = ""
    only: tuple[str, ...] = ()

    def shows(self, *names: str) -> bool:
        """Return whether something that has one of these names is asked for."""
        return not self.only or any(name in self.only for name in names)
