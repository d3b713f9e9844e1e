"""The factors of Kubernetes' cost model, both of the count at run time and of the estimate at admission.

Source: ``common/cost.go`` of cel-go.
"""

from typing import Final

PER_CHARACTER: Final = 0.1
"""The cost of reading one character."""
PER_REGEX_CHARACTER: Final = 0.25
"""The cost of one character of a regular expression, for each unit of text that is searched."""
NEW_LIST: Final = 10
"""The cost of building a list, whatever its length."""
NEW_MAP: Final = 30
"""The cost of building a map, whatever its size."""
