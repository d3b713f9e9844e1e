"""A report that an object was deleted is about that object, not about another of its name."""

from controller.state.versions import Arrival, ObjectVersions
from driver.kube.api import PODS


def known(uid: str, version: int) -> ObjectVersions:
    versions = ObjectVersions()
    assert versions.arrive(PODS, "default/p", uid, version, reported=False) is Arrival.UPDATED
    return versions


def test_a_deleted_object_is_forgotten() -> None:
    versions = known("old", 5)
    assert versions.remove(PODS, "default/p", "old", 6)
    assert not versions.remove(PODS, "default/p", "old", 6)


def test_a_late_report_that_a_namesake_was_deleted_leaves_the_object_alone() -> None:
    versions = known("new", 7)
    assert not versions.remove(PODS, "default/p", "old", 6)
    assert versions.is_stale(PODS, "default/p", 7, reported=True)


def test_a_namesake_that_was_deleted_later_has_replaced_the_object() -> None:
    versions = known("old", 5)
    assert versions.remove(PODS, "default/p", "new", 8)
