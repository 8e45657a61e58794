-- The parts of decide.lua and return.lua for a log; log.go describes its entries.

-- Once in a script.
{{define "log script"}}
{{if .Inline}}
local encoded, a, b, c, d, e, f -- a stamp and its bytes: mostly all requests have the same stamp
{{end}}
{{end}}

-- Once for each request.
{{define "log request"}}
local text, textAge, textTotal -- of the log before: the newest entries of a rule's logs are mostly the same
{{end}}

{{define "log find" -}}
-- The newest entry's stamp and total, and the number of the oldest entry that counts.
local at{{.N}}, total{{.N}}, first{{.N}} = nil, 0, 0
local value{{.N}}, oldest{{.N}} = try('LINDEX', {{.Key}}, '-1'), ''
do
  local units = 0
  if not value{{.N}} then
    value{{.N}} = ''
  elseif #value{{.N}} ~= 9 and #value{{.N}} ~= 12 then
    {{template "foreign" .}}
  else
    {{if .Repeated}}if value{{.N}} ~= text then{{end}}
      local a, b, c, d, e, f, t, u, v = byte(value{{.N}}, 1, 9)
      {{if .Repeated}}text = value{{.N}}{{end}}
      textTotal = (t * 256 + u) * 256 + v
      {{template "age" "textAge"}}
    {{if .Repeated}}end{{end}}
    local age = textAge
    at{{.N}}, total{{.N}} = now - age, textTotal
    local far -- ahead of TIME
    if at{{.N}} > stamp then
      far = at{{.N}} - now > {{.AllowedLead}}
      if not far then stamp = at{{.N}} end
    end
    if total{{.N}} >= 1048576 then
      local total = total{{.N}} % 1048576
      first{{.N}}, total{{.N}} = (total{{.N}} - total) / 1048576, total
    end
    if age >= window{{.N}} then
      value{{.N}} = ''
    elseif first{{.N}} > 8 then
      broken = {{.Key}}
    else
      local i, own, before = first{{.N}}, nil, nil -- the oldest's cost, and the total before it
      repeat
        oldest{{.N}} = call('LINDEX', {{.Key}}, i == 0 and '0' or char(48 + i))
        if not oldest{{.N}} or #oldest{{.N}} ~= 9 and #oldest{{.N}} ~= 12 then
          broken, oldest{{.N}} = {{.Key}}, value{{.N}}
        end
        -- New variables: Lua moves results to old ones one by one.
        local a, b, c, d, e, f, t, u, v, x, y, z = byte(oldest{{.N}}, 1, 12)
        {{template "age" "age"}}
        own = z and (x * 256 + y) * 256 + z or 1
        before = (t * 256 + u) * 256 + v - own
        i = i + 1
      until age < window{{.N}} or i == first{{.N}} + 2
      local expiring = '-'
      first{{.N}}, units = i - 1, (total{{.N}} - before) % 1048576
      if far or age >= window{{.N}} or units + cost > limit{{.N}} + own and cost > 0 and cost <= limit{{.N}}
        or charge and units + cost > 1000000 then
        {{template "log search" .}}
      end
      if age < textAge or units == 0 then broken = {{.Key}} end -- no log has that
      if expiring ~= '-' or #value{{.N}} ~= 9 or #oldest{{.N}} ~= 9 then
        value{{.N}} = (#value{{.N}} == 9 and 'S' or 'L') .. value{{.N}}
        oldest{{.N}} = (#oldest{{.N}} == 9 and 'S' or 'L') .. oldest{{.N}} .. expiring
      end
    end
  end
  if units + cost > limit{{.N}} and cost > 0 then admitted = charge end
end
{{end}}

-- The rest of "log find" where two entries at least have expired, where more than the oldest must expire, where the
-- newest is too far ahead, or where a charge finds no room.
{{define "log search" -}}
local last = call('LLEN', {{.Key}}) - 1
first{{.N}} = math.floor(first{{.N}}) -- Lua 5.4 writes a float as 10.0

-- Returns the age of the i-th entry, from 0, the total before it, its cost and its text.
local function look(i)
  local entry = call('LINDEX', {{.Key}}, i)
  if not entry or #entry ~= 9 and #entry ~= 12 then
    broken = {{.Key}}
    return 0, 0, 1, value{{.N}}
  end
  local a, b, c, d, e, f, t, u, v, x, y, z = byte(entry, 1, 12)
  local {{template "age" "age"}}
  local own = z and (x * 256 + y) * 256 + z or 1
  return age, (t * 256 + u) * 256 + v - own, own, entry
end

-- Returns the least i in [low, high] for which holds is true, as it is for high.
local function search(low, high, holds)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if holds(middle) then high = middle else low = middle + 1 end
  end
  return low
end

if age >= window{{.N}} then
  -- Mostly few have: the search begins at the old end.
  local low = first{{.N}} + 1
  local high = low
  while high < last and look(high) >= window{{.N}} do low, high = high + 1, 2 * high + 1 end
  if high > last then high = last end
  first{{.N}} = search(low, high, function(i) return look(i) < window{{.N}} end)
  age, before, own, oldest{{.N}} = look(first{{.N}})
  units = (total{{.N}} - before) % 1048576
end
if far then
  {{template "six" .}}
  at{{.N}}, total{{.N}}, first{{.N}}, own = now, units, 0, units
  oldest{{.N}} = string.sub(six(units), 4)
  oldest{{.N}} = six(now % 281474976710656) .. oldest{{.N}} .. oldest{{.N}}
  value{{.N}} = oldest{{.N}}
  if counts then
    call('DEL', {{.Key}})
    call('RPUSH', {{.Key}}, value{{.N}})
    call('PEXPIRE', {{.Key}}, string.format('%.0f', window{{.N}} * 1.5 / 1000 + 1000))
    written = true
  end
end
local excess = units + cost - limit{{.N}}
if excess > own and excess <= units and cost > 0 then
  local function holds(i)
    local _, total, own = look(i)
    return (total - before + own) % 1048576 >= excess
  end
  local low, high = first{{.N}} + 1, last
  if first{{.N}} + excess - 1 < high then high = first{{.N}} + excess - 1 end
  -- Where every cost is 1 it is the last that comes into question.
  if high > low and not holds(high - 1) then low = high end
  local left, _, _, entry = look(search(low, high, holds))
  if left > age or left < textAge then broken = {{.Key}} end
  expiring = (#entry == 9 and 'S' or 'L') .. entry
end
if charge and units + cost > 1000000 then
  crowded = crowded or {}
  crowded[{{.N}}] = math.max(1, 1000000 - cost) -- no limit can tell of more; a unit too many does no harm
end
{{end}}

-- Once for each request that is counted.
{{define "log counting"}}
{{if .Inline}}
if stamp ~= encoded then
  encoded = stamp
{{else}}
local a, b, c, d, e, f
do
{{end}}
  local low = stamp % 281474976710656
  {{template "bytes" "low"}}
end
local entry, ending -- of the log before: logs of a rule are mostly in step
local units = cost
if charge and units > 1000000 then units = 1000000 end
{{end}}

{{define "log count" -}}
if not failed then
  local t
  if crowded and crowded[{{.N}}] then
    -- What is counted becomes one entry, of the charge's time.
    {{template "six" .}}
    local own = string.sub(six(crowded[{{.N}}]), 4)
    call('DEL', {{.Key}})
    call('RPUSH', {{.Key}}, six(stamp % 281474976710656) .. own .. own)
    at{{.N}}, total{{.N}}, first{{.N}} = nil, crowded[{{.N}}], 0
  end
  if value{{.N}} == '' then -- nothing counts: the total may begin anywhere
    t = (ending or total{{.N}} + units) % 1048576
  else
    t = (total{{.N}} + units) % 1048576 + (first{{.N}} > 8 and 0 or first{{.N}} * 1048576)
  end
  {{if .Repeated}}
  if t ~= ending then
    ending = t
  {{end}}
    local v = t % 256; t = (t - v) / 256
    local u = t % 256; t = (t - u) / 256
    if units == 1 then
      entry = char(a, b, c, d, e, f, t, u, v)
    else
      local z = units % 256; local x = (units - z) / 256
      local y = x % 256; x = (x - y) / 256
      entry = char(a, b, c, d, e, f, t, u, v, x, y, z)
    end
  {{if .Repeated}}end{{end}}
  local pushed = try('RPUSH', {{.Key}}, entry)
  if type(pushed) == 'table' then
    {{template "failed" "pushed"}}
  else
    written = true
    if value{{.N}} == '' then
      if at{{.N}} then call('LTRIM', {{.Key}}, '-1', '-1') end
    elseif pushed == 1 then -- a clock that stepped back has let the key expire meanwhile: nothing of it is dropped
      call('LSET', {{.Key}}, '0', string.sub(entry, 1, 6) .. char(byte(entry, 7) % 16) .. string.sub(entry, 8))
      at{{.N}} = nil
    elseif first{{.N}} > 8 then
      call('LTRIM', {{.Key}}, first{{.N}} == 9 and '9' or first{{.N}}, '-1')
    end
    -- A TTL that is renewed in each half of a window, and lasts for three halves, outlives every entry.
    if not at{{.N}} or stamp - at{{.N}} > stamp % (window{{.N}} / 2) then
      call('PEXPIRE', {{.Key}}, string.format('%.0f', (stamp - now + window{{.N}} * 1.5) / 1000 + 1000))
    end
  end
end
{{end}}

{{define "log reply"}}
.. (#value{{.N}} == 9 and 'S' or value{{.N}} == '' and '-' or 'M') .. value{{.N}} .. oldest{{.N}}
{{end}}

{{define "log return"}}
-- Returns the cost of an entry of a log.
local function cost(entry) return #entry == 12 and number(entry, 10, 12) or 1 end

-- Takes units back from a log, and returns their number. Entries that are dropped are not looked at.
local function log(key, window)
  local newest = at > now - window and try('LINDEX', key, '-1')
  if not newest then return units end
  if #newest ~= 9 and #newest ~= 12 then return 0 end
  if stamp(newest, 1) <= now - window then return units end
  local length, total = call('LLEN', key), number(newest, 7, 9)
  local dropped = (total - total % 1048576) / 1048576
  -- From the newest entry back to the one before those that hold the units, which may become the newest.
  local entries, newer, found, last = {}, 0, 0, 0
  while #entries < length - dropped do
    local entry = call('LINDEX', key, -1 - #entries)
    entries[#entries + 1] = entry
    local counted = (#entry == 9 or #entry == 12) and stamp(entry, 1) or 0
    if counted < at or found >= units or last - newer > depth then break end
    if counted > at then newer = newer + 1 else found, last = found + cost(entry), #entries end
    if newer > depth then return 0 end
  end
  if found == 0 then return 0 end
  local kept, returned = {}, 0
  for i = #entries, 1, -1 do
    local own, cut = cost(entries[i]), string.sub(entries[i], 10)
    if i > newer and i <= last then
      local taken = math.min(own, units - returned)
      own, returned = own - taken, returned + taken
      if taken > 0 then cut = own == 1 and '' or bytes(own, 3) end
    end
    if own > 0 then
      kept[#kept + 1] = string.sub(entries[i], 1, 6) .. bytes((number(entries[i], 7, 9) - returned) % 1048576, 3) .. cut
    end
  end
  if #kept == 0 then
    call('DEL', key) -- with the entries that are dropped
    return returned
  end
  -- The newest entry alone says how many entries are dropped.
  local top = kept[#kept]
  kept[#kept] = string.sub(top, 1, 6) .. bytes(number(top, 7, 9) + dropped * 1048576, 3) .. string.sub(top, 10)
  call('LTRIM', key, '0', -1 - #entries)
  if call('RPUSH', key, unpack(kept)) == #kept then
    -- The key was without entries, and has gone with its TTL; see "log count". Nothing of it is dropped.
    call('LSET', key, '-1', top)
    call('PEXPIRE', key, string.format('%.0f', (stamp(top, 1) - now + window * 1.5) / 1000 + 1000))
  end
  return returned
end
{{end}}
