# One way to do each thing. `make help` lists them.

SHELL := bash
# Programs run in an empty root, and programs and tests share one build cache.
export CGO_ENABLED := 0
# golang.org/x/net/trace, which gRPC leaves out with this tag, would keep the linker from dropping methods that nobody calls.
export GOFLAGS := $(GOFLAGS) -tags=grpcnotrace
GO ?= go
CACHE := $(CURDIR)/.cache
TOOLS := $(CACHE)/bin
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
GOTESTSUM_VERSION := v1.13.0
GOTESTSUM := $(TOOLS)/gotestsum-$(GOTESTSUM_VERSION)
# It prints what `go test` prints, and at the end the output of each test that failed. Without tables for debuggers, test programs are linked in
# two thirds of the time.
TESTED := $(GOTESTSUM) --format standard-quiet --hide-summary skipped -- -ldflags=-w
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# The container image of a release, which sluice manifests installs by default; none for a development build.
IMAGE ?=
LDFLAGS := -s -w -X sluice.dev/internal/cli.sluiceVersion=$(VERSION) -X sluice.dev/config.defaultImage=$(IMAGE)
CORPUS ?= $(wildcard $(CURDIR)/../shared/corpus)
PKGS := ./...
# Tests with a cluster wait more than they work, so three packages more than there are processors are tested at once: these, and two beside.
ATONCE ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARTS ?=
TESTS := tests-cli tests-delivery tests-others

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 20

.PHONY: build
build: ## build bin/sluice
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/sluice ./cmd/sluice

RELEASE_IMAGE ?= localhost/sluice
RELEASE := $(GO) run ./tools/release --image '$(RELEASE_IMAGE)' --out dist

.PHONY: image
image: ## build the container image, an OCI layout in dist/image (RELEASE_IMAGE=registry.example.com/sluice)
	$(RELEASE) --only image --platforms linux/amd64,linux/arm64

.PHONY: release
release: ## build what a release publishes in dist/: programs, image, chart, manifests, bills of materials, checksums (RELEASE_IMAGE)
	$(RELEASE)
	cd dist && files=$$(find . -maxdepth 1 -type f -printf '%P\n' | sort) && sha256sum $$files >checksums.txt

.PHONY: test
test: cluster browser $(GOLANGCI) $(GOTESTSUM) ## the linter, generated files, and all tests with a tenth of the random cases
	$(MAKE) --no-print-directory -j 5 --output-sync=target lint verify $(TESTS)

.PHONY: test-long
test-long: ## before a release: all random cases, the programs for other systems, seeded faults, and a soak of 30 minutes
	SLUICE_ROUNDS=1 $(MAKE) test
	$(MAKE) cross mutants soak
	cd test/older && $(GO) mod tidy -diff

.PHONY: cross
cross: ## sluice for Windows and macOS builds
	@for p in windows/amd64 darwin/arm64; do echo "go build for $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/sluice || exit; done

$(GOLANGCI):
	@mkdir -p $(TOOLS)
	@echo "building golangci-lint $(GOLANGCI_VERSION), which takes some minutes the first time"
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

$(GOTESTSUM):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(GO) install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)
	mv $(TOOLS)/gotestsum $@

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint (the main module: localcluster would need all of Kubernetes type-checked, a quarter of an hour)
	$(GOLANGCI) run --allow-parallel-runners $(PKGS)

# Tests are short: to collect garbage as often as a program that stays would be a quarter of their work.
unit tests-delivery tests-cli tests-others: export GOGC ?= 400

.PHONY: unit
unit: ## the tests that need no cluster
	$(GO) test -timeout 40m $(PKGS)

# One build serves the tests with and without a cluster. Those of internal/cli take turns where they change the whole cluster, so they run in
# two parts, each with clusters of its own and of about the same length; the packages whose tests take longest begin first.
CLI_APART := E2EDelivery|E2EThePages
.PHONY: tests
tests: cluster browser $(GOTESTSUM) ## all tests, those against a real kube-apiserver too
	$(MAKE) --no-print-directory -j 3 --output-sync=target $(TESTS)

# The tests of test/helm build the chart and the program, which the cache of results does not see.
.PHONY: tests-delivery
tests-delivery: $(GOTESTSUM)
	$(TESTED) -timeout 60m -tags e2e,grpcnotrace -run '$(CLI_APART)' ./internal/cli
	cd localcluster && $(TESTED) ./...
	cd test/helm && $(TESTED) -count=1 -timeout 60m -tags e2e,grpcnotrace ./...
	cd test/browser && $(TESTED) -count=1 -timeout 60m ./...

.PHONY: tests-cli
tests-cli: $(GOTESTSUM)
	$(TESTED) -timeout 60m -tags e2e,grpcnotrace -skip '$(CLI_APART)' ./internal/cli

.PHONY: tests-others
tests-others: $(GOTESTSUM)
	$(TESTED) -timeout 60m -tags e2e,grpcnotrace -p $(ATONCE) ./internal/e2e/... ./tools/release ./apply ./resolve/git ./feature/policy/... ./internal/life ./compat \
	  $$($(GO) list -tags e2e,grpcnotrace $(PKGS) | grep -v '/internal/cli$$')

TEKTON := $(CACHE)/tekton
.PHONY: e2e-tekton
e2e-tekton: cluster ## with Tekton's own controller and webhook, built from its Go module (some minutes the first time)
	@mkdir -p $(TEKTON)
	cd test/tekton && $(GO) mod tidy -diff && $(GO) build -o $(TEKTON)/ github.com/tektoncd/pipeline/cmd/controller github.com/tektoncd/pipeline/cmd/webhook
	cd test/tektonresolver && $(GO) mod tidy -diff && $(GO) test ./... && $(GO) build -o $(TEKTON)/ .
	export SLUICE_TEKTON=$(TEKTON) SLUICE_TEKTON_CONFIG=$$(cd test/tekton && $(GO) list -m -f '{{.Dir}}' github.com/tektoncd/pipeline)/config && \
	  $(GO) test ./internal/resolvers -run 'Tektons' && $(GO) test -timeout 40m -tags e2e,grpcnotrace -run 'TestE2ERealTekton' -v ./internal/e2e

.PHONY: cluster
cluster: ## build the local cluster's binary and its kubectl (5 to 7 minutes the first time; KUBEBUILDER_ASSETS names installed ones)
	@$(GO) run ./tools/clustertest/build >/dev/null
	@$(GO) run ./tools/clustertest/build kubectl >/dev/null

# Chromium and npm are Debian's. Whoever has them, or SLUICE_CHROMIUM, needs no rights to install packages.
AXE := axe-core@4.14.1
DEBS = $(if $(SLUICE_CHROMIUM),,$(if $(shell command -v chromium),,chromium fonts-dejavu-core)) $(if $(shell command -v npm),,npm)
.PHONY: browser
browser: ## what the tests of pages need: Chromium, and axe-core for accessibility
	@if test -n "$(strip $(DEBS))"; then apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends $(DEBS); fi
	@test -f $(CACHE)/axe/$(AXE) || { npm install --silent --no-save --ignore-scripts --prefix $(CACHE)/axe $(AXE) && touch $(CACHE)/axe/$(AXE); }

.PHONY: screenshots
screenshots: cluster browser ## the pictures of README and docs, from the pages as they are
	cd test/browser && SLUICE_SCREENSHOTS='$(CURDIR)/docs/images' $(GO) test -count=1 -timeout 60m -run Screenshots ./...

.PHONY: generate
generate: generate-client generate-features ## write docs/rules.md, docs/reference.md, docs/commands.md, docs/schemas, the golden files, generated clients, CRDs and features
	$(GO) test ./compat ./config ./report ./internal/config ./internal/life ./internal/resolvers -update
	$(GO) test ./internal/cli -run "TheReferenceIsCurrent|SchemasOfDocuments" -update

RESOLUTION := sluice.dev/api/resolution/v1beta1 sluice.dev/api/resolution/v1alpha1
.PHONY: generate-client
generate-client: ## write deep copies, clientset, listers and informers anew
	@mkdir -p $(CACHE) && : > $(CACHE)/header
	$(GO) tool deepcopy-gen --go-header-file $(CACHE)/header --output-file zz_generated.deepcopy.go $(RESOLUTION) sluice.dev/api/v1alpha1 \
	  sluice.dev/examples/operator/api/v1
	$(GO) tool client-gen --go-header-file $(CACHE)/header --clientset-name versioned --input-base sluice.dev/api \
	  --input resolution/v1beta1,resolution/v1alpha1 --output-pkg sluice.dev/client --output-dir client
	$(GO) tool lister-gen --go-header-file $(CACHE)/header --output-pkg sluice.dev/client/listers --output-dir client/listers $(RESOLUTION)
	$(GO) tool informer-gen --go-header-file $(CACHE)/header --single-directory \
	  --versioned-clientset-package sluice.dev/client/versioned --listers-package sluice.dev/client/listers \
	  --output-pkg sluice.dev/client/informers --output-dir client/informers $(RESOLUTION)

FEATURES := features.yaml examples/operator/features.yaml examples/kubebuilder/features.yaml examples/tekton/features.yaml examples/kubernetes/features.yaml
.PHONY: generate-features
generate-features: ## write CRDs, manifests and code of features anew, from the Go types and their markers
	cd examples/kubebuilder && $(MAKE) generate manifests
	@for f in $(FEATURES); do $(GO) run ./cmd/sluice features generate -f $$f || exit; done

.PHONY: verify
verify: ## fail if a module file is untidy, or CRDs and features are not as their Go types say (tests hold the other generated files)
	$(GO) mod tidy -diff
	cd localcluster && $(GO) mod tidy -diff
	cd test/helm && $(GO) mod tidy -diff
	cd test/browser && $(GO) mod tidy -diff
	@for f in $(FEATURES); do $(GO) run ./cmd/sluice features generate --verify -f $$f || exit; done

.PHONY: demo
demo: build cluster ## the whole story on a real API server, told step by step
	PATH="$(CURDIR)/bin:$$(dirname "$$($(GO) run ./tools/clustertest/build kubectl)"):$$PATH" \
	  "$$($(GO) run ./tools/clustertest/build)" exec -- tools/demo.sh

.PHONY: bench
bench: build ## tables of truth and speed (CORPUS=dir for the real upgrades, PARTS=objects,corpus for some only)
	SLUICE_CORPUS='$(CORPUS)' $(GO) run ./tools/bench --sluice bin/sluice --only '$(PARTS)'

FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	@set -e; for dir in $$(grep -rl --include='*_test.go' 'func Fuzz' . | xargs -n1 dirname | sort -u | grep -v /localcluster/); do \
	  for f in $$(grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' $$dir/*_test.go | sed 's/func //'); do \
	    echo "== $$dir $$f"; $(GO) test $$dir -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -parallel 2; done; done

ROUNDS ?= 30
SEED ?= 1
.PHONY: hunt
hunt: cluster ## random runs of apps that share a cluster, and of one app at once: nothing that is to stay may go (ROUNDS=30: 900 and 3000 runs; SEED)
	@set -o pipefail; SLUICE_ROUNDS=$(ROUNDS) SLUICE_SEED=$(SEED) $(GO) test -v -timeout 12h -tags e2e,grpcnotrace -run '^(TestE2ENothingIsLostThatIsToStay|TestE2ERuns.*)$$' ./apply \
	  | sed -E '/^ *(=== (RUN|PAUSE|CONT|NAME)|--- PASS)/d'

DURATION ?= 30m
.PHONY: soak
soak: cluster ## mixed load on an installation with restarts and flips for DURATION: nothing is lost, and no process grows
	SLUICE_SOAK=$(DURATION) $(GO) test -v -count 1 -timeout 12h -tags e2e,grpcnotrace -run '^TestE2ESoak$$' ./tools/release

CHANNELS ?= 3
.PHONY: hunt-channels
hunt-channels: cluster ## channels of the CRDs in CORPUS with random gates (CHANNELS times each): valid, contained, nothing gated left
	SLUICE_CORPUS='$(CORPUS)' SLUICE_CHANNELS=$(CHANNELS) $(GO) test -v -timeout 2h -tags e2e,grpcnotrace -run 'Channels(OfTheCorpus|AreAccepted)$$' ./internal/life

.PHONY: mutants
mutants: ## seed faults into the code, one at a time: the tests catch each (MUTANTS=regexp for some)
	$(GO) run ./tools/mutants -run '$(MUTANTS)'

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist .cache .release-*
