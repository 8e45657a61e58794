# make help        this list
# make demo        run a live page and the example API on ADDR (127.0.0.1:8080), in memory or on REDIS_URL
# make test        run all tests; they start their own redis-server, nginx, HAProxy and Caddy processes
# make test-short  tests for the work in between: none of clusters, faults, attacks or docs
# make test-metrics  hold the dashboard and the alerts to the metrics, by promtool
# make test-newest  the tests, without the race detector, with the newest of what sash is built on
# make histories   random histories of the stores and of regions, 3 and 20 times as many as make test goes through
# make test-browser  drive the pages of the demo and of sash replay in a real Chromium
# make screenshots   take the README's pictures of these pages
# make lint        gofmt, at most 120 columns, go vet, staticcheck, gosec, go mod tidy
# make audit       known vulnerabilities of what sash is built on; asks vuln.go.dev, so it needs the network
# make bench       measure sash side by side with other libraries: one table
# make bench-http  measure whole HTTP servers with and without limiters by wrk: a table after about 4 minutes
# make benchmarks  run every benchmark of sash alone
# make fuzz        run every fuzz target for FUZZTIME each, FUZZJOBS at a time
# make mutants     change an operator, a number or a statement at a time, and print the changes that no test notices
# make attack      attack servers of the five frameworks over sockets, in memory, on Redis and on one that lies
# make rehearse    try what a go get of VERSION (v0.1.1) brings, and its API against BASE's (v0.1.0); publishes nothing
# make versions    write VERSION into the go.mod files, before the tags of a release
# make prove       try every claim at length, in less than half an hour, and write prove/README.md

# Each module is tried with the versions that its own go.mod requires. go.work is for editors.
export GOWORK := off

# The modules beside the root: what a program may require, and what only this repository runs.
ADAPTERS := chi gin echo echo5
EXTRAS   := extra/sashprom extra/sashotel extra/sashgrpc
MODULES  := $(ADAPTERS) $(EXTRAS) examples examples/plans headers/sfvtest extra/grafana examples/demo/browsertest prove prove/mutate prove/rehearse bench

ADDR     ?= 127.0.0.1:8080
FUZZTIME ?= 30s
FUZZJOBS ?= 1

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# .ci/gosec.json lists what gosec finds that is meant so, and why.
GOSEC := github.com/securego/gosec/v2/cmd/gosec@v2.29.0 -quiet -conf $(CURDIR)/.ci/gosec.json

# Files that begin with this line hold tests that compute for long in one goroutine, or repeat with another size what
# runs with the race detector. It has nothing to find in them and makes them 4 to 15 times as slow: with it go test leaves
# these files out, and make test runs their tests without it. make test-short leaves them out too, and files that begin
# with //go:build !short: their tests start clusters, break servers, or repeat on another server what runs on one.
SINGLE_FILES = $(shell grep -rlx --include='*_test.go' '//go:build !race && !short' .)
SINGLE = ^($(shell sed -n 's/^func \(Test[A-Za-z0-9_]*\).*/\1/p' $(SINGLE_FILES) | paste -sd '|' -))$$

# The race detector needs a C compiler; without one the tests run without it.
RACE := $(shell command -v "$$(go env CC | cut -d' ' -f1)" >/dev/null 2>&1 && test "$$(go env CGO_ENABLED)" = 1 && echo -race)

.PHONY: help demo test test-race test-single test-modules test-short short-root short-extra test-newest test-metrics test-browser screenshots histories lint audit bench bench-http benchmarks fuzz mutants attack rehearse versions prove redis lua prometheus proxies

# The first target, so that make alone is make help.
help:
	@sed -n 's/^# \(make .*\)/\1/p' $(firstword $(MAKEFILE_LIST))

demo:
	@test -x .build/demo || echo "Compiling the demo: half a minute to two minutes the first time, then at once."
	@go -C examples build -o ../.build/demo ./demo
	@exec .build/demo -addr $(ADDR) $(if $(REDIS_URL),-redis "$(REDIS_URL)")

# The three parts run at the same time, and so do four packages, and four tests of a package: many of them wait.
# make lint vets, and nothing here debugs: without both, a fresh clone is tested in six minutes instead of seven.
test: export GOFLAGS := $(shell go env GOFLAGS) -vet=off -ldflags=-w
test: redis lua proxies
	@echo "All tests take about 3 minutes on two cores$(if $(RACE),, without the race detector), and longer where there is nothing in Go's cache."
	@$(MAKE) --no-print-directory -j3 test-race $(if $(RACE),test-single) test-modules

test-race:
	GORACE=atexit_sleep_ms=100 go test $(RACE) -shuffle=on -p 4 -parallel 4 -timeout 30m ./...

test-single:
	go test -shuffle=on -parallel 4 -run '$(SINGLE)' $(sort $(dir $(SINGLE_FILES)))

test-modules:
	for m in $(ADAPTERS) $(EXTRAS) examples examples/plans; do (cd $$m && go test $(RACE) -shuffle=on -parallel 4 -timeout 30m ./...) || exit 1; done
	cd headers/sfvtest && go test ./...
	cd bench && go test -count=1 ./... # Go's cache does not see that docs/comparison.md changed
	cd prove/mutate && go test -count=1 ./... # nor that other code did

# What is left out besides computes for long, drives whole programs, or compiles the pages of docs. Go does not repeat
# the tests of a package that has not changed.
test-short: redis lua
	@echo "These tests take less than half a minute on two cores that have nothing else to do, and longer where there is nothing in Go's cache."
	@$(MAKE) --no-print-directory -j2 short-root short-extra

short-root:
	go test -tags short -p 4 -parallel 16 $$(go list ./... | grep -vE '/(docs|examples|examples/attack|internal/redistest)$$')

short-extra:
	for m in $(ADAPTERS) $(EXTRAS); do (cd $$m && go test ./...) || exit 1; done

# Each go.mod requires the lowest versions that pass, so that a program keeps its own. These are the newest. The server is
# Valkey where it is there.
NEWEST      := github.com/alicebob/miniredis/v2@v2.40.0 github.com/redis/go-redis/v9@v9.23.0
NEWEST_chi  := github.com/go-chi/chi/v5@v5.5.0
NEWEST_gin  := github.com/gin-gonic/gin@v1.12.0
NEWEST_echo := github.com/labstack/echo/v4@v4.16.0
NEWEST_echo5 := github.com/labstack/echo/v5@v5.4.4

test-newest: export SASH_REDIS := $(or $(SASH_REDIS),$(shell command -v valkey-server))
test-newest: redis lua proxies
	@mkdir -p .build
	@$(foreach m,$(ADAPTERS),(cd $m && cp go.mod ../.build/$m.mod && cp go.sum ../.build/$m.sum && \
		go get -modfile=../.build/$m.mod $(NEWEST_$m) && go test -modfile=../.build/$m.mod ./...) && ) true
	@cp go.mod .build/root.mod; cp go.sum .build/root.sum
	go get -modfile=.build/root.mod $(NEWEST)
	go test -modfile=.build/root.mod -parallel 4 -skip '$(SINGLE)' ./...

# HISTORYFLAGS='-seed 10000' goes through other histories of the regions. TestStrictHistories prints the seed of one
# that fails: go test -run TestStrictHistories ./extra/regions -args -seed 10001 repeats that one, but for the order
# of what happens at the same moment.
histories: redis lua
	go test -count=1 -timeout 30m -v -run '^TestScriptAgainstModel$$' ./core/redisstore/internal/script -args -long
	go test $(RACE) -count=1 -timeout 30m -v -run '^TestNobodyIsAdmittedAboveItsLimit$$' ./core/memstore -args -long
	go test -count=1 -timeout 30m -v -run '^Test(Strict|Eventual)Histories' ./extra/regions -args -long $(HISTORYFLAGS)

test-metrics: prometheus
	cd extra/grafana && go test -count=1 ./...

# It takes about a minute.
test-browser: redis
	@./.ci/install chromium chromium
	cd examples/demo/browsertest && go test -count=1 -timeout 4m .

screenshots: redis
	@./.ci/install chromium chromium
	cd examples/demo/browsertest && go test -count=1 -run '^Test(Pictures|ReplayPage)$$' . -args -pictures $(CURDIR)/docs/images

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	@! LC_ALL=C.UTF-8 grep -rnE '^.{121}' --include='*.go' . || { echo "These lines have more than 120 columns."; exit 1; }
	for m in . $(MODULES); do (cd $$m && go vet ./... && go run $(STATICCHECK) ./... && go mod tidy -diff) || exit 1; done
	for m in . $(ADAPTERS) $(EXTRAS) examples examples/plans bench; do (cd $$m && go run $(GOSEC) ./...) || exit 1; done

audit:
	for m in . $(ADAPTERS) $(EXTRAS) examples examples/plans bench; do (cd $$m && go run $(GOVULNCHECK) ./...) || exit 1; done

bench: redis
	cd bench && go run ./cmd/compare

# HTTPFLAGS are flags of the command, such as HTTPFLAGS='-rounds 1 -slice 1s'.
bench-http: redis
	@./.ci/install wrk wrk
	cd bench && go run ./cmd/http $(HTTPFLAGS)

benchmarks: redis
	for m in . $(EXTRAS); do (cd $$m && go test -run '^$$' -bench . -benchmem ./...) || exit 1; done

# FUZZJOBS targets run at the same time, once all are listed. A new interesting input may be made smaller 10 times. By
# default the fuzzer tries that for up to a minute, in which it does nothing else.
fuzz:
	@targets=$$(for p in $$(go list ./...); do go test -list '^Fuzz' $$p | sed -n "s#^Fuzz#$$p &#p"; done); echo "$$targets" | \
		xargs -P $(FUZZJOBS) -L 1 sh -c 'out=$$(go test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(FUZZTIME) \
			-fuzzminimizetime 10x -parallel 2 $$0 2>&1) || { echo "$$out"; exit 1; }; \
			echo "$$1: $$(echo "$$out" | sed -n "s/.*execs: \([0-9]*\).*/\1/p" | tail -n 1) inputs"'

# It takes an hour, and goes on where it was stopped. MUTANTFLAGS='-pkg core/internal/window -sample 50' takes a minute.
mutants: redis lua
	cd prove/mutate && go build -o $(CURDIR)/.build/mutate .
	.build/mutate $(MUTANTFLAGS)

attack: redis
	cd examples && go test -count=1 -v -run '^Test(Attack|WeakServers)$$' ./attack

# A version that has a tag is rehearsed as it is tagged. REHEARSEFLAGS=-update writes prove/rehearse/graph.txt.
rehearse:
	cd prove/rehearse && go run . -base $(or $(BASE),v0.1.0) -version $(or $(VERSION),v0.1.1) $(REHEARSEFLAGS) $(NEWEST) $(NEWEST_gin)

versions:
	cd prove/rehearse && go run . -write $(or $(VERSION),$(error VERSION is needed, such as VERSION=v0.1.0))

# PROVEFLAGS are flags of the command, such as PROVEFLAGS=-short.
prove: redis lua
	cd prove && go run . $(PROVEFLAGS)

# SASH_REDIS=/path/of/valkey-server runs the tests on another server.
redis:
	@./.ci/install $(or $(SASH_REDIS),redis-server) redis-server
	@PATH=$$PATH:/usr/sbin $(or $(SASH_REDIS),redis-server) --version

lua:
	@./.ci/install lua5.4 lua5.4

prometheus:
	@./.ci/install promtool prometheus

proxies:
	@./.ci/install nginx nginx
	@./.ci/install haproxy haproxy
	@./.ci/install caddy caddy
	@./.ci/install curl curl
