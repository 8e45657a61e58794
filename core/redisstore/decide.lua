-- Decides one request under all limits of a rule, at one instant of the
-- server's clock, and counts it under all of them or none.
--
-- KEYS     one for each limit, all in one hash slot
-- ARGV     cost; '1' to count it, '0' to answer only;
--          then for each limit: 'l' (log) or 'c' (counter), window in microseconds, requests
-- Returns  '1' or '0' (admitted by all), TIME as 'seconds microseconds', how far
--          the newest count is ahead of it, and for each limit what it was judged
--          by, before counting:
--            log      units, then '-' or the oldest entry, then '-' or the leaver:
--                     the entry whose leaving makes room for the cost
--            counter  '-' or its value
--          An entry is preceded by 'S' if it has 9 bytes, 'L' if it has 12.
--
-- A log is a list, newest first. An entry is 6 bytes of stamp (microseconds
-- modulo 2^48), 3 bytes of running total up to and with it (modulo 2^24), and,
-- for a cost other than 1, 3 bytes of cost. Expiry is reckoned against TIME;
-- stamps never run backwards; entries are dropped only when one is pushed.
--
-- A counter is a string of three numbers of 13 digits: the index of a window
-- since the epoch, the count of the window before it, the count in it.
--
-- Needs no struct, bit or cmsgpack, so that it runs on miniredis.

local byte, char, floor, format, sub = string.byte, string.char, math.floor, string.format, string.sub
local call = redis.call
local cost, charge = tonumber(ARGV[1]), ARGV[2] == '1'
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = now -- at which the request is counted

local reading, broken -- the key at hand; one that holds what is not ours

-- stamp, total and cost of an entry
local function decode(entry)
  if not entry or #entry ~= 9 and #entry ~= 12 then
    broken = reading
    return now, 0, 1
  end
  local a, b, c, d, e, f, t, u, v, x, y, z = byte(entry, 1, 12)
  local age = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
  if age >= 140737488355328 then age = age - 281474976710656 end -- ahead of TIME
  return now - age, (t * 256 + u) * 256 + v, z and (x * 256 + y) * 256 + z or 1
end

local function encode(total, cost)
  local s = stamp % 281474976710656
  local f = s % 256; s = (s - f) / 256
  local e = s % 256; s = (s - e) / 256
  local d = s % 256; s = (s - d) / 256
  local c = s % 256; s = (s - c) / 256
  local b = s % 256; s = (s - b) / 256
  local v = total % 256; total = (total - v) / 256
  local u = total % 256; total = (total - u) / 256
  if cost == 1 then return char(s, b, c, d, e, f, total, u, v) end
  local z = cost % 256; cost = (cost - z) / 256
  local y = cost % 256; cost = (cost - y) / 256
  return char(s, b, c, d, e, f, total, u, v, cost, y, z)
end

local function framed(entry)
  if not entry then return '-' end
  return (#entry == 9 and 'S' or 'L') .. entry
end

-- the i-th oldest entry, from 0
local function at(key, i)
  return call('LINDEX', key, -1 - i)
end

-- the least i from lo on for which test holds, where it holds for hi
local function search(lo, hi, test)
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if test(mid) then hi = mid else lo = mid + 1 end
  end
  return lo
end

-- What each limit has counted. Logs: newest stamp, total; expired entries;
-- oldest entry that is not; units. Counters: index, previous, current.
local A, B, C, D, E = {}, {}, {}, {}, {}

for i = 1, #KEYS do
  local key, arg = KEYS[i], 3 * i
  local window = tonumber(ARGV[arg + 1])
  reading = key
  if ARGV[arg] == 'l' then
    local head = redis.pcall('LINDEX', key, 0)
    if type(head) == 'table' then
      broken = key
    elseif head then
      local cutoff = now - window
      local newest, total = decode(head)
      if newest > stamp then stamp = newest end
      A[i], B[i] = newest, total
      if newest > cutoff then
        local tail = call('LRANGE', key, -2, -1)
        local expired, oldest = 0, tail[#tail]
        local s, t, n = decode(oldest)
        if s <= cutoff then
          expired, oldest = 1, tail[1]
          s, t, n = decode(oldest)
          if s <= cutoff then
            expired = search(2, call('LLEN', key) - 1, function(j) return decode(at(key, j)) > cutoff end)
            oldest = at(key, expired)
            s, t, n = decode(oldest)
          end
        end
        C[i], D[i], E[i] = expired, oldest, (total - t + n) % 16777216
      end
    end
  else
    local value = redis.pcall('GET', key)
    if type(value) == 'table' or value and (#value ~= 39 or string.find(value, '%D')) then
      broken = key
    elseif value then
      A[i], B[i], C[i], D[i] = tonumber(sub(value, 1, 13)), tonumber(sub(value, 14, 26)), tonumber(sub(value, 27)), value
      local start = A[i] * window
      if start > stamp then stamp = start end
    end
  end
end

local admitted, facts = true, ''
for i = 1, #KEYS do
  local arg = 3 * i
  local window, requests = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  if ARGV[arg] == 'l' then
    local units, leaver = E[i] or 0, nil
    local excess = units + cost - requests
    if cost > 0 and excess > 0 then
      admitted = false
      if cost <= requests then
        local key, first = KEYS[i], C[i]
        reading = key
        local _, total, own = decode(D[i])
        leaver = D[i]
        if own < excess then
          local function leaves(j)
            local _, t = decode(at(key, j))
            return (t - total + own) % 16777216 >= excess
          end
          local last = call('LLEN', key) - 1
          if first + excess - 1 < last then last = first + excess - 1 end
          -- Where every cost is 1 it is the last of those that come into question.
          local before = last - 1
          if before > first and not leaves(before) then first = before end
          leaver = at(key, search(first + 1, last, leaves))
          decode(leaver) -- for its form
        end
      end
    end
    facts = facts .. units .. framed(D[i]) .. framed(leaver)
  else
    local index = floor(stamp / window)
    local previous, current = 0, 0
    if A[i] == index then
      previous, current = B[i], C[i]
    elseif A[i] == index - 1 then
      previous = C[i]
    end
    local elapsed = stamp - index * window
    if cost > 0 and floor(previous * ((window - elapsed) / window)) + current + cost > requests then
      admitted = false
    end
    facts = facts .. (D[i] or '-')
    E[i] = A[i] == index
    A[i], B[i], C[i] = index, previous, current + cost
  end
end

-- What is not ours is reported, and replaced unless nothing may be written.
if broken then
  if charge then call('DEL', broken) end
  return redis.error_reply('SASHFOREIGN the value is not of sash at ' .. broken)
end

if admitted and charge and cost > 0 then
  for i = 1, #KEYS do
    local key, arg = KEYS[i], 3 * i
    local window = tonumber(ARGV[arg + 1])
    if ARGV[arg] == 'l' then
      local newest, expired = A[i], C[i]
      if newest and not expired then
        call('DEL', key)
      elseif expired == 1 then
        call('RPOP', key)
      elseif expired and expired > 1 then
        call('LTRIM', key, 0, -1 - expired)
      end
      call('LPUSH', key, encode(((B[i] or 0) + cost) % 16777216, cost))
      -- A TTL that is renewed in each eighth of a window and lasts for nine
      -- outlives every entry.
      local eighth = window / 8
      if not expired or floor(newest / eighth) ~= floor(stamp / eighth) then
        call('PEXPIRE', key, format('%.0f', floor((stamp - now + window + eighth) / 1000) + 1000))
      end
    elseif E[i] then
      call('SETRANGE', key, 26, format('%013.0f', C[i]))
    else
      -- Needed until the window after this one is over.
      local ttl = floor(((A[i] + 2) * window - now) / 1000) + 1000
      call('SET', key, format('%013.0f%013.0f%013.0f', A[i], B[i], C[i]), 'PX', format('%.0f', ttl))
    end
  end
end

local ahead = stamp > now and format('%.0f', stamp - now) or '0'
return (admitted and '1' or '0') .. time[1] .. ' ' .. time[2] .. ' ' .. ahead .. ' ' .. facts
