"""The objects of a version, with the plugin that serves a vendor's device plugin on one worker."""

from typing import Any

import yaml

from tests.chaos.manifests import BRIDGING, OFF_LABEL, PLUGIN, installed
from tests.unit.docs.pages import ROOT

BASE = [*yaml.safe_load_all((ROOT / "manifests/base/kubeletplugin.yaml").read_text())]


def daemon_sets(objects: Any) -> dict[str, Any]:
    return {it["metadata"]["name"]: it for it in objects if it["kind"] == "DaemonSet"}


def place(daemon_set: Any) -> Any:
    affinity = daemon_set["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (found,) = [it for it in term["matchExpressions"] if it["key"] == OFF_LABEL]
    return found


def test_each_node_has_one_of_the_two_plugins() -> None:
    found = daemon_sets(installed(BASE, "lode:x"))
    assert found.keys() == {PLUGIN, BRIDGING}
    usual, bridging = place(found[PLUGIN]), place(found[BRIDGING])
    assert (usual["operator"], bridging["operator"]) == ("NotIn", "In")
    assert usual["values"] == bridging["values"] == ["off"]


def test_all_programs_have_the_image_of_the_version() -> None:
    for it in daemon_sets(installed(BASE, "lode:x")).values():
        assert {one["image"] for one in it["spec"]["template"]["spec"]["containers"]} == {"lode:x"}


def test_the_other_plugin_has_settings_and_labels_of_its_own_and_sees_the_host() -> None:
    objects = installed(BASE, "lode:x")
    (settings,) = [it for it in objects if it["kind"] == "ConfigMap"]
    bridging = daemon_sets(objects)[BRIDGING]
    template = bridging["spec"]["template"]
    volumes = {it["name"]: it for it in template["spec"]["volumes"]}
    assert volumes["settings"]["configMap"]["name"] == settings["metadata"]["name"]
    assert "deviceplugin" in settings["data"]["settings.yaml"]
    assert volumes["host"]["hostPath"]["path"] == "/"
    labels = template["metadata"]["labels"]
    assert bridging["spec"]["selector"]["matchLabels"].items() <= labels.items()
    usual = daemon_sets(objects)[PLUGIN]["spec"]["selector"]["matchLabels"]
    assert not usual.items() <= labels.items()


def test_what_was_rendered_is_not_changed() -> None:
    before = yaml.safe_dump_all(BASE)
    installed(BASE, "lode:x")
    assert yaml.safe_dump_all(BASE) == before
