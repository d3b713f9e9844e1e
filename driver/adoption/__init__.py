"""Requests of other systems, and words of people, as claims: the one mapping for all who need it. Pure.

The name of a template has the whole request, because an admission policy can name a template but not make one.

templates   the ``spec`` of a template on demand, from its name
| pods      pods of another system, with claims instead of its resources
gpus        requests for GPUs of NVIDIA's device plugin, of HAMi and of Volcano
| npus      requests for NPUs of HAMi's and Huawei's device plugins
| words     names that people write, such as ``lode.2-h100-80gi``
spelling    the words of such names, and what to write instead of others
outputs     annotations that containers of other systems read to learn which cards they have
turns       which claims the containers of a pod use, by when they run
sources     the systems: their resources, annotations and rules
| wanted    requests of a claim, as ``spec`` of a template
chips       Ascend chips and vNPU templates as other systems name them
| migs      MIG profiles as other systems and people name them
| rules     what is refused or only noted, with the remedy
naming      the grammar of names of adopted requests
"""

from driver.adoption.naming import (
    ADOPTED,
    LONGEST_NAME,
    NAMESPACE_LABEL,
    PLAIN,
    WORDS,
    AdoptedName,
    is_on_demand,
    read_name,
)
from driver.adoption.outputs import output_annotations
from driver.adoption.pods import Adoption, adopt, resources_of
from driver.adoption.rules import Broken
from driver.adoption.sources import SOURCES, AdoptionSource
from driver.adoption.templates import template_spec

__all__ = [
    "ADOPTED",
    "LONGEST_NAME",
    "NAMESPACE_LABEL",
    "PLAIN",
    "SOURCES",
    "WORDS",
    "AdoptedName",
    "Adoption",
    "AdoptionSource",
    "Broken",
    "adopt",
    "is_on_demand",
    "output_annotations",
    "read_name",
    "resources_of",
    "template_spec",
]
