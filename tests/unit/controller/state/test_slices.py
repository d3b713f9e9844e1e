"""The nodes that a change of a slice or of an allocation concerns."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from controller.state.devices import SliceNodes
from driver.model import Allocation, DeviceId, NodeScope, Result, Slice
from driver.wire import only_node

slices = st.builds(
    lambda name, driver, node: Slice(name, driver, "pool", 1, 1, NodeScope(node), ()),
    st.sampled_from("abc"),
    st.sampled_from(["one.example.com", "two.example.com"]),
    st.sampled_from(["", "n1", "n2"]),
)


@given(st.lists(slices | st.sampled_from("abc"), max_size=12))
def test_an_allocation_concerns_every_node_while_its_driver_has_devices_without_a_node(
    changes: Sequence[Slice | str],
) -> None:
    index, there = SliceNodes(), dict[str, Slice]()
    for change in changes:
        name = change if isinstance(change, str) else change.name
        before = there.pop(name, None)
        expected = {before.scope.node_name} if before else set()
        if isinstance(change, Slice):
            there[name] = change
            expected.add(change.scope.node_name)
        assert (index.remove(name) if isinstance(change, str) else index.upsert(change)) == expected
        for driver in ("one.example.com", "two.example.com"):
            result = Result("gpu", DeviceId(driver, "pool", "gpu-0"))
            shared = any(part.driver == driver and not part.scope.node_name for part in there.values())
            assert index.affected_by(Allocation((result,), (), only_node("n1"))) == ("" if shared else "n1")
