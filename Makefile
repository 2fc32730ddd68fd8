# The commands for people who work on Sluice. "make" lists them.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# All programs use the same build options, so that no package is compiled twice. Only the
# race detector and Vale need cgo, and enable it. Without DWARF, which only debuggers need, a
# program links in a third of the time.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -ldflags=-w)

# Time for each fuzz target.
FUZZTIME ?= 5m

LINT := go tool -modfile=scripts/lint/go.mod golangci-lint
VALE := env CGO_ENABLED=1 go tool -modfile=scripts/vale/go.mod vale
TEST = go build -buildvcs=false -o .local/bin/test ./scripts/test && exec .local/bin/test $(if $(V),-v)

.PHONY: help up down cluster cluster-test cluster-down test test-long unit e2e report load fuzz bench bench-proxies screenshots pictures docs images release lint vuln fmt

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## start the local stack and build .local/sluice; Ctrl-C stops it
	@scripts/prerequisites.sh
	@go build -buildvcs=false -o .local/bin/stack ./emulators/stack/cmd
	@go build -buildvcs=false -o .local/sluice ./scripts/sluice
	@exec .local/bin/stack up

down: ## stop a stack from another shell, and remove the remains of a crashed one
	@go build -buildvcs=false -o .local/bin/stack ./emulators/stack/cmd
	@.local/bin/stack down

cluster: ## start a Kubernetes node with Sluice in the background; needs root
	@scripts/prerequisites.sh --cluster
	@go build -buildvcs=false -o .local/bin/cluster ./emulators/cluster/cmd
	@.local/bin/cluster up

cluster-test: ## run the black-box tests against the cluster
	@if [ -z "$${SLUICE_STACK:-}" ] && [ -n "$${KUBECONFIG:-}" ]; then \
		echo "KUBECONFIG names another cluster: set SLUICE_STACK to a file that describes it (see emulators/README.md)" >&2; exit 1; fi
	SLUICE_STACK=$${SLUICE_STACK:-$(CURDIR)/.local/cluster/info.json} go test -count=1 -p 1 -timeout 60m -v ./tests/runtime ./tests ./tests/attack ./tests/cluster

cluster-down: ## stop the node and remove its data
	@go build -buildvcs=false -o .local/bin/cluster ./emulators/cluster/cmd
	@.local/bin/cluster down

test: ## run all tests and print a summary; V=1 prints the output of every test
	@scripts/prerequisites.sh --race
	@$(TEST)

test-long: ## run all tests at full length, with the race detector everywhere
	@scripts/prerequisites.sh --race
	@$(TEST) -long

unit: ## run the tests of every package, on real emulators
	@$(TEST) unit race

e2e: ## run the end-to-end tests
	@$(TEST) e2e rates

report: ## run the black-box tests and write tests/REPORT.md with their figures
	@scripts/prerequisites.sh --race
	REPORT=update SLUICE_LONG=1 CGO_ENABLED=1 go test -race -count=1 -timeout 60m -p 1 ./tests/...
	@go run ./tests/report/cmd

load: ## check every response under load for LOAD_TIME (default 10m)
	LOAD_TIME=$(or $(LOAD_TIME),10m) go test -v -count=1 -timeout 40m ./tests/load

fuzz: ## run each fuzz target for FUZZTIME (default 5m)
	@scripts/fuzz.sh $(FUZZTIME)

bench: ## measure the figures of tests/load; AGAINST=COMMIT compares with a commit
	@scripts/prerequisites.sh
ifdef AGAINST
	@SLUICE_AGAINST=$(AGAINST) SLUICE_TURNS=$(TURNS) SLUICE_ROWS="$(ROWS)" go test -count=1 -timeout 120m -v -run '^TestAgainst$$' ./tests/bench
else
	SLUICE_BENCH=1 go test -count=1 -timeout 40m -v -run '^TestBench$$' ./tests/bench
endif

bench-proxies: ## measure the proxy configurations; AGAINST=FOLDER compares with another infra/proxies
	@scripts/prerequisites.sh --race
	SLUICE_BENCH=1 go test -count=1 -timeout 30m -v -run '^TestSpeed$$' ./tests/proxies -args -against "$(if $(AGAINST),$(abspath $(AGAINST)))"

screenshots: ## take a screenshot of every console page into PAGES (default .local/pages)
	@scripts/prerequisites.sh
	go test -count=1 -v -run '^TestScreenshots$$' ./tests/console -screenshots $(abspath $(or $(PAGES),.local/pages))

pictures: ## update the README's pictures of the console
	@scripts/prerequisites.sh
	go test -count=1 -run '^TestPictures$$' ./tests/console -pictures

docs: ## generate the command-line pages and the API description
	go run ./scripts/openapi
	go test -count=1 ./scripts/sluice/internal/manual -run TestPages -update

images: ## build an image of each function into .local/images; PUSH=REGISTRY/PREFIX pushes them
	@go run ./scripts/release images $(if $(PUSH),--push $(PUSH),.local/images)

release: ## build a release into .local/release; requires VERSION=v2.1.0
	@test -n "$(VERSION)" || { echo "usage: make release VERSION=v2.1.0" >&2; exit 2; }
	@rm -rf .local/release
	@go run ./scripts/release all $(VERSION) .local/release

lint: ## check the code (.golangci.yml) and the prose (scripts/vale)
	@scripts/prerequisites.sh --lint
	$(LINT) run ./...
	@git ls-files -z '*.go' '*.md' '*.html' | xargs -0 $(VALE) --config=scripts/vale/vale.ini --output=line

vuln: ## check the dependencies for known vulnerabilities
	@scripts/vuln.sh

fmt: ## format all Go files
	$(LINT) fmt
