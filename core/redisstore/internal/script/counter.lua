-- The parts of decide.lua and return.lua for a counter; counter.go describes its value.

{{define "counter find" -}}
local start{{.N}}, previous{{.N}}, current{{.N}}, value{{.N}} = -1, 0, 0, try('GET', {{.Key}})
if not value{{.N}} then
  value{{.N}} = '-'
elseif #value{{.N}} ~= 18 then
  {{template "foreign" .}}
else
  local g, h, i, j, k, l, m, n, o, p, q, r, a, b, c, d, e, f = byte(value{{.N}}, 1, 18)
  previous{{.N}} = ((((g * 256 + h) * 256 + i) * 256 + j) * 256 + k) * 256 + l
  current{{.N}} = ((((m * 256 + n) * 256 + o) * 256 + p) * 256 + q) * 256 + r
  local {{template "age" "age"}}
  start{{.N}} = now - age
  if previous{{.N}} > 1099511628031 or current{{.N}} > 1099511628031 or start{{.N}} % window{{.N}} > 0 then
    broken = {{.Key}}
  elseif start{{.N}} > stamp then
    if start{{.N}} - now > {{.AllowedLead}} then
      {{template "six" .}}
      start{{.N}} = now - now % window{{.N}}
      current{{.N}} = math.min(previous{{.N}} + current{{.N}}, 1099511628031)
      previous{{.N}} = 0
      value{{.N}} = six(0) .. six(current{{.N}}) .. six(start{{.N}} % 281474976710656)
      if counts then
        call('DEL', {{.Key}})
        local ttl = string.format('%.0f', (2 * window{{.N}} - now + start{{.N}}) / 1000 + 1000)
        call('SET', {{.Key}}, value{{.N}}, 'PX', ttl)
        written = true
      end
    else
      stamp = start{{.N}}
    end
  end
end
{{end}}

{{define "counter judge" -}}
local elapsed{{.N}} = stamp - start{{.N}}
if elapsed{{.N}} >= window{{.N}} then
  previous{{.N}}, current{{.N}} = elapsed{{.N}} < 2 * window{{.N}} and current{{.N}} or 0, 0
  elapsed{{.N}} = stamp % window{{.N}}
end
-- Mostly there is room even for both windows at full weight.
if previous{{.N}} + current{{.N}} + cost > limit{{.N}} and cost > 0
  and previous{{.N}} * ((window{{.N}} - elapsed{{.N}}) / window{{.N}}) >= limit{{.N}} - current{{.N}} - cost + 1 then
  admitted = charge
end
{{end}}

{{define "counter count" -}}
if not failed then
  local windowStart, set = stamp - elapsed{{.N}}, nil
  local last = current{{.N}} % 256 + cost -- mostly no other byte changes
  if windowStart == start{{.N}} and last < 256 then
    set = try('SETRANGE', {{.Key}}, '11', char(last))
  end
  if set ~= 18 and type(set) ~= 'table' then -- also where a clock that stepped back has let the key expire meanwhile
    {{template "six" .}}
    -- Of a charge: no limit can tell of more, and nothing is added to that last byte.
    local own = six(math.min(current{{.N}} + cost, 1099511628031))
    -- Needed until the window after this one is over.
    local ttl = string.format('%.0f', (2 * window{{.N}} - elapsed{{.N}} + stamp - now) / 1000 + 1000)
    set = try('SET', {{.Key}}, six(previous{{.N}}) .. own .. six(windowStart % 281474976710656), 'PX', ttl)
  end
  if set ~= 18 and type(set) == 'table' and set.err then
    {{template "failed" "set"}}
  end
  written = true
end
{{end}}

{{define "counter reply"}}.. value{{.N}}{{end}}

{{define "counter return"}}
-- Takes units back from a counter, and returns the number of units that no longer count.
local function counter(key, window)
  local value = try('GET', key)
  if not value then return units end
  if type(value) ~= 'string' or #value ~= 18 then return 0 end
  local own = at - at % window -- when the fixed window of the request began
  local windowStart = stamp(value, 13)
  local spent = number(value, 7, 12) == 0 and (now - windowStart >= window or number(value, 1, 6) == 0)
  if spent or own + 2 * window <= math.max(now, windowStart) or windowStart + 2 * window <= now then return units end
  if windowStart ~= own and windowStart ~= own + window then return 0 end
  local first = windowStart == own and 6 or 0
  local count = number(value, first + 1, first + 6)
  local returned = math.min(count, units)
  local ttl = string.format('%.0f', (2 * window - now + windowStart) / 1000 + 1000)
  call('PEXPIRE', key, ttl) -- so that a full server takes the next command
  call('SET', key, string.sub(value, 1, first) .. bytes(count - returned, 6) .. string.sub(value, first + 7), 'PX', ttl)
  return returned
end
{{end}}
