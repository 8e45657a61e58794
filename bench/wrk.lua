-- A script of wrk: requests of as many clients as its argument says, one after the
-- other in turn, and one line of JSON with the result. Times are in microseconds.
local requests, clients, next_client = {}, 0, 0

function init(args)
  clients = tonumber(args[1])
  for i = 0, clients - 1 do
    requests[i] = wrk.format("GET", nil, { ["X-Client"] = "client-" .. i })
  end
end

function request()
  local r = requests[next_client]
  next_client = (next_client + 1) % clients
  return r
end

function done(summary, latency, rates)
  local e = summary.errors
  io.write(string.format(
    'result {"Requests":%d,"Micros":%d,"Status":%d,"Connect":%d,"Read":%d,"Write":%d,"Timeout":%d,"P50":%d,"P99":%d}\n',
    summary.requests, summary.duration, e.status, e.connect, e.read, e.write, e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
