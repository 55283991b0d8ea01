# Every target sets up .venv/ first, so a fresh clone needs nothing but Python 3.11 or later. Those that only run the
# program install no tools of the tests: .venv/program instead of .venv/installed.
PYTHON ?= python3
BIN := .venv/bin
ENGINE ?= docker
IMAGE ?= gpu-topology-webhook
# Beside the other image, with the same tag. The chart looks for it there too.
REMAP_IMAGE ?= $(shell echo '$(IMAGE)' | sed -E 's#[^/:]+(:[^/:]+)?$$#gpu-topology-remap\1#')
# How many processes run tests at a time; each takes up to 1.4 GiB.
PROCESSES ?= 2
# make fast COVERAGE=1 measures it: it takes half as long again.
COVERAGE ?=
QUICK := $(addprefix tests/,decisions objects words hardware test_house.py)

# The programs from Go that make test needs; make test-all builds the others too.
NEEDED := etcd kube-apiserver kube-scheduler kube-controller-manager kubectl helm hami-scheduler-2.10.0
PROGRAMS ?=

# Modules are compiled once and not for each process that imports them, whatever the environment says: a run of the tests
# has many, and rewriting the assertions of all tests takes longer than collecting them.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all quick near fast browser fuzz control-plane cluster load attacks run bench chart docs image image-test check release-rehearsal gpu gpu-kit lint lock clean messages reference compatibility conformance mutants

demo: .venv/program .venv/driver/environment ## the main job, end to end, on this machine
	$(BIN)/gpu-topology demo $$(test -f .venv/driver/environment && echo --driver .venv/driver)

test: check browser         ## style, types, fast tests, and the tests at one API server with one HAMi; PROCESSES=2 processes
	$(MAKE) --no-print-directory -j2 fast control-plane PROGRAMS='$(NEEDED)'
	$(BIN)/python -m pytest -n $(PROCESSES) -m "cluster and not long"

test-all: browser control-plane ## what make test leaves out: other releases, load, attacks, failover, years, many inputs of hypothesis
	$(BIN)/python -m pytest -n $(PROCESSES) -m "long and not cluster"
	$(BIN)/python -m pytest -n $(PROCESSES) -m "hypothesis and not long and not cluster" --hypothesis-profile=long
	$(BIN)/python -m pytest -n $(PROCESSES) -m "cluster and long"

fast: .venv/installed       ## the tests that need no cluster; COVERAGE=1 measures what they reach
	$(BIN)/python -m pytest -n $(PROCESSES) $(if $(COVERAGE),--cov --cov-report=term)

near: .venv/installed       ## the tests that are nearest to what changed, for a minute (NEAR='--all', '--list', '--base HEAD~3', '--cluster')
	$(BIN)/python -m tests.near --processes $(PROCESSES) $(NEAR)

quick: .venv/installed      ## while you work: linter, import contracts, golden cases, and the tests of the pure modules but the slowest
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --quiet -n $(PROCESSES) -m "not cluster and not long and not slow" --hypothesis-profile=quick $(QUICK)

# It never fails: without a browser, the tests decide whether they may be left out.
browser:                    ## Debian's Chromium and its driver, for the tests of the page, if they are not there; as root
	@if { command -v chromium || command -v google-chrome; } >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium chromium-driver; } \
			|| echo 'NO BROWSER: chromium cannot be installed; the tests of the page are left out' >&2; \
	else echo 'NO BROWSER: install chromium and chromium-driver, as Debian names them, for the tests of the page' >&2; fi

fuzz: .venv/installed       ## inputs bent by chance, guided by coverage: make fuzz TARGET=review SECONDS=3600; without TARGET all, a minute each
	for target in $(or $(TARGET),$$($(BIN)/python -m tests.fuzz --list)); do \
		$(BIN)/python -m tests.fuzz $$target --seconds $(or $(SECONDS),60) || exit; done

# Without Go it fails here and is no error: the tests decide whether they may be left out.
control-plane: .venv/installed ## the programs that tests need from Go, such as kube-apiserver, built once and kept in ~/.cache
	-nice $(BIN)/python -m tests.go_programs $(PROGRAMS)

cluster: .venv/installed    ## the cluster of the tests, with HAMi, for you: prints a kubeconfig; Ctrl-C takes it down (HAMI=2.9.0)
	$(BIN)/python -m tests.control_plane.hami $(HAMI)

load: .venv/installed       ## 200 pods a second in a cluster of 2,000 nodes: what the API server waits for us (LOAD='--rate 100 --seconds 10')
	$(BIN)/python -m tests.control_plane.load $(LOAD)

attacks: .venv/installed    ## attacks on the webhook at a real API server: what they come to, and who notices (ATTACKS='1 3')
	$(BIN)/python -m tests.control_plane.attacks $(ATTACKS)

# The longest of all: an hour with two processes. Most faults are noticed within seconds; what survives takes a minute.
mutants: .venv/mutants      ## which of 100 faults, and of a seeded sample of mutants, the tests notice (MUTANTS=60 SEED=1)
	-$(BIN)/python -m tests.mutants.faults --processes $(PROCESSES)
	$(BIN)/python -m tests.mutants --processes $(PROCESSES) $(if $(MUTANTS),--mutants $(MUTANTS)) $(if $(SEED),--seed $(SEED))

check: .venv/installed      ## style, types, import contracts, workflows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet --strict-collection .github

run: .venv/program          ## the webhook on https://localhost:8443 with the example cluster
	$(BIN)/gpu-topology serve --state examples/state --self-signed --ca-file .venv/ca.crt --host 127.0.0.1

bench: .venv/installed      ## what a review costs beside a bare server and other webhooks, a choice of GPUs beside a plain loop, a restart in reviews
	$(BIN)/python -m bench
	$(BIN)/python -m bench.selection
	$(BIN)/python -m bench.placement
	$(BIN)/python -m bench.restart
	$(BIN)/python -m bench.peers

chart: .venv/installed      ## what the chart takes from the code, and deploy/install.yaml from the chart
	$(BIN)/python -m tests.chart

# The file of an earlier run goes first: a run that writes none must not be taken for it.
compatibility: .venv/installed control-plane ## the matrix in docs/compatibility.md, from a run of the tests at a real API server
	rm -f .venv/compatibility.json
	$(BIN)/python -m pytest -n $(PROCESSES) -m cluster --compatibility=.venv/compatibility.json; \
		code=$$?; $(BIN)/python -m tests.compatibility .venv/compatibility.json && exit $$code

conformance: .venv/installed ## judges a checkout of HAMi: what holds, what changed, what broke; as root (HAMI=DIRECTORY CONFORMANCE='--name NAME --record')
	@test -n "$(HAMI)" || { echo 'HAMI: expected the directory of a checkout of HAMi: make conformance HAMI=DIRECTORY' >&2; exit 2; }
	@$(BIN)/python -m tests.compatibility.conform "$(HAMI)" $(CONFORMANCE)

messages: .venv/installed   ## docs/messages.md from the catalogue of messages
	$(BIN)/python -m tests.words.catalogue

reference: messages         ## what pages take from the code: docs/messages.md, tables of the configuration and of metrics, output in docs/stories, promised names
	$(BIN)/python -m tests.docs.reference
	$(BIN)/python -m tests.promises
	$(BIN)/python -m tests.docs.stories

docs: .venv/docs            ## the documents as a site, in site/; fails for a link or heading that is not there
	$(BIN)/mkdocs build --strict --config-file docs/site/mkdocs.yml

image:                      ## both container images, with docker or, ENGINE=..., podman or buildah
	$(ENGINE) build --build-arg VERSION=$$(.ci/version) \
		--build-arg REVISION=$$(git rev-parse HEAD) --target webhook --tag $(IMAGE) .
	$(ENGINE) build --build-arg VERSION=$$(.ci/version) \
		--build-arg REVISION=$$(git rev-parse HEAD) --target remap --tag $(REMAP_IMAGE) .

image-test: .venv/installed ## builds both images without a registry, and runs them; as root, with buildah and mmdebstrap
	CI=true $(BIN)/python -m pytest -m image tests/image

release-rehearsal: .venv/installed ## makes twice, in .release/, what a release has, and compares; prints what was not tried (STEPS='python chart')
	$(BIN)/python -m tests.release.rehearsal .release $(STEPS)

# With a kit beside it, the checkout runs with the Python that is there: nothing is installed, no network is needed.
gpu: $(if $(wildcard gpu-kit/packages),,.venv/program) ## tries on a machine with GPUs what the project claims, in at most 12 minutes; one archive (GPU='--hami-core FILE')
	$(if $(wildcard gpu-kit/packages),PYTHONPATH=gpu-kit/packages:. $(PYTHON),$(BIN)/python) -m tests.gpu $(GPU)

gpu-kit: .venv/program      ## the Python packages that make gpu needs on a machine without a network, in gpu-kit/ (GPU_KIT='--hami-core FILE')
	$(BIN)/python -m tests.gpu.pack $(GPU_KIT)

lock: .venv/installed       ## renew requirements.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --allow-unsafe -o requirements.lock pyproject.toml

clean:
	rm -rf .venv site .fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*

# A stand-in for the driver of a node with eight H20. Without a C compiler there is none, and the demo says so.
.venv/driver/environment: .venv/program tests/hardware/topology/machines.py $(wildcard tests/nvml/*.py tests/nvml/stub/*.c)
	-$(BIN)/python -m tests.nvml h20 .venv/driver

# The lock pins tools too; as constraints it pins only what the program asks for. Modules are compiled when they are first
# imported, because the demo imports one in ten.
.venv/program: pyproject.toml requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; set PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint requirements.lock --editable .
	touch $@

.venv/installed: .venv/program
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary atheris --editable '.[fuzz]' \
		|| echo 'NO FUZZING: atheris cannot be installed for this Python and machine; its tests are left out' >&2
	touch $@

.venv/mutants: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	touch $@

.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@
