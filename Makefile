# Every target sets up what it needs. Outside the checkout only a cache is changed ($LODE_CACHE, by default
# ~/.cache/lode); it keeps everything that takes long to build, by content.

KUBERNETES ?= 1.37# or 1.36, or 1.38: its newest candidate that is served, until it has a release
SEEDS ?= 0-9999
FUZZ_SECONDS ?= 60
ARGS ?=# more arguments for pytest or the benchmark

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

CACHE := $(or $(LODE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lode)
UV := $(or $(shell command -v uv),$(CACHE)/uv/bin/uv)
# The image's Python, where this machine has it: one that was built without optimization is a third slower.
PYTHON ?= $(wildcard /usr/bin/python3.11)
VENV := .venv/synced
CLUSTERS := .venv/bin/python -m testclusters

export PATH := $(CURDIR)/.venv/bin:$(dir $(UV)):$(PATH)
export LODE_KUBERNETES := $(KUBERNETES)
# Tests start a few hundred processes; each would compile what it imports, which takes as long again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## print this list
	@awk -F ':.* ## ' '/^[a-z0-9-]+:.* ## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV) ## run the whole system in one process, without a cluster, and show what happens (ARGS=--ui: as a page)
	lode demo $(ARGS)

.PHONY: test
test: lint unit contract ## check style, types and imports; unit, system and contract tests (real kube-apiserver; ARGS for pytest)

.PHONY: unit
unit: $(VENV) ## unit and system tests only, which need nothing that has to be built (ARGS for pytest)
	pytest --numprocesses auto --durations=20 tests/unit tests/system $(ARGS)

.PHONY: contract
contract: $(VENV) ## contract tests only (ARGS for pytest)
	@# What takes long to build is built here, where its progress is seen, and not within the time of a test.
	$(CLUSTERS) control-plane --helm >/dev/null
	@# These wait more than they work; each process has control planes of its own.
	pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder --durations=20 tests/contract -m "not karpenter and not kueue and not jobset" $(ARGS)

.PHONY: lint
lint: $(VENV) ## check style, types and imports only
	ruff check
	ruff format --check
	mypy
	lint-imports
	pytest -q tests/unit/docs/test_docstrings.py

.PHONY: test-wheel
test-wheel: $(VENV) ## unit tests of the wheel instead of the tree, with the lowest versions of its dependencies (ARGS for pytest)
	.ci/wheel $(ARGS)

.PHONY: format
format: $(VENV) ## correct the style where ruff can
	ruff check --fix
	ruff format

.PHONY: e2e
e2e: PREVIOUS := $(shell git rev-parse --quiet --verify HEAD~1 >/dev/null && echo lode-previous)
e2e: $(VENV) ## end-to-end tests on a kind cluster; removes it unless `make kind` created it (KUBERNETES=1.36 or 1.38, POD_GROUPS=1, ALL=1, ARGS; PARALLEL=2: on two clusters)
	$(CLUSTERS) control-plane --helm >/dev/null
	$(CLUSTERS) kind run $(if $(POD_GROUPS),--pod-groups) --clusters $(or $(PARALLEL),1) --load lode busybox $(PREVIOUS) $(if $(ALL),rdma-device-plugin example-driver) -- pytest tests/e2e $(if $(PARALLEL),--numprocesses $(PARALLEL) --dist loadfile --no-loadscope-reorder) --tb=short --timeout=900 --durations=40 -m "not gpu$(if $(POD_GROUPS),, and not pod_groups)$(if $(ALL),, and not release)" $(ARGS)

.PHONY: adoption-hour
adoption-hour: $(VENV) ## an hour of adopted pods and pods of a device plugin on a node that changes hands, on a kind cluster
	LODE_CHURN_SECONDS=3600 $(MAKE) e2e ALL=1 ARGS="-k two_hands --timeout=7200"

.PHONY: chaos
chaos: HOURS ?= 2
chaos: SEED ?= 1
chaos: $(VENV) ## before a release, hours of faults on a kind cluster of its own, with a table of what came of them (HOURS=2, SEED=1, ARGS)
	@# One worker has the oldest kubelet.
	$(CLUSTERS) build kubernetes --kubernetes 1.36 >/dev/null
	$(CLUSTERS) build etcdutl >/dev/null
	$(CLUSTERS) kind run --name lode-chaos -- python -m tests.chaos --hours $(HOURS) --seed $(SEED) $(ARGS)

.PHONY: e2e-all
e2e-all: test-wheel ## before a release, hours: also a new machine, each version of Kubernetes and an upgrade of it, PodGroups of Kubernetes, Karpenter, Kueue, JobSet
	.ci/cold
	$(MAKE) contract KUBERNETES=1.38
	$(MAKE) e2e ALL=1 KUBERNETES=1.38
	$(MAKE) e2e ALL=1 KUBERNETES=1.37
	$(MAKE) e2e ALL=1 KUBERNETES=1.36
	$(MAKE) e2e ALL=1 POD_GROUPS=1
	$(MAKE) upgrade-kubernetes
	$(MAKE) karpenter
	$(MAKE) kueue
	$(MAKE) jobset
	$(MAKE) suites

.PHONY: upgrade-kubernetes
upgrade-kubernetes: $(VENV) ## Kubernetes is upgraded in place on a kind cluster whose pods hold devices, from the newest release to the next version (ARGS)
	$(CLUSTERS) build kubernetes --kubernetes 1.38 >/dev/null
	LODE_UPGRADE=1.38 $(CLUSTERS) kind run --kubernetes 1.37 --name lode-upgrade --load lode busybox -- pytest tests/e2e/kubernetes --tb=short --timeout=1800 $(ARGS)

.PHONY: karpenter
karpenter: $(VENV) ## real Karpenter makes nodes for pods at our gate, ten minutes (ARGS)
	$(CLUSTERS) control-plane >/dev/null
	$(CLUSTERS) build karpenter >/dev/null
	pytest --durations=20 tests/contract/karpenter $(ARGS)

.PHONY: kueue
kueue: $(VENV) ## real Kueue counts our devices and holds jobs back, some minutes (ARGS)
	$(CLUSTERS) control-plane >/dev/null
	$(CLUSTERS) build kueue >/dev/null
	pytest --durations=20 tests/contract/kueue $(ARGS)

.PHONY: jobset
jobset: $(VENV) ## real JobSet makes the pods of JobSets in a namespace that adopts them, some minutes (ARGS)
	$(CLUSTERS) control-plane >/dev/null
	$(CLUSTERS) build jobset >/dev/null
	pytest --durations=20 tests/contract/jobset $(ARGS)

.PHONY: suites
suites: $(VENV) ## suites that others wrote, with Lode and without, on a kind cluster, hours (ARGS=devices; LODE_AI_CONFORMANCE: a checkout)
	$(CLUSTERS) build kubernetes-suites >/dev/null
	$(CLUSTERS) kind run -- python -m tests.suites $(ARGS)

.PHONY: kind
kind: KUBECTL := $(CLUSTERS) kind exec -- kubectl
kind: $(VENV) ## a kind cluster with the driver on simulated hardware; run it again after a change
	@$(CLUSTERS) kind up --keep
	@$(CLUSTERS) kind load lode busybox
	@# Running programs must be restarted, because a new image has the same name.
	@old=$$($(KUBECTL) --namespace lode-system get deployment --ignore-not-found --output name lode-controller); \
	$(KUBECTL) apply --kustomize manifests/kind; \
	[ -z "$$old" ] || { \
	    $(KUBECTL) --namespace lode-system rollout restart deployment/lode-controller; \
	    $(KUBECTL) --namespace lode-plugin rollout restart daemonset/lode-kubeletplugin; }
	@$(KUBECTL) --namespace lode-system rollout status --timeout 120s deployment/lode-controller \
	&& $(KUBECTL) --namespace lode-plugin rollout status --timeout 120s daemonset/lode-kubeletplugin \
	|| { $(CLUSTERS) kind exec -- kubectl lode doctor; exit 1; }
	@# .ci/front-door runs the commands that this prints.
	@echo
	@cat manifests/kind/first-steps.txt

.PHONY: kind-down
kind-down: $(VENV) ## remove the kind cluster
	$(CLUSTERS) kind down

.PHONY: histories
histories: $(VENV) ## play the seeded histories of a whole system, SEEDS=0-9999 (ARGS="--kind gangs", preemption, scaling, hardware or naming)
	nice python -m tests.system $(SEEDS) $(ARGS)

.PHONY: fuzz
fuzz: $(VENV) ## make hostile inputs for everything that others can write, guided by coverage (FUZZ_SECONDS=60, ARGS="cluster files")
	$(UV) sync --locked --inexact --group fuzz $(addprefix --python ,$(PYTHON))
	python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(ARGS)

.PHONY: site
site: $(VENV) ## build the documentation site in build/site and check it; every fault of a page is an error
	$(UV) sync --locked --inexact --group docs $(addprefix --python ,$(PYTHON))
	python -m docsite build/site
	pytest -q tests/site

.PHONY: ui-test
ui-test: $(VENV) ## test the page of lode ui in Chromium, which has to be installed (ARGS for pytest)
	$(UV) sync --locked --inexact --group browser $(addprefix --python ,$(PYTHON))
	pytest -q --numprocesses 2 tests/page $(ARGS)

.PHONY: screenshots
screenshots: $(VENV) ## make the pictures of the page in docs/images anew, from the fleet of the demo
	$(UV) sync --locked --inexact --group browser $(addprefix --python ,$(PYTHON))
	python -m tests.page.screenshots docs/images

.PHONY: mutants
mutants: $(VENV) ## make small changes on purpose and list those that no test notices, hours (ARGS="--only publish")
	nice python -m tests.mutants $(ARGS)

# Those whose commands head the tables of docs/benchmarks.md, in its order, and the one whose figures are on another page.
BENCHMARKS = $(shell sed --quiet 's/^## .*`make \(bench[a-z-]*\)`$$/\1/p' docs/benchmarks.md) bench-memory

.PHONY: bench-all
bench-all: $(VENV) ## the benchmarks of docs/benchmarks.md one after another, hours; tables in build/benchmarks (BENCHMARKS="bench-ui bench-top": some)
	@mkdir -p build/benchmarks
	@{ git describe --always --dirty; date --utc --iso-8601; nproc; } | tee build/benchmarks/commit-date-cores.txt
	@failed=; for each in $(BENCHMARKS); do \
	    echo "==> $$each, $$(date --utc +%T)"; \
	    $(MAKE) --no-print-directory "$$each" ARGS= | tee "build/benchmarks/$$each.txt" || failed+=" $$each"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

.PHONY: bench
bench: $(VENV) ## compare with the example driver and kube-scheduler on a kind cluster (ARGS="--pods 20")
	$(CLUSTERS) kind run --load lode busybox example-driver -- python -m benchmarks.cluster $(ARGS)

.PHONY: bench-allocation
bench-allocation: $(VENV) ## compare the allocator with Kubernetes' own, about fifteen minutes (ARGS=--quick: two)
	python -m benchmarks.allocation $(ARGS)

.PHONY: bench-gangs
bench-gangs: $(VENV) ## time of decisions about gangs on 5,000 nodes, compared with kube-scheduler's allocator (ARGS=--without-peer)
	python -m benchmarks.gangs $(ARGS)

.PHONY: bench-preemption
bench-preemption: $(VENV) ## time to choose the victims for a pod on 1,000 nodes, and of a burst on 5,000 (ARGS)
	python -m benchmarks.preemption $(ARGS)

.PHONY: bench-top
bench-top: $(VENV) ## time and memory of `lode top` for 5,000 nodes with 40,000 cards (ARGS)
	python -m benchmarks.top $(ARGS)

.PHONY: bench-ui
bench-ui: $(VENV) ## size, time and memory of the document of `lode ui` for 5,000 nodes with 40,000 cards (ARGS)
	python -m benchmarks.ui $(ARGS)

.PHONY: bench-page
bench-page: $(VENV) ## how soon the page of lode ui shows 5,000 nodes with 40,000 cards in Chromium (ARGS)
	$(UV) sync --locked --inexact --group browser $(addprefix --python ,$(PYTHON))
	python -m benchmarks.page $(ARGS)

.PHONY: bench-throughput
bench-throughput: $(VENV) ## pods bound per second with 1,000 nodes and API latency, compared with kube-scheduler (ARGS)
	$(CLUSTERS) control-plane >/dev/null
	python -m benchmarks.throughput $(ARGS)

.PHONY: bench-failover
bench-failover: $(VENV) ## how soon pods have devices again after the leader was killed on 5,000 nodes, and the memory of both replicas (ARGS)
	$(CLUSTERS) control-plane >/dev/null
	python -m benchmarks.failover $(ARGS)

.PHONY: bench-adoption
bench-adoption: $(VENV) ## 1,000 pods a minute that name templates on demand, on 1,000 nodes: latency, and templates that are left (ARGS)
	$(CLUSTERS) control-plane >/dev/null
	python -m benchmarks.adoption $(ARGS)

.PHONY: bench-prepare
bench-prepare: $(VENV) ## prepare latency and memory of the kubelet plugin, compared with the example driver (ARGS="--claims 200")
	$(CLUSTERS) control-plane >/dev/null
	$(CLUSTERS) build example-driver >/dev/null
	python -m benchmarks.prepare $(ARGS)

.PHONY: bench-memory
bench-memory: $(VENV) ## memory and start of the controller by size of the cluster, compared with an earlier commit (ARGS)
	python -m benchmarks.memory $(ARGS)

.PHONY: bench-scrape
bench-scrape: $(VENV) ## time and size of a scrape of the controller with 40,000 cards, and what it costs decisions
	python -m benchmarks.scrape

.PHONY: bench-backlog
bench-backlog: $(VENV) ## what 5,000 waiting pods cost, and whether others wait for them, with API latency (ARGS)
	$(CLUSTERS) control-plane >/dev/null
	python -m benchmarks.backlog $(ARGS)

.PHONY: bench-admission
bench-admission: $(VENV) ## what a new pod waits for admission, with the policies that adopt pods and without any (ARGS="--pods 200")
	$(CLUSTERS) control-plane >/dev/null
	python -m benchmarks.admission $(ARGS)

.PHONY: bench-counts
bench-counts: $(VENV) ## lines, comments, types that refuse and names that mean several things, by package
	python -m benchmarks.counts

.PHONY: bench-journeys
bench-journeys: $(VENV) ## files and functions that one pod, one prepare and one lode simulate pass (ARGS=--list)
	python -m benchmarks.journeys $(ARGS)

.PHONY: chart
chart: $(VENV) ## generate the policies in manifests/adopt from driver/adoption, and the Helm chart from the manifests
	python -m charts

.PHONY: proto
proto: $(VENV) ## generate the gRPC code from its definitions
	kubeletplugin/proto/regenerate.sh

.PHONY: clean
clean: ## remove everything that make created in the checkout (not the cache)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV): pyproject.toml uv.lock | $(UV)
	$(UV) sync --locked $(addprefix --python ,$(PYTHON))
	@touch $@

$(CACHE)/uv/bin/uv:
	@echo '==> installing uv into $(CACHE)/uv'
	python3 -m venv $(CACHE)/uv
	$(CACHE)/uv/bin/python -m pip install --quiet --require-hashes --requirement requirements-uv.txt
