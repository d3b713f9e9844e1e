"""The Helm chart belongs to the manifests. What it renders is compared with kustomize in tests/contract."""

from charts import CHART, SOURCES_DIGEST, sources_digest


def test_the_chart_was_generated_from_these_manifests() -> None:
    generated_from = (CHART / SOURCES_DIGEST).read_text().strip()
    assert generated_from == sources_digest(), "the manifests have changed: run `make chart` and commit charts/lode"
