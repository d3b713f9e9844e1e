"""Fields that the API server did not store are found and named."""

from kubeletplugin.publish.dropped import dropped_fields


def test_fields_the_server_did_not_store_are_named_once_each() -> None:
    sent = {
        "driver": "lode.dev",
        "sharedCounters": [{"name": "gpu-0"}],
        "devices": [{"name": "gpu-0", "taints": [{"key": "a"}]}, {"name": "gpu-1", "taints": [{"key": "a"}]}],
    }
    stored = {"driver": "lode.dev", "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}], "extra": 1}
    assert dropped_fields(sent, stored) == ("devices[].taints", "sharedCounters")


def test_nothing_is_dropped_when_all_is_stored() -> None:
    sent = {"devices": [{"name": "gpu-0", "attributes": {}}], "pool": {"generation": 1}}
    assert dropped_fields(sent, {**sent, "devices": [{"name": "gpu-0"}]}) == ()
