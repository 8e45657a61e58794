-- Decides requests under all limits of a rule, at one instant of the server's
-- clock, and counts each under all of them or none.
--
-- This is a template: what stands between "@log" or "@counter" and "@end" is
-- repeated for each limit of that algorithm, with its number for "@". So every
-- combination of algorithms has a script of its own, which needs no tables. "@ahead"
-- is nothing, or how far ahead of TIME what is counted is stamped: for a lease.
--
-- KEYS     for each request one for each limit, all in one hash slot
-- ARGV     for each request its cost, negative to answer without counting, and
--          then for each limit its window in microseconds and its requests
-- Returns  TIME as 'seconds microseconds', and for each request
--            either 'F', the key that held what is not ours, and a newline
--            or     'E', an error of Redis, and a newline
--            or     '1' or '0' (admitted by all), how far the newest count is
--                   ahead of TIME, a space, and for each limit what it was
--                   judged by, before counting:
--                     log      units, then '-' or the oldest entry, then '-' or
--                              the leaver: the entry whose leaving makes room
--                     counter  its value, if any, and a space
--          An entry is preceded by 'S' if it has 9 bytes, 'L' if it has 12.
--
-- A log is a list, newest first. An entry is 6 bytes of stamp (microseconds
-- modulo 2^48), 3 bytes of running total up to and with it (modulo 2^24), and,
-- for a cost other than 1, 3 bytes of cost. Expiry is reckoned against TIME;
-- stamps never run backwards; entries are dropped only when one is pushed.
--
-- A counter is a string of two numbers of 13 digits and one of up to 13: the
-- index of a window since the epoch, the count of the window before it, and the
-- count in it.
--
-- Needs no struct, bit or cmsgpack, so that it runs on miniredis; nor does it add
-- to texts with leading zeros, which miniredis takes for octal. Once anything
-- is written, nothing raises an error: one request's must not be its neighbours'.

local call, try, string = redis.call, redis.pcall, string
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local replies, written = '', false

local broken -- a key that holds what is not ours

-- What is needed only where more than one entry has expired, or where it takes
-- more than the oldest to leave. Made when it is: making functions costs time.
local function deep(key, window)
  -- age, total before it, cost, and text of the i-th oldest entry, from 0
  local function look(i)
    local entry = try('LINDEX', key, -1 - i)
    if not entry or #entry ~= 9 and #entry ~= 12 then
      broken = key
      return 0, 0, 1, '---------'
    end
    local a, b, c, d, e, f, t, u, v, x, y, z = string.byte(entry, 1, 12)
    local age = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
    if age >= 140737488355328 then age = age - 281474976710656 end
    local cost = z and (x * 256 + y) * 256 + z or 1
    return age, (t * 256 + u) * 256 + v - cost, cost, entry
  end

  -- the least i in [low, high] for which holds is true, as it is for high
  local function search(low, high, holds)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if holds(middle) then high = middle else low = middle + 1 end
    end
    return low
  end

  -- the oldest entry that has not expired, where two have and the newest has
  -- not: its number, total before it, cost and text. Mostly few have: the search
  -- begins at the old end.
  local function oldest()
    local last, low, high = call('LLEN', key) - 1, 2, 2
    while high < last and look(high) >= window do low, high = high + 1, 2 * high end
    if high > last then high = last end
    local i = search(low, high, function(i) return look(i) < window end)
    return i, select(2, look(i))
  end

  -- the entry that holds the excess-th unit after before, where the first of
  -- the entries that have not expired does not
  local function leaver(first, before, excess)
    local function holds(i)
      local _, total, cost = look(i)
      return (total - before + cost) % 16777216 >= excess
    end
    local low, high = first + 1, call('LLEN', key) - 1
    if first + excess - 1 < high then high = first + excess - 1 end
    -- Where every cost is 1 it is the last that comes into question.
    if high > low and not holds(high - 1) then low = high end
    return select(4, look(search(low, high, holds)))
  end
  return oldest, leaver
end

local arg = 1
for key = 1, #KEYS, @limits do
  local cost, charge = ARGV[arg] + 0, true
  if cost <= 0 then cost, charge = -cost, false end
  local stamp, admitted, facts = now@ahead, true, ''
  broken = nil

  -- What is there.

  @log
  local key@, window@, limit@ = KEYS[key + @ - 1], ARGV[arg + 2 * @ - 1] + 0, ARGV[arg + 2 * @] + 0
  local newest@, total@, expired@, before@, own@, oldest@, units@ = nil, 0, nil, 0, 0, nil, 0
  local head = try('LINDEX', key@, 0)
  if head then
    if #head ~= 9 and #head ~= 12 then
      if type(head) == 'table' and not string.find(head.err, 'WRONGTYPE', 1, true) then return head end
      broken = key@
    else
      local a, b, c, d, e, f, t, u, v, x, y, z = string.byte(head, 1, 9)
      local age = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
      if age >= 140737488355328 then age = age - 281474976710656 end -- ahead of TIME
      newest@, total@ = now - age, (t * 256 + u) * 256 + v
      if newest@ > stamp then stamp = newest@ end
      if age < window@ then
        local i = 0
        repeat
          i = i - 1
          oldest@ = call('LINDEX', key@, i)
          a, b, c, d, e, f, t, u, v, x, y, z = string.byte(oldest@, 1, 12)
          if not v or z and #oldest@ ~= 12 or not z and x then
            broken, a, b, c, d, e, f, t, u, v = key@, 0, 0, 0, 0, 0, 0, 0, 0, 0
          end
          age = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
        until i == -2 or age < window@ or age >= 140737488355328
        if age >= window@ and age < 140737488355328 then
          expired@, before@, own@, oldest@ = deep(key@, window@)()
        else
          own@ = z and (x * 256 + y) * 256 + z or 1
          expired@, before@ = -1 - i, (t * 256 + u) * 256 + v - own@
        end
        units@ = (total@ - before@) % 16777216
      end
    end
  end
  @end
  @counter
  local key@, window@, limit@ = KEYS[key + @ - 1], ARGV[arg + 2 * @ - 1] + 0, ARGV[arg + 2 * @] + 0
  local value@, index@, previous@, current@ = try('GET', key@), -1, 0, 0
  if value@ then
    if #value@ < 27 or #value@ > 39 or string.find(value@, '%D') then
      if type(value@) == 'table' and not string.find(value@.err, 'WRONGTYPE', 1, true) then return value@ end
      broken, value@ = key@, nil
    else
      index@ = tonumber(string.sub(value@, 1, 13))
      if index@ * window@ - now >= 140737488355328 then -- years ahead: no clock was ever there
        broken, value@, index@ = key@, nil, -1
      elseif index@ * window@ > stamp then
        stamp = index@ * window@
      end
    end
  end
  @end

  -- Whether it leaves room.

  @log
  local excess@ = units@ + cost - limit@
  if excess@ > 0 and cost > 0 then admitted = false end
  @end
  @counter
  local elapsed@ = stamp % window@
  local window_index@ = (stamp - elapsed@) / window@
  local same@ = index@ == window_index@
  if same@ then
    previous@, current@ = tonumber(string.sub(value@, 14, 26)), tonumber(string.sub(value@, 27))
  elseif index@ == window_index@ - 1 then
    previous@ = tonumber(string.sub(value@, 27))
  end
  if cost > 0 and math.floor(previous@ * ((window@ - elapsed@) / window@)) + current@ + cost > limit@ then admitted = false end
  @end

  -- What it was judged by.

  @log
  if not oldest@ then
    facts = facts .. '0--'
  else
    local leaver = '-'
    if excess@ > 0 and cost > 0 and cost <= limit@ then
      leaver = oldest@
      if own@ < excess@ then
        local _, find_leaver = deep(key@, window@)
        leaver = find_leaver(expired@, before@, excess@)
      end
      leaver = (#leaver == 9 and 'S' or 'L') .. leaver
    end
    facts = facts .. units@ .. (#oldest@ == 9 and 'S' or 'L') .. oldest@ .. leaver
  end
  @end
  @counter
  facts = facts .. (value@ or '') .. ' '
  @end

  -- Counting.

  local failed
  if admitted and charge and not broken then
    @log
    if not failed then
      local s, t, entry = stamp % 281474976710656, (total@ + cost) % 16777216, nil
      local f = s % 256; s = (s - f) / 256
      local e = s % 256; s = (s - e) / 256
      local d = s % 256; s = (s - d) / 256
      local c = s % 256; s = (s - c) / 256
      local b = s % 256; s = (s - b) / 256
      local v = t % 256; t = (t - v) / 256
      local u = t % 256; t = (t - u) / 256
      if cost == 1 then
        entry = string.char(s, b, c, d, e, f, t, u, v)
      else
        local z = cost % 256; local x = (cost - z) / 256
        local y = x % 256; x = (x - y) / 256
        entry = string.char(s, b, c, d, e, f, t, u, v, x, y, z)
      end
      local pushed = try('LPUSH', key@, entry)
      if type(pushed) == 'table' then
        if not written then return pushed end
        failed = pushed.err
      else
        written = true
        if not expired@ then
          if newest@ then call('LTRIM', key@, 0, 0) end
        elseif expired@ == 1 then
          call('RPOP', key@)
        elseif expired@ > 1 then
          call('LTRIM', key@, 0, -1 - expired@)
        end
        -- A TTL that is renewed in each eighth of a window, and lasts for nine,
        -- outlives every entry.
        local eighth = window@ / 8
        if not newest@ or stamp - newest@ >= eighth or stamp % eighth < newest@ % eighth then
          call('PEXPIRE', key@, math.floor((stamp - now + window@ + eighth) / 1000) + 1000)
        end
      end
    end
    @end
    @counter
    if not failed then
      local set
      if same@ then
        set = try('SETRANGE', key@, 26, string.format('%.0f', current@ + cost))
      else
        -- Needed until the window after this one is over.
        local ttl = math.floor(((window_index@ + 2) * window@ - now) / 1000) + 1000
        set = try('SET', key@, string.format('%013.0f%013.0f%.0f', window_index@, previous@, cost), 'PX', ttl)
      end
      if type(set) == 'table' and set.err then
        if not written then return set end
        failed = set.err
      end
      written = true
    end
    @end
  end

  if broken then
    if charge then
      call('DEL', broken)
      written = true
    end
    replies = replies .. 'F' .. broken .. '\n'
  elseif failed then
    replies = replies .. 'E' .. string.gsub(failed, '\n', ' ') .. '\n'
  else
    replies = replies .. (admitted and '1' or '0') .. (stamp > now and string.format('%.0f', stamp - now) or '0') .. ' ' .. facts
  end
  arg = arg + 1 + 2 * @limits
end
return time[1] .. ' ' .. time[2] .. ' ' .. replies
