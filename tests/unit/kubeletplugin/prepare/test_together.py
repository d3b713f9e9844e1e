"""Several calls at once, in two instances, on a real disk."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from driver.files import SystemFiles
from driver.settings import Settings
from kubeletplugin.prepare import PrepareResult
from tests.unit.kubeletplugin.plugin_node import SHARE_A, PluginNode, result, share


def test_of_many_claims_for_one_device_at_once_exactly_one_is_prepared(tmp_path: Path) -> None:
    rig = PluginNode("t4x4")
    section = {"kubeletRoot": str(tmp_path / "kubelet"), "cdiRoot": str(tmp_path / "cdi")}
    rig.settings = Settings.model_validate({"kubeletplugin": section})
    instances = [rig.plugin(files=SystemFiles()) for _ in range(2)]
    rivals = [rig.claim(f"rival-{index}", [result("gpu-0")]) for index in range(6)]
    tenants = [rig.claim(f"t-{i}", [share("gpu-1-share", SHARE_A.replace("1", str(i)), "2Gi")]) for i in range(2, 6)]
    refs = [*rivals, *tenants]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda case: instances[case[0] % 2].prepare([case[1]]), enumerate(refs)))
    good = {uid for answer in answers for uid, outcome in answer.items() if isinstance(outcome, PrepareResult)}
    assert len(good & {ref.uid for ref in rivals}) == 1
    assert {ref.uid for ref in tenants} <= good
    assert set(instances[0].prepared()) == good
    assert len(list((tmp_path / "cdi").iterdir())) == len(good)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda ref: instances[0].unprepare([ref]), refs))
    assert instances[1].prepared() == {}
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(left) == ["checkpoint.json", "prepare.lock"]
