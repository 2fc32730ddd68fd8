# Everything a person runs. "make" alone lists it.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# All programs are built with the same options, so that no package is compiled twice. Only
# the race detector needs cgo, and turns it on. Without DWARF a program links in a third of
# the time; a debugger needs it, and a panic does not.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -ldflags=-w)

# Time for each fuzz target.
FUZZTIME ?= 5m

LINT := go tool -modfile=scripts/lint/go.mod golangci-lint
TEST = go build -buildvcs=false -o .local/bin/test ./scripts/test && exec .local/bin/test $(if $(V),-v)

.PHONY: help up down cluster cluster-test cluster-down test test-long unit e2e report load fuzz bench bench-proxies screenshots pictures docs images release lint vuln fmt

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## start the whole local stack, build .local/sluice, show what to try; Ctrl-C stops it
	@scripts/prerequisites.sh
	@go build -buildvcs=false -o .local/bin/stack ./emulators/stack/cmd
	@go build -buildvcs=false -o .local/sluice ./scripts/sluice
	@exec .local/bin/stack up

down: ## stop a stack that another shell started, and what one that crashed left
	@go build -buildvcs=false -o .local/bin/stack ./emulators/stack/cmd
	@.local/bin/stack down

cluster: ## start a real Kubernetes node with Sluice on it, in the background; needs root
	@scripts/prerequisites.sh --cluster
	@go build -buildvcs=false -o .local/bin/cluster ./emulators/cluster/cmd
	@.local/bin/cluster up

cluster-test: ## run the black-box tests that a real cluster can run
	@if [ -z "$${SLUICE_STACK:-}" ] && [ -n "$${KUBECONFIG:-}" ]; then \
		echo "KUBECONFIG names another cluster: let SLUICE_STACK name a file that describes it (emulators/README.md says how)" >&2; exit 1; fi
	SLUICE_STACK=$${SLUICE_STACK:-$(CURDIR)/.local/cluster/info.json} go test -count=1 -p 1 -timeout 60m -v ./tests/runtime ./tests ./tests/attack ./tests/cluster

cluster-down: ## end the node and all that it had
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

load: ## ten minutes of load in which every answer is checked; LOAD_TIME says how long
	LOAD_TIME=$(or $(LOAD_TIME),10m) go test -v -count=1 -timeout 40m ./tests/load

fuzz: ## run each fuzz target for FUZZTIME (default 5m)
	@scripts/fuzz.sh $(FUZZTIME)

bench: ## measure all that tests/load says of speed; AGAINST=COMMIT compares this tree's speed with a commit's
	@scripts/prerequisites.sh
ifdef AGAINST
	@SLUICE_AGAINST=$(AGAINST) SLUICE_TURNS=$(TURNS) SLUICE_ROWS="$(ROWS)" go test -count=1 -timeout 120m -v -run '^TestAgainst$$' ./tests/bench
else
	SLUICE_BENCH=1 go test -count=1 -timeout 40m -v -run '^TestBench$$' ./tests/bench
endif

bench-proxies: ## measure the shipped proxies' files; AGAINST=folder compares them with another infra/proxies
	@scripts/prerequisites.sh --race
	SLUICE_BENCH=1 go test -count=1 -timeout 30m -v -run '^TestSpeed$$' ./tests/proxies -args -against "$(if $(AGAINST),$(abspath $(AGAINST)))"

screenshots: ## make a picture of every page of the console in PAGES (default .local/pages)
	@scripts/prerequisites.sh
	go test -count=1 -v -run '^TestScreenshots$$' ./tests/console -screenshots $(abspath $(or $(PAGES),.local/pages))

pictures: ## make the README's pictures of the console anew
	@scripts/prerequisites.sh
	go test -count=1 -run '^TestPictures$$' ./tests/console -pictures

docs: ## write the command line's pages and the API's description anew
	go run ./scripts/openapi
	go test -count=1 ./scripts/sluice/internal/manual -run TestPages -update

images: ## build an OCI image of each function into .local/images; PUSH=registry/prefix pushes them
	@go run ./scripts/release images $(if $(PUSH),--push $(PUSH),.local/images)

release: ## build a release into .local/release: make release VERSION=v2.1.0
	@test -n "$(VERSION)" || { echo "usage: make release VERSION=v2.1.0" >&2; exit 2; }
	@rm -rf .local/release
	@go run ./scripts/release all $(VERSION) .local/release

lint: ## check formatting and the rules of .golangci.yml
	$(LINT) run ./...

vuln: ## ask the Go vulnerability database about what is used
	@scripts/vuln.sh

fmt: ## format all Go files
	$(LINT) fmt
