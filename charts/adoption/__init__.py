"""The admission policies that follow from the tables of ``driver.adoption``: they adopt pods of other systems.

For each source a MutatingAdmissionPolicy takes the resources of the system out of the containers and gives them claims,
a ValidatingAdmissionPolicy refuses pods that were not adopted, and another one warns. So no table is written twice.

files       the files in ``manifests``
policies    the policies of a source, as objects
| words     the policy for words that people write in names of templates
notes       what of a pod has another effect than it may seem
faults      why a pod cannot be adopted
variables   what the policies know of a pod
turns       which claims its containers use, by when they run
cel         literals, and what a container asks for
"""

from charts.adoption.files import FOLDER, files
from charts.adoption.policies import MOST_TOLD, policies
from charts.adoption.variables import CLASSES

__all__ = ["CLASSES", "FOLDER", "MOST_TOLD", "files", "policies"]
