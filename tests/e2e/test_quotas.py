"""A namespace keeps to its quota in memory and cores, and kubectl shows what is used."""

from tests.e2e.client import Client, Object, eventually
from tests.e2e.pods import pod, request, template


def quota(name: str, **hard: str) -> Object:
    spec = {"hard": {f"lode.dev/{key}": value for key, value in hard.items()}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}


def condition(client: Client, namespace: str, name: str) -> Object:
    conditions = client.get("pods", name, namespace)["status"].get("conditions") or []
    return next((one for one in conditions if one["type"] == "lode.dev/Allocated"), {})


def test_a_pod_over_its_quota_waits_until_another_ends(client: Client, namespace: str) -> None:
    client.create(namespace, quota("cards", cores="150", memory="1Ti"), template("one", request()), pod("first", "one"))
    client.wait_until_ready(namespace)
    client.create(namespace, pod("second", "one"))
    eventually("the second waits", lambda: condition(client, namespace, "second").get("reason") == "QuotaExceeded")
    message = condition(client, namespace, "second")["message"]
    assert "ResourceQuota " in message
    assert "/cards, lode.dev/cores: asked 100, used 100, limit 150" in message

    def used() -> str:
        status = client.get("resourcequotas", "cards", namespace).get("status") or {}
        return str((status.get("used") or {}).get("lode.dev/cores", ""))

    eventually("kubectl shows what is used", lambda: used() == "100")
    client.delete(namespace, "pod", "first")
    client.wait_until_ready(namespace, "second")
    assert used() in ("0", "100")
