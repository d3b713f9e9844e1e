import pytest

from driver.kube.objects import generated_claim_prefix


@pytest.mark.parametrize(("pod", "entry"), [("p", "device"), ("p" * 100, "d"), ("p" * 40, "d" * 40)])
def test_a_generated_name_leaves_room_for_five_characters(pod: str, entry: str) -> None:
    name = generated_claim_prefix(pod, entry)
    assert len(name) <= 57
    assert name.endswith("-")
