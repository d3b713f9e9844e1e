"""Whatever stands in a field of an object, it is decoded to a value of the right types, or known as unreadable."""

from typing import Final

import pytest

from controller.state import Decoded
from driver.kube.api import Object, Resource
from driver.kube.objects import object_key
from driver.kube.reflector import Upserted
from tests.simulation.state_checks import differences
from tests.unit.controller.state.read_objects import IDENTITY, OBJECTS, OTHER_VERSIONS, VALUES, following_all
from tests.unit.odd_values import all_odd, ill_typed

KEPT: Final = {("metadata",), *(("metadata", name) for name in (*IDENTITY, "resourceVersion"))}
"""What says which object it is: the API server would not have stored another value."""
cases = pytest.mark.parametrize(
    ("resource", "obj"),
    OBJECTS,
    ids=[f"{number}-{resource.plural}.{resource.group}" for number, (resource, _) in enumerate(OBJECTS)],
)


def test_there_is_an_object_of_every_kind_that_the_controller_reads() -> None:
    missing = {*following_all().resources} - {resource for resource, _ in OBJECTS} - OTHER_VERSIONS
    assert not missing, (
        f"add an object of {missing} to full_objects.yaml, and the type of its value to VALUES in read_objects.py"
    )


@cases
def test_the_object_itself_is_decoded_to_the_declared_types(resource: Resource, obj: Object) -> None:
    decoded = following_all().decode(Upserted(resource, obj))
    assert isinstance(decoded, Decoded)
    assert not decoded.problem
    assert [*ill_typed(decoded.value, VALUES[resource])] == []


@cases
def test_with_an_odd_value_in_any_place_it_is_of_the_declared_types_or_unreadable(
    resource: Resource, obj: Object
) -> None:
    state, wrong = following_all(), []
    for what, odd in all_odd(obj, KEPT):
        decoded = state.decode(Upserted(resource, odd))
        assert isinstance(decoded, Decoded)
        if decoded.value is not None:
            wrong += [f"{what}: {one}" for one in ill_typed(decoded.value, VALUES[resource])]
        elif not decoded.problem:
            wrong.append(f"{what}: neither a value nor a problem")
    assert not wrong


@cases
def test_the_state_knows_it_by_name_until_it_is_mended_and_keeps_nothing_of_it(resource: Resource, obj: Object) -> None:
    state, never, version = following_all(), following_all(), 10
    never.put(resource, obj)
    for what, odd in all_odd(obj, KEPT):
        for form in (odd, obj):
            version += 1
            form["metadata"]["resourceVersion"] = str(version)
            decoded = state.decode(Upserted(resource, form))
            assert isinstance(decoded, Decoded)
            changes = state.apply(decoded)
            expected = [object_key(obj)] if decoded.problem else []
            assert [one.fault.key for one in state.unreadable.objects(resource)] == expected, (
                f"{what}: {state.unreadable.objects()}"
            )
            assert [one.fault.key for one in changes.unreadable] == expected, what
    assert [*differences(state, never)] == []
    state.drop(resource, object_key(obj))
    assert [*differences(state, following_all())] == []
