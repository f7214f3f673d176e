# Build, test and try out_k8saudit. `make` alone lists the targets.

VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GO          ?= go
ifeq ($(origin CC),default)
CC          := gcc
endif
BUILD       := build
PLUGIN      := $(BUILD)/out_k8saudit.so
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 60s
FLUENT_BIT  ?= $(shell command -v fluent-bit 2>/dev/null)

# The packages whose tests need no built plugin.
UNIT = $(shell $(GO) list ./... | grep -v /test/)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(PLUGIN) ## build the plugin, the bundled host, the receiver and the writer into build/

# Always asks the Go command, which knows best what changed.
.PHONY: $(PLUGIN)
$(PLUGIN):
	$(GO) build -buildmode=c-shared -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $@ .

$(BUILD)/flbhost: $(wildcard tools/flbhost/*.c tools/flbhost/*.h)
	@mkdir -p $(BUILD)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -o $@ tools/flbhost/*.c -ldl -lpthread

.PHONY: $(BUILD)/auditsink $(BUILD)/auditgen
$(BUILD)/auditsink $(BUILD)/auditgen:
	$(GO) build -trimpath -o $@ ./cmd/$(@F)

build: $(BUILD)/flbhost $(BUILD)/auditsink $(BUILD)/auditgen

.PHONY: demo
demo: build ## deliver an audit log to a receiver, stop, and print the verdict
	@BUILD=$(BUILD) FLUENT_BIT="$(FLUENT_BIT)" tools/demo.sh

.PHONY: check-config
check-config: ## check the outputs of this plugin in CONF=fluent-bit.conf (or .yaml)
	@test -n "$(CONF)" || { echo "which file? make check-config CONF=fluent-bit.conf"; exit 2; }
	@$(GO) run ./cmd/checkconfig "$(CONF)"

.PHONY: test
test: build ## run all tests: unit tests with the race detector, end to end on the bundled host
	$(GO) test -race $(UNIT)
	$(GO) test -count=1 -run HardlyAllocates ./plugin/... # which the race detector hides
	PLUGIN_SO=$(CURDIR)/$(PLUGIN) FLUENT_BIT="$(FLUENT_BIT)" $(GO) test -count=1 -timeout 20m ./test/...

.PHONY: e2e
e2e: build ## run the end-to-end tests, also on FLUENT_BIT=/path/to/fluent-bit, at full length
	PLUGIN_SO=$(CURDIR)/$(PLUGIN) FLUENT_BIT="$(FLUENT_BIT)" E2E_LONG=1 $(GO) test -count=1 -v -timeout 60m ./test/...

# What the fault bench writes its table into.
CHAOS_TABLE ?= $(CURDIR)/docs/delivery.md

# What the zoo writes its table into. Empty: nothing.
ZOO_TABLE ?=

.PHONY: zoo
zoo: ## play all receivers of batch/zoo_receivers_test.go at full length with five seeds, and random faults with 5,000 (an hour), the table into ZOO_TABLE
	$(GO) test ./batch -run "Zoo|Random" -v -timeout 90m -random.seeds=5000 -zoo.full -zoo.seeds=5 $(if $(ZOO_TABLE),-zoo.table="$(abspath $(ZOO_TABLE))")

.PHONY: chaos
chaos: build ## fail, kill and stop everything, on FLUENT_BIT as well, and write the table in docs/delivery.md
	PLUGIN_SO=$(CURDIR)/$(PLUGIN) FLUENT_BIT="$(FLUENT_BIT)" CHAOS=1 CHAOS_TABLE="$(CHAOS_TABLE)" $(GO) test -count=1 -v -timeout 90m ./test/e2e \
		-run '^(TestEveryFailureLosesNothing|TestAKilledFluentBit.*|TestARestartRepeats.*|TestAReloadRepeats.*|TestMemoryIsBounded.*|TestHugeChunks.*)$$'

# How often make bench repeats each measurement, and what it writes its table into.
BENCH_REPS  ?= 10
BENCH_TABLE ?= docs/performance.md
BENCH_FLAGS ?=
# The revision whose plugin takes turns with this one. Empty: none.
BENCH_BEFORE ?= 490f43c

.PHONY: $(BUILD)/floor.so
$(BUILD)/floor.so:
	$(GO) build -tags floor -buildmode=c-shared -trimpath -ldflags "-s -w" -o $@ ./bench/floor

# Built in a worktree of its own, so that what is not committed stays out of it.
.PHONY: $(BUILD)/before.so
$(BUILD)/before.so:
	@dir=$$(mktemp -d) && trap 'git worktree remove --force "$$dir"' EXIT && git worktree add --quiet --detach "$$dir" $(BENCH_BEFORE) && \
		$(GO) build -C "$$dir" -buildmode=c-shared -trimpath -ldflags "-s -w -X main.version=$(BENCH_BEFORE)" -o $(abspath $@) .

.PHONY: bench
bench: build $(BUILD)/floor.so $(if $(BENCH_BEFORE),$(BUILD)/before.so) ## measure what delivery costs, against Fluent Bit's http output on FLUENT_BIT, and write docs/performance.md
	$(GO) build -o $(BUILD)/bench ./bench
	$(BUILD)/bench -fluent-bit "$(FLUENT_BIT)" -before "$(if $(BENCH_BEFORE),$(BUILD)/before.so)" -before-name "$(BENCH_BEFORE)" \
		-reps $(BENCH_REPS) -write "$(BENCH_TABLE)" $(BENCH_FLAGS)

.PHONY: peers
peers: ## hold the plugin against kube-apiserver's own decoder, backends and flags (compiles for minutes once)
	cd peers && $(GO) test -count=1 ./...

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (60s)
	$(GO) test -run '^$$' -fuzz '^FuzzChunk$$' -fuzztime $(FUZZTIME) ./plugin/record
	$(GO) test -run '^$$' -fuzz '^FuzzRawLine$$' -fuzztime $(FUZZTIME) ./plugin/record
	$(GO) test -run '^$$' -fuzz '^FuzzRecall$$' -fuzztime $(FUZZTIME) ./plugin/record
	$(GO) test -run '^$$' -fuzz '^FuzzJournal$$' -fuzztime $(FUZZTIME) ./plugin/ledger
	$(GO) test -run '^$$' -fuzz '^FuzzLines$$' -fuzztime $(FUZZTIME) ./plugin/deadletter
	$(GO) test -run '^$$' -fuzz '^FuzzEvent$$' -fuzztime $(FUZZTIME) ./plugin/truncate
	$(GO) test -run '^$$' -fuzz '^FuzzClassic$$' -fuzztime $(FUZZTIME) ./cmd/checkconfig

.PHONY: lint
lint: ## check format, vet, staticcheck, go.mod and the direction of imports
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet ./plugin/... ./batch/... ./cmd/...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff
	cd peers && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./... && $(GO) mod tidy -diff
	@tools/check-imports.sh

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BUILD)
