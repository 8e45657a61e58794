#!/usr/bin/env bash
# Usage: examples/traffic.sh [SECONDS]     (default 190: three full minutes)
# Drives four example servers that share one Redis, and then one in memory, with
# wrk at full speed from eight addresses and two API keys, across the windows'
# boundaries, and checks the log of every decision.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-190}
./.ci/install redis-server redis-server
./.ci/install wrk wrk
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

go build -o "$work/server" ./examples/nethttp
go build -o "$work/checklog" ./examples/internal/checklog
# Every request is the next client's.
cat > "$work/clients.lua" <<'LUA'
local n = 0
function request()
  n = n + 1
  local i = n % 10
  if i == 0 then return wrk.format("GET", "/api/data", { ["X-API-Key"] = "demo-key-1" }) end
  if i == 1 then return wrk.format("GET", "/api/data", { ["X-API-Key"] = "demo-key-2" }) end
  return wrk.format("GET", "/api/data", { ["X-Forwarded-For"] = "198.51.100." .. i })
end
LUA

# traffic NAME COUNT FLAGS...: COUNT servers under load, then their logs checked
traffic() {
	local name=$1 count=$2 servers=() loads=()
	shift 2
	for i in $(seq "$count"); do
		"$work/server" -addr "127.0.0.1:$((18080 + i))" -trust 127.0.0.0/8 -decisions "$work/$name.$i" "$@" 2>"$work/access" &
		servers+=($!)
	done
	for i in $(seq "$count"); do
		for _ in $(seq 100); do
			curl -sf "http://127.0.0.1:$((18080 + i))/health" >/dev/null && break
			sleep 0.1
		done
	done
	echo "== $name: $count servers, wrk for ${seconds}s on each"
	for i in $(seq "$count"); do
		wrk -t1 -c4 -d "${seconds}s" -s "$work/clients.lua" "http://127.0.0.1:$((18080 + i))" >"$work/wrk.$i" &
		loads+=($!)
	done
	wait "${loads[@]}"
	grep -h 'Requests/sec' "$work"/wrk.*
	kill -TERM "${servers[@]}"
	wait "${servers[@]}"
	"$work/checklog" "$work/$name".*
	rm -f "$work/$name".* "$work"/wrk.*
}

redis-server --port 18079 --save '' --dir "$work" >/dev/null &
redis=$!
until redis-cli -p 18079 ping >/dev/null 2>&1; do sleep 0.1; done
traffic redis 4 -redis redis://127.0.0.1:18079/0
kill $redis
traffic memory 1
