-- The parts of decide.lua and return.lua for a bucket; bucket.go describes its value.

-- A function that returns the quotient and the remainder of a * b / c, where the product may be above 2^53. b is below
-- 2^42, and c is 2^45 at most. It is a long division by digits of b with 7 bits, so numbers stay below 255 * 2^45.
{{define "bucket mulDiv" -}}
local function mulDiv(a, b, c)
  local laps, whole, rest, scale = math.floor(a / c), 0, 0, 34359738368
  a = a - laps * c
  local all = laps * b
  for _ = 1, 6 do
    local digit = math.floor(b / scale)
    b, scale = b - digit * scale, scale / 128
    local n = rest * 128 + a * digit
    local own = math.floor(n / c)
    whole, rest = whole * 128 + own, n - own * c
  end
  return all + whole, rest
end
{{- end}}

-- numerator returns the least k for which k / n is at least the fraction, in 2^-40; it may be n. used returns the
-- number of units that are owed, in whole or in part.
{{define "bucket used" -}}
{{template "bucket mulDiv" .}}
local function numerator(fraction, n)
  local whole, rest = mulDiv(fraction, n, 1099511627776)
  return rest > 0 and whole + 1 or whole
end

local function used(owed, fraction, limit, window)
  if owed / window * limit >= 1099511627776 then return 1099511627776 end
  local units, rest = mulDiv(owed, limit, window)
  return math.min(units + math.ceil((rest + numerator(fraction, limit)) / window), 1099511627776)
end
{{- end}}

{{define "bucket find" -}}
local at{{.N}}, owed{{.N}}, fraction{{.N}}, elapsed{{.N}}, value{{.N}} = -1, 0, 0, 0, try('GET', {{.Key}})
if not value{{.N}} then
  value{{.N}} = '-'
elseif #value{{.N}} ~= 24 then
  {{template "foreign" .}}
else
  local g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, a, b, c, d, e, f = byte(value{{.N}}, 1, 24)
  owed{{.N}} = (((((g * 256 + h) * 256 + i) * 256 + j) * 256 + k) * 256 + l) * 256 + m
  fraction{{.N}} = (((n * 256 + o) * 256 + p) * 256 + q) * 256 + r
  elapsed{{.N}} = ((((s * 256 + t) * 256 + u) * 256 + v) * 256 + w) * 256 + x
  local {{template "age" "age"}}
  at{{.N}} = now - age
  if owed{{.N}} + fraction{{.N}} == 0 or owed{{.N}} > 4503599627370496 then
    broken = {{.Key}}
  elseif at{{.N}} > stamp then
    if at{{.N}} - now > {{.AllowedLead}} then
      {{template "six" .}}
      {{template "bucket used" .}}
      local rest
      owed{{.N}} = used(owed{{.N}}, fraction{{.N}}, limit{{.N}}, window{{.N}})
      owed{{.N}}, rest = mulDiv(window{{.N}}, owed{{.N}}, limit{{.N}})
      fraction{{.N}}, elapsed{{.N}}, at{{.N}} = mulDiv(rest, 1099511627776, limit{{.N}}), 0, now
      if owed{{.N}} >= 4503599627370496 then owed{{.N}}, fraction{{.N}} = 4503599627370496, 0 end
      value{{.N}} = string.sub(six(fraction{{.N}}), 2) .. six(0) .. six(now % 281474976710656)
      value{{.N}} = char(math.floor(owed{{.N}} / 281474976710656)) .. six(owed{{.N}} % 281474976710656) .. value{{.N}}
      if counts then
        call('DEL', {{.Key}})
        call('SET', {{.Key}}, value{{.N}}, 'PX', string.format('%.0f', owed{{.N}} / 1000 + 1000))
        written = true
      end
    else
      stamp = at{{.N}}
    end
  end
end
{{end}}

{{define "bucket judge" -}}
if stamp > at{{.N}} then
  local passed = stamp - at{{.N}}
  owed{{.N}}, elapsed{{.N}} = owed{{.N}} - passed, math.min(elapsed{{.N}} + passed, 281474976710655)
  if owed{{.N}} < 0 or owed{{.N}} + fraction{{.N}} == 0 then owed{{.N}}, fraction{{.N}}, elapsed{{.N}} = 0, 0, 0 end
end
if cost > 0 then
  local whole, rest = 4503599627370496, 0
  if cost <= whole / window{{.N}} then -- mostly, and the product is exact
    rest = cost * window{{.N}}
    whole = math.floor(rest / limit{{.N}})
    rest = rest - whole * limit{{.N}}
  elseif window{{.N}} / limit{{.N}} * cost < 9007199254740992 then
    {{template "bucket mulDiv" .}}
    whole, rest = mulDiv(window{{.N}}, cost, limit{{.N}})
  end
  if fraction{{.N}} + rest > 0 then
    local exact = limit{{.N}} <= 4294967296 -- two steps of 20 bits are exact then
    if exact then
      local high = math.floor(fraction{{.N}} / 1048576)
      local low = (fraction{{.N}} - high * 1048576) * limit{{.N}}
      rest = rest + math.ceil((high * limit{{.N}} + math.ceil(low / 1048576)) / 1048576)
    else
      {{template "bucket used" .}}
      rest = rest + numerator(fraction{{.N}}, limit{{.N}})
    end
    if rest >= limit{{.N}} then whole, rest = whole + 1, rest - limit{{.N}} end
    if exact then
      local high = math.floor(rest * 1048576 / limit{{.N}})
      rest = rest * 1048576 - high * limit{{.N}}
      fraction{{.N}} = high * 1048576 + math.floor(rest * 1048576 / limit{{.N}})
    else
      {{template "bucket mulDiv" .}}
      fraction{{.N}} = mulDiv(rest, 1099511627776, limit{{.N}})
    end
  end
  owed{{.N}} = owed{{.N}} + whole
  if owed{{.N}} >= 4503599627370496 then owed{{.N}}, fraction{{.N}} = 4503599627370496, 0 end
  if owed{{.N}} + (fraction{{.N}} > 0 and 1 or 0) > window{{.N}} then admitted = charge end
end
{{end}}

{{define "bucket count" -}}
if not failed then
  local a, b, c, d, e, f
  local low = owed{{.N}} % 281474976710656
  local top = (owed{{.N}} - low) / 281474976710656
  {{template "bytes" "low"}}
  local owed = char(top, a, b, c, d, e, f)
  low = fraction{{.N}}
  {{template "bytes" "low"}}
  local fraction = char(b, c, d, e, f)
  low = elapsed{{.N}}
  {{template "bytes" "low"}}
  local elapsed = char(a, b, c, d, e, f)
  low = stamp % 281474976710656
  {{template "bytes" "low"}}
  local set = owed .. fraction .. elapsed .. char(a, b, c, d, e, f)
  set = try('SET', {{.Key}}, set, 'PX', string.format('%.0f', (owed{{.N}} + stamp - now) / 1000 + 1000))
  if set.err then
    {{template "failed" "set"}}
  end
  written = true
end
{{end}}

{{define "bucket reply"}}.. value{{.N}}{{end}}

{{define "bucket return"}}
{{template "bucket used" .}}
-- Takes units back from a bucket, and returns the number of units that no longer count.
local function bucket(key, window, limit)
  local value = try('GET', key)
  if not value then return units end
  if type(value) ~= 'string' or #value ~= 24 then return 0 end
  local owed, fraction, elapsed = number(value, 1, 7), number(value, 8, 12), number(value, 13, 18)
  local last = stamp(value, 19)
  if owed + fraction == 0 then return 0 end
  local age, passed = math.max(now - last, 0), last - at
  if owed < age or owed == age and fraction == 0 then return units end
  if passed < 0 then return 0 end

  -- Returns the debt of n units: microseconds, and the rest in parts of the limit.
  local function debt(n)
    if window / limit * n >= 4503599627370496 then return 4503599627370496, 0 end
    return mulDiv(window, n, limit)
  end

  local whole, own = debt(left)
  local returned = math.min(units, used(owed + passed, fraction, limit, window))
  if whole > 2251799813685248 then -- the debt may have been cut
    owed, returned = math.min(owed, window), units
  elseif owed > 2251799813685248 then
    return 0
  elseif whole < passed or whole == passed and own == 0 then -- time has paid for it
    return returned
  else
    local paid, rest = debt(left - units)
    local most = math.min(passed, elapsed)
    if paid < most then
      elapsed = elapsed - most + paid + (rest > 0 and 1 or 0)
      paid, rest = most, 0
    end
    owed, rest = owed - whole + paid, numerator(fraction, limit) - own + rest
    local more = math.floor(rest / limit)
    owed, rest = owed + more, rest - more * limit
    if owed < 0 or owed + rest == 0 then
      call('DEL', key)
      return returned
    end
    fraction = mulDiv(rest, 1099511627776, limit)
  end
  local ttl = string.format('%.0f', math.max(owed + last - now, 0) / 1000 + 1000)
  call('PEXPIRE', key, ttl) -- so that a full server takes the next command
  call('SET', key, bytes(owed, 7) .. bytes(fraction, 5) .. bytes(elapsed, 6) .. string.sub(value, 19), 'PX', ttl)
  return returned
end
{{end}}
