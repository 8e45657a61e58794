-- The parts of decide.lua and return.lua for a bucket; bucket.go describes its value.

-- A function that returns the quotient and the remainder of e * rate / window, for numbers of which
-- only the product is above 2^53: e is below 100 windows of 2^45 at most, and the rate is 2^40 at most. It divides as on
-- paper, a digit of 7 bits of the rate at a time, so that every number stays below 255 * 2^45.
{{define "bucket share" -}}
local function share(e, rate, window)
  local laps, units, part, scale = math.floor(e / window), 0, 0, 34359738368
  e = e - laps * window
  local all = laps * rate
  for _ = 1, 6 do
    local digit = math.floor(rate / scale)
    rate, scale = rate - digit * scale, scale / 128
    local n = part * 128 + e * digit
    local own = math.floor(n / window)
    units, part = units * 128 + own, n - own * window
  end
  return all + units, part
end
{{- end}}

{{define "bucket find" -}}
local at{{.N}}, units{{.N}}, part{{.N}}, rate{{.N}}, value{{.N}} = -1, 0, 0, 0, try('GET', {{.Key}})
if not value{{.N}} then
  value{{.N}} = '-'
elseif #value{{.N}} ~= 24 then
  {{template "foreign" .}}
else
  local g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, a, b, c, d, e, f = byte(value{{.N}}, 1, 24)
  units{{.N}} = ((((g * 256 + h) * 256 + i) * 256 + j) * 256 + k) * 256 + l
  part{{.N}} = ((((m * 256 + n) * 256 + o) * 256 + p) * 256 + q) * 256 + r
  rate{{.N}} = ((((s * 256 + t) * 256 + u) * 256 + v) * 256 + w) * 256 + x
  local {{template "age" "age"}}
  at{{.N}} = now - age
  if units{{.N}} + part{{.N}} == 0 or part{{.N}} >= window{{.N}} or rate{{.N}} == 0 or rate{{.N}} > 1099511627776
    or units{{.N}} > 1099511627776 or units{{.N}} >= 100 * rate{{.N}} then
    broken = {{.Key}}
  elseif at{{.N}} > stamp then
    if at{{.N}} - now > {{.Allowance}} then
      {{template "six" .}}
      at{{.N}} = now
      if part{{.N}} > 0 then units{{.N}}, part{{.N}} = math.min(units{{.N}} + 1, 1099511627776), 0 end
      rate{{.N}} = math.max(limit{{.N}}, math.floor((units{{.N}} + 100) / 100))
      value{{.N}} = six(units{{.N}}) .. six(0) .. six(rate{{.N}}) .. six(now % 281474976710656)
      if charge then
        call('DEL', {{.Key}})
        local ttl = (math.max(units{{.N}} + 1, rate{{.N}}) / rate{{.N}} + 0.5) * window{{.N}}
        call('SET', {{.Key}}, value{{.N}}, 'PX', string.format('%.0f', ttl / 1000 + 1000))
        written = true
      end
    else
      stamp = at{{.N}}
    end
  end
end
{{end}}

{{define "bucket judge" -}}
if stamp > at{{.N}} and units{{.N}} + part{{.N}} > 0 then
  local elapsed, back, rest = stamp - at{{.N}}, units{{.N}} + 1, 0
  if elapsed <= 4503599627370496 / rate{{.N}} then -- mostly the product is exact
    rest = elapsed * rate{{.N}}
    back = math.floor(rest / window{{.N}})
    rest = rest - back * window{{.N}}
  elseif elapsed < 100 * window{{.N}} then
    {{template "bucket share" "share"}}
    back, rest = share(elapsed, rate{{.N}}, window{{.N}})
  end
  units{{.N}}, part{{.N}} = units{{.N}} - back, part{{.N}} - rest
  if part{{.N}} < 0 then units{{.N}}, part{{.N}} = units{{.N}} - 1, part{{.N}} + window{{.N}} end
  if units{{.N}} < 0 then units{{.N}}, part{{.N}} = 0, 0 end
end
if units{{.N}} + (part{{.N}} > 0 and 1 or 0) + cost > limit{{.N}} and cost > 0 then admitted = always end
{{end}}

{{define "bucket count" -}}
if not failed then
  local used, rate, set = units{{.N}} + cost, limit{{.N}}, nil
  if used > 1099511627776 then used = 1099511627776 end
  if used >= 100 * rate then rate = math.floor((used + 100) / 100) end -- a debt is paid in 100 windows
  if used < 256 and part{{.N}} < 4294967296 and rate == rate{{.N}} then -- mostly
    local a, b, c, d, e, f
    local low = stamp % 281474976710656
    {{template "bytes" "low"}}
    set = string.sub(value{{.N}}, 13, 18) .. char(a, b, c, d, e, f)
    low = part{{.N}}
    f = low % 256; low = (low - f) / 256
    e = low % 256; low = (low - e) / 256
    d = low % 256
    set = char(0, 0, 0, 0, 0, used, 0, 0, (low - d) / 256, d, e, f) .. set
  else
    {{template "six" .}}
    set = six(used) .. six(part{{.N}}) .. six(rate) .. six(stamp % 281474976710656)
  end
  if rate == rate{{.N}} and used <= rate and stamp - at{{.N}} <= stamp % (window{{.N}} / 2) then
    set = try('SETRANGE', {{.Key}}, '0', set)
  else
    -- A TTL that is renewed in each half of a window, and lasts for half of one longer than all takes to come back.
    local ttl = (math.max(used + 1, rate) / rate + 0.5) * window{{.N}} + stamp - now
    set = try('SET', {{.Key}}, set, 'PX', string.format('%.0f', ttl / 1000 + 1000))
  end
  if set ~= 24 and set.err then
    {{template "failed" "set"}}
  end
  written = true
end
{{end}}

{{define "bucket reply"}}.. value{{.N}}{{end}}

{{define "bucket return"}}
{{template "bucket share" "share"}}
-- Takes units back from a bucket, and returns how many count no more.
local function bucket(key, window)
  local value = try('GET', key)
  if not value then return units end
  if type(value) ~= 'string' or #value ~= 24 then return 0 end
  local held, part = number(value, 1, 6), number(value, 7, 12)
  local rate, last = number(value, 13, 18), stamp(value, 19)
  if held + part == 0 or part >= window or rate == 0 or rate > 1099511627776 or held >= 100 * rate then return 0 end
  local age, back, rest = math.max(now - last, 0), 0, 0
  if age >= 100 * window then return units end
  back, rest = share(age, rate, window)
  if held < back or held == back and part <= rest then return units end
  if at > last then return 0 end
  if at <= last - window then return units end
  back = share(last - at, rate, window)
  local returned = math.min(units, held + (part > 0 and 1 or 0) + back)
  held = held - units
  if held < 0 or held + part == 0 then
    call('DEL', key)
    return returned
  end
  -- The TTL first, so that a full server takes the next command.
  local ttl = math.max((math.max(held + 1, rate) / rate + 0.5) * window - now + last, 0)
  call('PEXPIRE', key, string.format('%.0f', ttl / 1000 + 1000))
  call('SETRANGE', key, '0', bytes(held, 6))
  return returned
end
{{end}}
