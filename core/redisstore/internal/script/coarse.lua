-- The parts of decide.lua and return.lua for a coarse log; coarse.go describes its value.

{{define "coarse find" -}}
-- The end of the newest slot; the number of the first total that is needed; the units that count; the facts.
local last{{.N}}, first{{.N}}, units{{.N}}, facts{{.N}} = 0, 0, 0, '-'
local width{{.N}}, value{{.N}} = 3, try('GET', {{.Key}})
local function total{{.N}}(i)
  local a, b, c, d, e, f = byte(value{{.N}}, 8 + i * width{{.N}}, 7 + (i + 1) * width{{.N}})
  if not d then return (a * 256 + b) * 256 + c end
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end
if value{{.N}} and #value{{.N}} < 13 then
  {{template "foreign" .}}
elseif value{{.N}} then
  local width, a, b, c, d, e, f = byte(value{{.N}}, 1, 7)
  local {{template "age" "age"}}
  local slot, n = {{.Slot}}, (#value{{.N}} - 7) / width - 1
  last{{.N}} = now - age
  if width ~= 3 and width ~= 6 or n < 1 or n > 120 or n % 1 > 0 or (last{{.N}} + 1) % slot > 0 then
    broken = {{.Key}}
  else
    width{{.N}} = width
    local counting, most = math.ceil((window{{.N}} - age) / slot), width == 3 and 16777216 or 281474976710656
    if counting < n then first{{.N}} = n - math.max(counting, 0) end
    local base = total{{.N}}(first{{.N}})
    local units = (total{{.N}}(n) - base) % most
    if units >= 140737488355328 then broken = {{.Key}} end -- more than 120 slots hold
    local slotStart = last{{.N}} - slot + 1
    if slotStart > stamp and slotStart - now <= {{.AllowedLead}} then
      stamp = slotStart
    elseif slotStart > stamp then
      {{template "six" .}}
      last{{.N}}, first{{.N}}, width{{.N}}, base, n = now - now % slot + slot - 1, 0, 6, 0, 1
      value{{.N}} = '\6' .. six(last{{.N}} % 281474976710656) .. six(0) .. six(units)
      if counts then
        call('DEL', {{.Key}})
        call('SET', {{.Key}}, value{{.N}}, 'PX', string.format('%.0f', (last{{.N}} - now + window{{.N}}) / 1000 + 1000))
        written = true
      end
    end
    if units > 0 then
      units{{.N}} = units
      local oldest = first{{.N}} + 1
      local expiring, own = oldest, (total{{.N}}(oldest) - base) % most
      local excess = cost > 0 and units + cost - limit{{.N}} or 0
      if excess > own or own == 0 then
        -- Returns the number of the slot that holds the k-th oldest unit.
        local function search(low, k)
          local high = n
          while low < high do
            local middle = math.floor((low + high) / 2)
            if (total{{.N}}(middle) - base) % most >= k then high = middle else low = middle + 1 end
          end
          return low
        end
        if own == 0 then oldest = search(oldest, 1) end
        expiring = excess > 0 and excess <= units and search(oldest, excess) or oldest
      end
      {{template "bytes" "units"}}
      facts{{.N}} = 'C' .. string.sub(value{{.N}}, 2, 7) .. char(a, b, c, d, e, f, n - oldest, n - expiring)
    end
  end
end
if facts{{.N}} == '-' then value{{.N}}, width{{.N}}, first{{.N}} = '\3\0\0\0\0\0\0\0\0\0', 3, 0 end
if units{{.N}} + cost > limit{{.N}} and cost > 0 then admitted = charge end
{{end}}

{{define "coarse count" -}}
if not failed then
  local slot, more, set = {{.Slot}}, cost, nil
  local top = stamp - stamp % slot + slot - 1
  if facts{{.N}} == '-' then last{{.N}} = top - slot end
  local n, skipped = (#value{{.N}} - 7) / width{{.N}} - 1, (top - last{{.N}}) / slot
  if charge and skipped == 0 then -- a slot holds 2^40, by which every limit refuses
    more = math.min(cost, 1099511627776 - (total{{.N}}(n) - total{{.N}}(n - 1)) % 256 ^ width{{.N}})
  end
  if width{{.N}} == 3 and units{{.N}} + more >= 16777216 then
    {{template "six" .}}
    local base = total{{.N}}(first{{.N}})
    local wide = '\6' .. string.sub(value{{.N}}, 2, 7)
    for i = first{{.N}}, n do wide = wide .. six((total{{.N}}(i) - base) % 16777216) end
    n = n - first{{.N}}
    value{{.N}}, width{{.N}}, first{{.N}} = wide, 6, 0
  end
  local width, a, b, c, d, e, f = width{{.N}}, nil, nil, nil, nil, nil, nil
  local t = (total{{.N}}(n) + more) % 281474976710656
  {{template "bytes" "t"}}
  local newest = width == 3 and char(d, e, f) or char(a, b, c, d, e, f)
  local low = top % 281474976710656
  {{template "bytes" "low"}}
  set = string.sub(value{{.N}}, 8 + first{{.N}} * width, skipped == 0 and -1 - width or -1)
  set = char(width, a, b, c, d, e, f) .. set
  if skipped > 1 then set = set .. string.rep(string.sub(value{{.N}}, -width), skipped - 1) end
  set = try('SET', {{.Key}}, set .. newest, 'PX', string.format('%.0f', (top - now + window{{.N}}) / 1000 + 1000))
  if type(set) == 'table' and set.err then
    {{template "failed" "set"}}
  end
  written = true
end
{{end}}

{{define "coarse reply"}}.. facts{{.N}}{{end}}

{{define "coarse return"}}
-- Takes units back from the slot of a coarse log, and returns the number of units that no longer count.
local function coarse(key, window)
  local value = try('GET', key)
  if not value then return units end
  local width, slot = type(value) == 'string' and #value > 12 and byte(value), math.ceil(window / 60)
  if width ~= 3 and width ~= 6 then return 0 end
  local own, newest, n = at - at % slot + slot - 1, stamp(value, 2), (#value - 7) / width - 1
  if newest <= now - window or own <= now - window then return units end
  local nth, totals = n - (newest - own) / slot, {}
  if nth < 1 or nth > n or nth % 1 > 0 then return 0 end
  for i = 0, n do totals[i] = number(value, 8 + i * width, 7 + (i + 1) * width) end
  local returned = math.min(units, (totals[nth] - totals[nth - 1]) % 256 ^ width)
  for i = nth, n do totals[i] = (totals[i] - returned) % 256 ^ width end
  while n > 0 and totals[n] == totals[n - 1] do n, newest = n - 1, newest - slot end
  if n == 0 then
    call('DEL', key)
    return returned
  end
  local left = char(width) .. bytes(newest % 281474976710656, 6)
  for i = 0, n do left = left .. bytes(totals[i], width) end
  -- What is left may have left the window, and counts again if the clock steps back.
  local ttl = string.format('%.0f', math.max(newest - now + window, 0) / 1000 + 1000)
  call('PEXPIRE', key, ttl) -- so that a full server takes the next command
  call('SET', key, left, 'PX', ttl)
  return returned
end
{{end}}
