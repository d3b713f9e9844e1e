"""Settings: defaults that work, and every mistake named at once."""

from ipaddress import ip_address

import pytest

from driver.errors import InvalidInput
from driver.settings import Settings
from driver.settings_file import settings_from


def test_an_empty_file_means_the_defaults() -> None:
    assert settings_from("") == Settings()


def test_fields_are_written_in_the_style_of_kubernetes() -> None:
    settings = settings_from("kubeletplugin: {profile: t4x2, nodeLabels: {ibCluster: example.com/fabric}}")
    assert settings.kubeletplugin.profile == "t4x2"
    assert settings.kubeletplugin.node_labels.ib_cluster == "example.com/fabric"


def test_a_tier_of_volcano_is_an_attribute_or_a_node_label() -> None:
    settings = settings_from("controller: {volcanoTiers: {1: {attribute: a/b}, spine: {nodeLabel: c}}}")
    tiers = settings.controller.volcano_tiers
    assert {name: (tier.attribute, tier.node_label) for name, tier in tiers.items()} == {
        1: ("a/b", ""),
        "spine": ("", "c"),
    }
    for wrong in ("{}", "{attribute: a/b, nodeLabel: c}"):
        with pytest.raises(InvalidInput, match="volcanoTiers") as caught:
            settings_from(f"controller: {{volcanoTiers: {{1: {wrong}}}}}")
        assert "must have one of attribute and nodeLabel" in str(caught.value)


def test_every_name_follows_the_driver_name() -> None:
    names = settings_from("driverName: gpus.example.com").names
    assert names.gate == "gpus.example.com/allocation"
    assert names.pool("node-1") == "node-1/gpus.example.com"
    assert names.parameters_api_version == "gpus.example.com/v1alpha1"


def test_the_names_of_nvidias_dra_driver_stand_for_ours_only_where_the_operator_says_so() -> None:
    off, on = settings_from("").names, settings_from("nvidiaDraNames: true").names
    assert [names.reads_parameters_of("gpu.nvidia.com") for names in (off, on)] == [False, True]
    assert all(names.reads_parameters_of("lode.dev") and not names.reads_parameters_of("") for names in (off, on))


def test_all_mistakes_are_reported_at_once_with_field_and_value() -> None:
    text = "driverNam: x\nkubeletplugin: {slots: 0, offer: [halves]}\ncontroller: {leaseSeconds: soon}"
    with pytest.raises(InvalidInput) as caught:
        settings_from(text, "settings.yaml")
    message = str(caught.value)
    assert message.startswith("settings.yaml: ")
    for part in ("driverNam", "kubeletplugin.slots", "kubeletplugin.offer.0", "controller.leaseSeconds", "'soon'"):
        assert part in message


@pytest.mark.parametrize(("text", "said"), [("a: [", "is not valid YAML"), ("- a", "must be a mapping")])
def test_what_is_no_mapping_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        settings_from(text)


def test_the_directory_of_simulated_faults_can_be_set() -> None:
    assert Settings().kubeletplugin.simulated_faults == "/var/lib/kubelet/plugins/lode.dev/faults"
    given = settings_from("kubeletplugin: {simulatedFaults: /run/faults}")
    assert given.kubeletplugin.simulated_faults == "/run/faults"


@pytest.mark.parametrize("seconds", ["0", "30", "60"])
def test_health_cannot_be_sent_so_rarely_that_the_kubelet_discards_it(seconds: str) -> None:
    with pytest.raises(InvalidInput, match="healthResendSeconds"):
        settings_from(f"kubeletplugin: {{healthResendSeconds: {seconds}}}")


def test_what_names_the_claims_of_every_namespace_is_served_to_the_machine_itself_alone() -> None:
    host, _, _ = Settings().controller.debug_address.rpartition(":")
    assert ip_address(host).is_loopback


def test_drivers_that_are_allocated_beside_ours_are_named_once_each_and_ours_not_at_all() -> None:
    names = settings_from("controller: {alsoAllocates: [dra.net, dra.cpu]}").names
    assert names.allocated_drivers == ("lode.dev", "dra.net", "dra.cpu")
    assert [names.allocates(driver) for driver in ("lode.dev", "dra.net", "dra.ne")] == [True, True, False]
    assert settings_from("").names.allocated_drivers == ("lode.dev",)
    for wrong in ("[dra.net, dra.net]", "[lode.dev]"):
        with pytest.raises(InvalidInput, match="names a driver twice"):
            settings_from(f"controller: {{alsoAllocates: {wrong}}}")
    with pytest.raises(InvalidInput, match="alsoAllocates"):
        settings_from("controller: {alsoAllocates: [Dra Net]}")
