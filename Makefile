# The stable targets. Each starts what it needs, prints one closing line "N passed, N failed" and exits
# non-zero on failure. `make serve` is where a newcomer begins; `make test` is every quick test.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

JOBS ?= $(shell nproc)
SEEDS ?= 200
SEED_START ?= 1
RUNS ?= 200000
DATA ?= ./kist-data
BUILD := build
BUILD_ASAN := build/asan
BUILD_FUZZ := build/fuzz
TALLY := tests/tidy/tally.py

.PHONY: help setup setup-test configure build serve test ci long test-unit test-sim test-s3 test-clients \
	test-cluster test-fuzz test-s3tests bench bench-peers scale scaling soak torture docs lint tidy clean

help:
	@echo "make serve   build kist and serve ./kist-data on 127.0.0.1:9000"
	@echo "make test    every quick test      make ci    linters, S3 suites, clients"
	@echo "make docs    generated pages       make lint  format, clang-tidy, cppcheck"
	@echo "others: test-unit test-sim test-s3 test-clients test-cluster test-fuzz test-s3tests bench bench-peers"
	@echo "        scale scaling soak torture long"

setup:
	@deploy/setup build

setup-test:
	@deploy/setup test
	@tests/tidy/venv

$(BUILD)/build.ninja: setup
	@[ -f $@ ] || cmake -S . -B $(BUILD) -G Ninja >/dev/null

$(BUILD_ASAN)/build.ninja: setup-test
	@[ -f $@ ] || cmake -S . -B $(BUILD_ASAN) -G Ninja -DASAN=ON -DCMAKE_BUILD_TYPE=Debug >/dev/null

build: $(BUILD)/build.ninja
	@ninja --quiet -C $(BUILD) -j $(JOBS) kist

serve: build
	@exec $(BUILD)/kist serve --data $(DATA)

# Unit tests and the checks that read the tree, under ASan and UBSan.
test-unit: $(BUILD_ASAN)/build.ninja
	@ninja --quiet -C $(BUILD_ASAN) -j $(JOBS)
	@$(TALLY) ctest $(BUILD_ASAN) $(JOBS)

# Whole clusters in one thread on virtual time: every seed is one run.
test-sim: $(BUILD_ASAN)/build.ninja
	@$(TALLY) sim $(BUILD_ASAN) $(JOBS) $(SEED_START) $(SEEDS)

# Black box: boto3, aws-cli and raw sockets against build/kist.
test-s3: setup-test build
	@$(TALLY) run tests/s3/run $(BUILD)/kist

test-clients: setup-test build
	@$(TALLY) run tests/clients/run $(BUILD)/kist

test-cluster: setup-test build
	@$(TALLY) run tests/cluster/run $(BUILD)/kist

test-fuzz: setup-test
	@$(TALLY) fuzz $(BUILD_FUZZ) $(JOBS) $(RUNS) "$(TARGET)" "$(FUZZ_SECONDS)"

test-s3tests: setup-test build
	@$(TALLY) run tests/s3/s3tests $(BUILD)/kist "$(DIR)"

tidy:
	@python3 tests/tidy/tidy.py

lint: setup-test $(BUILD)/build.ninja
	@$(TALLY) run tests/tidy/lint $(BUILD)

# At most 15 minutes on two cores.
test: setup-test build
	@$(TALLY) all \
		"tidy=python3 tests/tidy/tidy.py" \
		"unit=$(MAKE) --no-print-directory test-unit" \
		"sim=$(MAKE) --no-print-directory test-sim SEEDS=$(SEEDS)" \
		"fuzz=$(MAKE) --no-print-directory test-fuzz RUNS=20000" \
		"s3=KIST_TEST_TIER=quick $(MAKE) --no-print-directory test-s3"

ci: setup-test build
	@$(TALLY) all \
		"lint=$(MAKE) --no-print-directory lint" \
		"s3=$(MAKE) --no-print-directory test-s3" \
		"clients=KIST_TEST_TIER=ci $(MAKE) --no-print-directory test-clients" \
		"cluster=KIST_TEST_TIER=ci $(MAKE) --no-print-directory test-cluster"

# Hours; each part writes its result to docs/results and is not repeated once it is there for this commit.
long: setup-test build
	@KIST_TEST_TIER=long $(TALLY) resumable docs/results \
		"sim=$(MAKE) --no-print-directory test-sim SEEDS=5000" \
		"fuzz=$(MAKE) --no-print-directory test-fuzz FUZZ_SECONDS=1800" \
		"s3=$(MAKE) --no-print-directory test-s3" \
		"clients=$(MAKE) --no-print-directory test-clients" \
		"cluster=$(MAKE) --no-print-directory test-cluster" \
		"torture=$(MAKE) --no-print-directory torture" \
		"soak=$(MAKE) --no-print-directory soak" \
		"bench=$(MAKE) --no-print-directory bench-peers"

bench: build
	@$(TALLY) run tests/bench/run $(BUILD)/kist

bench-peers: build
	@$(TALLY) run tests/bench/peers $(BUILD)/kist

scale: build
	@$(TALLY) run tests/bench/scale $(BUILD)/kist

scaling: build
	@$(TALLY) run tests/bench/scaling $(BUILD)/kist

soak: build
	@MINUTES=$(or $(MINUTES),20) $(TALLY) run tests/bench/soak $(BUILD)/kist

# kill -9 in a loop under mixed writes; what was acknowledged must read back.
torture: setup-test build
	@$(TALLY) run tests/cluster/torture $(BUILD)/kist

docs: build
	@$(BUILD)/kist docs write
	@echo "1 passed, 0 failed"

clean:
	rm -rf $(BUILD)
