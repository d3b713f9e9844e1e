"""The tutorials, and the page of AI conformance, as they are written: their commands print what the pages show."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.conftest import eventually
from tests.contract.tutorials import BRIDGED, ROOT, Reader, cluster

pytestmark = pytest.mark.timeout(400)

TUTORIALS = sorted(page for page in (ROOT / "docs/tutorials").glob("*.md") if page.name != BRIDGED)
PAGES = [*TUTORIALS, ROOT / "docs/ai-conformance.md"]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with cluster(tmp_path_factory.mktemp("tutorials")) as reader:
        yield reader


FAILING = """
Two pods in a namespace of their own, in `it.yaml`:

```yaml
apiVersion: v1
kind: Namespace
metadata: {name: team-z}
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: team-z}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: lode.h100}]
  containers: [{name: main, image: "lode-test/busybox:1", resources: {claims: [{name: gpu}]}}]
```

`job.yaml`:

```yaml
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      resourceClaims: [{name: gpu, resourceClaimTemplateName: lode.a100}]
      containers: [{name: main, image: "lode-test/busybox:1", resources: {claims: [{name: gpu}]}}]
```

```console
$ kubectl apply -f it.yaml -f job.yaml
namespace/team-z created
pod/one created
job.batch/job created
$ kubectl -n team-z create quota cards --hard=pods=7
resourcequota/cards created
$ kubectl lode cordon lode-worker/gpu-1
something else
```
"""
"""It makes objects of most kinds that tutorials make, and is wrong at its end."""


def test_a_page_that_fails_leaves_nothing_for_the_next_one(reader: Reader) -> None:
    before = reader.there()
    with pytest.raises(AssertionError, match="something else"), reader.alone():
        reader.follow(FAILING)
    assert not reader.left()
    assert reader.there() == before


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows_and_leaves_nothing(page: Path, reader: Reader) -> None:
    with reader.alone():
        shown = reader.follow(page.read_text())
        assert shown > 5
        eventually(lambda: not reader.left(), 60)
