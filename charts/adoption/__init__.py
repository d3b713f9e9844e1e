"""The admission policies that adopt pods of other systems, generated from the tables of ``driver.adoption``.

For each source a MutatingAdmissionPolicy takes the resources of the system out of the containers and gives them claims,
a ValidatingAdmissionPolicy refuses pods that were not adopted, and another one warns. So no table is written twice.

files       the folders of ``manifests/adopt`` with their files
policies    the policies of a source, as objects
faults      why a pod cannot be adopted
variables   what the policies know of a pod
cel         literals, and what a container asks for
"""

from charts.adoption.files import FOLDER, files
from charts.adoption.policies import policies
from charts.adoption.variables import CLASSES

__all__ = ["CLASSES", "FOLDER", "files", "policies"]
