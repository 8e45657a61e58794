-- Decides requests under all limits of a rule, at one instant of the server's
-- clock, and counts each under all of them or none.
--
-- This is a template: what stands between "@log" or "@counter" and "@end" is
-- repeated for each limit of that algorithm, with its number for "@", and after
-- "@limit" for every limit. What stands after "@logs" is there once if there is a
-- log, and a line that ends with "@several" if there are several. So every
-- combination of algorithms has a script of its own, which needs no tables. Lines
-- that end with "@lease", and what follows "@ahead", are for leases, which are
-- stamped ahead of TIME. "@window" is the window of a limit in microseconds: a
-- number if all windows of the rule are usual, and else where in ARGV it is.
-- "@allowance" is how far ahead of TIME anything may be stamped.
--
-- KEYS     for each request one for each limit, all in one hash slot
-- ARGV     the limits of the first request: the requests of each, and then the
--          window of each, unless they are usual, and for a lease how far ahead
--          of TIME it is stamped; then for each request its cost, negative to
--          answer without counting, after '+' and its limits if these are not
--          those of the request before. A cost that is left out is 1.
-- Returns  TIME as 'seconds microseconds', and for each request
--            either 'F', the key that held what is not ours, and a newline
--            or     'E', an error of Redis, and a newline
--            or     'A' or 'R' (admitted by all or refused), and for each limit
--                   what it was judged by, before counting:
--                     log      '-' if nothing counts;
--                              'S' and two entries of 9 bytes: the newest and
--                              the oldest that counts, which is the leaver too;
--                              'M' and three of them, each after an 'S' if it has
--                              9 bytes or an 'L' if it has 12, the third being the
--                              leaver (whose leaving makes room), or '-'
--                     counter  its value, after byte 254 if it has 18 bytes, or
--                              byte 255 for none
--
-- A log is a list, newest last. An entry is 6 bytes of stamp (microseconds
-- modulo 2^48), 3 bytes of running total up to and with it (modulo 2^20) plus
-- 2^20 times the number of dropped entries at the front of the list, 8 at most,
-- and, for a cost other than 1, 3 bytes of cost. Expiry is reckoned against
-- TIME; stamps never run backwards, but see below; entries are dropped, which is
-- to be among those that the newest entry says are, only when one is pushed.
--
-- A counter is a string of 12 bytes: the count of the window before and its own,
-- 3 bytes each, and when its window began, 6 bytes (microseconds modulo 2^48). If
-- one of the counts is 2^23 or more, both have 6 bytes.
--
-- A clock that was ahead leaves stamps ahead of TIME, which would be in the way for
-- as long as it was ahead. Where the newest stamp of a log, or the beginning of a
-- counter's window, is ahead by more than "@allowance", which is more than a
-- lease may be, what is ahead counts from now on: the entries of a log that are
-- ahead become one entry of TIME, with all their units as its cost, and a counter's
-- two counts become that of the window of TIME. The request is decided by that. A
-- request that charges writes it, even if it is refused: else it would be found
-- anew each time.
--
-- Needs no struct, bit or cmsgpack, so that it runs on miniredis; nor does it add
-- to texts with leading zeros, which miniredis takes for octal. Numbers are dear
-- as arguments and in texts: indexes are texts, and the rest stays in bytes. Once
-- anything is written, nothing raises an error: one request's must not be its
-- neighbours'. Nor does a server that is full, which still refuses whom it knows;
-- other errors at the first writing are of all.

local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local byte, char = string.byte, string.char
local time = call('TIME')
local seconds, space, micros = time[1], ' ', time[2] -- before the first reply
local now = seconds * 1000000 + micros
local replies, written = #KEYS > @limits and {}, false

local arg = 0 -- the last of ARGV that has been read
@limit
local limit@, window@ = ARGV[arg + @] + 0, @window
@end
local ahead = ARGV[arg + @args] + 0 -- @lease
arg = @args
for key = 0, #KEYS - 1, @limits do
  local cost, charge = ARGV[arg + 1], true
  if not cost then
    cost = 1
  else
    arg = arg + 1
    if cost == '+' then
      @limit
      limit@, window@ = ARGV[arg + @] + 0, @window
      @end
      ahead = ARGV[arg + @args] + 0 -- @lease
      arg = arg + @args + 1
      cost = ARGV[arg]
    end
    cost = cost + 0
    if cost <= 0 then cost, charge = -cost, false end
  end
  local stamp, admitted = now@ahead, true
  local broken -- a key that holds what is not ours
  local rewound, kept -- by number of limit, what to write for what is too far ahead of TIME, and entries before that

  -- What is there. Of logs, whether it leaves room, and what that was judged by.

  @logs
  local text, textAge, textTotal -- of the log before: their newest entries are mostly the same
  @end
  @log
  local at@, total@, first@ = nil, 0, 0 -- the newest entry's, and the number of the oldest that counts
  local newest@, oldest@ = try('LINDEX', KEYS[key + @], '-1'), ''
  do
    local units = 0
    if not newest@ then
      newest@ = ''
    elseif #newest@ ~= 9 and #newest@ ~= 12 then
      if type(newest@) == 'table' and not string.find(newest@.err, 'WRONGTYPE', 1, true) then return newest@ end
      broken = KEYS[key + @]
    else
      if newest@ ~= text then -- @several
        local a, b, c, d, e, f, t, u, v = byte(newest@, 1, 9)
        text = newest@ -- @several
        textTotal = (t * 256 + u) * 256 + v
        textAge = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
        if textAge >= 140737488355328 then textAge = textAge - 281474976710656 end -- ahead of TIME
      end -- @several
      local age = textAge
      at@, total@ = now - age, textTotal
      local far -- ahead of TIME
      if at@ > stamp then
        far = at@ - now > @allowance
        if not far then stamp = at@ end
      end
      if total@ >= 1048576 then
        local total = total@ % 1048576
        first@, total@ = (total@ - total) / 1048576, total
      end
      if age >= window@ then
        newest@ = ''
      elseif first@ > 8 then
        broken = KEYS[key + @]
      else
        local dropped = first@
        local i, own, before = first@, nil, nil -- the oldest's cost, and the total before it
        repeat
          oldest@ = call('LINDEX', KEYS[key + @], i == 0 and '0' or char(48 + i))
          if not oldest@ or #oldest@ ~= 9 and #oldest@ ~= 12 then broken, oldest@ = KEYS[key + @], newest@ end
          -- New variables: Lua moves results to old ones one by one.
          local a, b, c, d, e, f, t, u, v, x, y, z = byte(oldest@, 1, 12)
          age = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
          if age >= 140737488355328 then age = age - 281474976710656 end
          own = z and (x * 256 + y) * 256 + z or 1
          before = (t * 256 + u) * 256 + v - own
          i = i + 1
        until age < window@ or i == first@ + 2
        local leaver, leaverAge = '-', 0
        first@, units = i - 1, (total@ - before) % 1048576
        if far or age >= window@ or units + cost > limit@ + own and cost > 0 and cost <= limit@ then
          -- Two at least have expired, or it takes more than the oldest to leave.
          local last = call('LLEN', KEYS[key + @]) - 1

          -- age, total before it, cost, and text of the i-th entry, from 0
          local function look(i)
            local entry = call('LINDEX', KEYS[key + @], i)
            if not entry or #entry ~= 9 and #entry ~= 12 then
              broken = KEYS[key + @]
              return 0, 0, 1, newest@
            end
            local a, b, c, d, e, f, t, u, v, x, y, z = byte(entry, 1, 12)
            local age = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
            if age >= 140737488355328 then age = age - 281474976710656 end
            local own = z and (x * 256 + y) * 256 + z or 1
            return age, (t * 256 + u) * 256 + v - own, own, entry
          end

          -- the least i in [low, high] for which holds is true, as it is for high
          local function search(low, high, holds)
            while low < high do
              local middle = math.floor((low + high) / 2)
              if holds(middle) then high = middle else low = middle + 1 end
            end
            return low
          end

          if age >= window@ then
            -- Mostly few have: the search begins at the old end.
            local low, high = i, i
            while high < last and look(high) >= window@ do low, high = high + 1, 2 * high + 1 end
            if high > last then high = last end
            first@ = search(low, high, function(i) return look(i) < window@ end)
            age, before, own, oldest@ = look(first@)
            units = (total@ - before) % 1048576
          end
          local excess = units + cost - limit@
          if excess > own and excess <= units and cost > 0 then
            local function holds(i)
              local _, total, own = look(i)
              return (total - before + own) % 1048576 >= excess
            end
            local low, high = first@ + 1, last
            if first@ + excess - 1 < high then high = first@ + excess - 1 end
            -- Where every cost is 1 it is the last that comes into question.
            if high > low and not holds(high - 1) then low = high end
            local _, entry
            leaverAge, _, _, entry = look(search(low, high, holds))
            leaver = (#entry == 9 and 'S' or 'L') .. entry
          end
          if far then
            local function bytes(n, size)
              local s = ''
              for _ = 1, size do
                local low = n % 256
                n, s = (n - low) / 256, char(low) .. s
              end
              return s
            end
            local tail = search(first@, last, function(i) return look(i) < 0 end)
            local _, total = look(tail)
            local entry = bytes(now, 6) .. bytes(total@ + dropped * 1048576, 3) .. bytes((total@ - total) % 1048576, 3)
            rewound, kept = rewound or {}, kept or {}
            rewound[@], kept[@] = entry, tail
            at@, newest@ = now, entry
            if age < 0 then
              oldest@, leaver = entry, '-'
            elseif leaverAge < 0 then
              leaver = 'L' .. entry
            end
          end
        end
        if leaver ~= '-' or #newest@ ~= 9 or #oldest@ ~= 9 then
          newest@ = (#newest@ == 9 and 'S' or 'L') .. newest@
          oldest@ = (#oldest@ == 9 and 'S' or 'L') .. oldest@ .. leaver
        end
      end
    end
    if units + cost > limit@ and cost > 0 then admitted = false end
  end
  @end
  @counter
  local start@, previous@, current@, value@ = 0, 0, 0, try('GET', KEYS[key + @])
  if not value@ then
    value@ = '\255'
  elseif #value@ ~= 12 and #value@ ~= 18 then
    if type(value@) == 'table' and not string.find(value@.err, 'WRONGTYPE', 1, true) then return value@ end
    broken = KEYS[key + @]
  else
    local g, h, i, j, k, l, a, b, c, d, e, f = byte(value@, 1, 12)
    if #value@ == 12 then
      previous@ = (g * 256 + h) * 256 + i
      current@ = (j * 256 + k) * 256 + l
      if g > 127 then broken = KEYS[key + @] end
    else
      previous@ = ((((g * 256 + h) * 256 + i) * 256 + j) * 256 + k) * 256 + l
      current@ = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
      if previous@ > 1099511627776 or current@ > 1099511627776 then broken = KEYS[key + @] end
      a, b, c, d, e, f = byte(value@, 13, 18)
      value@ = '\254' .. value@
    end
    local age = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
    if age >= 140737488355328 then age = age - 281474976710656 end
    start@ = now - age
    if start@ % window@ > 0 then
      broken = KEYS[key + @]
    elseif start@ > stamp then
      if start@ - now > @allowance then
        local function six(n)
          local s = ''
          for _ = 1, 6 do
            local low = n % 256
            n, s = (n - low) / 256, char(low) .. s
          end
          return s
        end
        start@ = now - now % window@
        current@ = math.min(previous@ + current@, 1099511627776)
        previous@ = 0
        local own, set = six(current@), '\0\0\0\0\0\0'
        if current@ < 8388608 then own, set = string.sub(own, 4), '\0\0\0' end
        set = set .. own .. six(start@ % 281474976710656)
        rewound = rewound or {}
        rewound[@] = set
        value@ = (#set == 18 and '\254' or '') .. set
      else
        stamp = start@
      end
    end
  end
  @end

  -- Whether counters leave room.

  @counter
  local elapsed@ = stamp - start@
  if elapsed@ >= window@ then
    previous@, current@ = elapsed@ < 2 * window@ and current@ or 0, 0
    elapsed@ = stamp % window@
  end
  -- Mostly even both windows together do.
  if previous@ + current@ + cost > limit@ and cost > 0 and previous@ * ((window@ - elapsed@) / window@) >= limit@ - current@ - cost + 1 then admitted = false end
  @end

  -- Replacing what is too far ahead of TIME. Of a log, the first command frees memory
  -- and is never refused, and after that none is. A counter that a full server cannot
  -- replace is left to the next request, if this one is refused anyway.

  local failed
  if rewound and charge and not broken then
    @log
    if rewound[@] and not failed then
      if kept[@] == 0 then
        call('DEL', KEYS[key + @])
      else
        call('LTRIM', KEYS[key + @], '0', kept[@] - 1)
      end
      written = true
      call('RPUSH', KEYS[key + @], rewound[@])
      call('PEXPIRE', KEYS[key + @], math.floor(window@ * 1.5 / 1000) + 1000)
    end
    @end
    @counter
    if rewound[@] and not failed then
      local ttl = math.floor((2 * window@ - now + start@) / 1000) + 1000
      local set = try('SET', KEYS[key + @], rewound[@], 'PX', ttl)
      if type(set) ~= 'table' or not set.err then
        written = true
      elseif admitted then
        if not written and not (replies and string.find(set.err, 'OOM', 1, true)) then return set end
        failed = set.err
      end
    end
    @end
  end

  -- Counting.

  if admitted and charge and not broken and not failed then
    @logs
    local low = stamp % 281474976710656
    local f = low % 256; low = (low - f) / 256
    local e = low % 256; low = (low - e) / 256
    local d = low % 256; low = (low - d) / 256
    local c = low % 256; low = (low - c) / 256
    local b = low % 256
    local a = (low - b) / 256
    local entry, ending -- of the log before: logs of a rule are mostly in step
    @end
    @log
    if not failed then
      local t
      if newest@ == '' then -- of which nothing counts: its total may begin anywhere
        t = (ending or total@ + cost) % 1048576
      else
        t = (total@ + cost) % 1048576 + (first@ > 8 and 0 or first@ * 1048576)
      end
      if t ~= ending then -- @several
        ending = t -- @several
        local v = t % 256; t = (t - v) / 256
        local u = t % 256; t = (t - u) / 256
        if cost == 1 then
          entry = char(a, b, c, d, e, f, t, u, v)
        else
          local z = cost % 256; local x = (cost - z) / 256
          local y = x % 256; x = (x - y) / 256
          entry = char(a, b, c, d, e, f, t, u, v, x, y, z)
        end
      end -- @several
      local pushed = try('RPUSH', KEYS[key + @], entry)
      if type(pushed) == 'table' then
        if not written and not (replies and string.find(pushed.err, 'OOM', 1, true)) then return pushed end
        failed = pushed.err
      else
        written = true
        if newest@ == '' then
          if at@ then call('LTRIM', KEYS[key + @], '-1', '-1') end
        elseif first@ > 8 then
          call('LTRIM', KEYS[key + @], first@ == 9 and '9' or first@, '-1')
        end
        -- A TTL that is renewed in each half of a window, and lasts for three,
        -- outlives every entry.
        if not at@ or stamp - at@ > stamp % (window@ / 2) then
          call('PEXPIRE', KEYS[key + @], math.floor((stamp - now + window@ * 1.5) / 1000) + 1000)
        end
      end
    end
    @end
    @counter
    if not failed then
      local n, set = current@ + cost, nil
      local begun = stamp - elapsed@
      if begun == start@ and n < 8388608 and #value@ == 12 then
        local l = n % 256; n = (n - l) / 256
        local k = n % 256
        set = try('SETRANGE', KEYS[key + @], '3', char((n - k) / 256, k, l))
      else
        local function six(n)
          local f = n % 256; n = (n - f) / 256
          local e = n % 256; n = (n - e) / 256
          local d = n % 256; n = (n - d) / 256
          local c = n % 256; n = (n - c) / 256
          local b = n % 256
          return string.char((n - b) / 256, b, c, d, e, f)
        end
        local before, own = six(previous@), six(n)
        if previous@ < 8388608 and n < 8388608 then before, own = string.sub(before, 4), string.sub(own, 4) end
        if begun == start@ and #value@ == 19 and #own == 6 then
          set = try('SETRANGE', KEYS[key + @], '6', own)
        else
          -- Needed until the window after this one is over.
          local ttl = math.floor((2 * window@ - elapsed@ + stamp - now) / 1000) + 1000
          set = try('SET', KEYS[key + @], before .. own .. six(begun % 281474976710656), 'PX', ttl)
        end
      end
      if set ~= 12 and type(set) == 'table' and set.err then
        if not written and not (replies and string.find(set.err, 'OOM', 1, true)) then return set end
        failed = set.err
      end
      written = true
    end
    @end
  end

  local reply
  if broken then
    if charge then
      call('DEL', broken)
      written = true
    end
    reply = seconds .. space .. micros .. 'F' .. broken .. '\n'
  elseif failed then
    reply = seconds .. space .. micros .. 'E' .. string.gsub(failed, '\n', ' ') .. '\n'
  else
    reply = seconds .. space .. micros .. (admitted and 'A' or 'R')
    @log
      .. (#newest@ == 9 and 'S' or newest@ == '' and '-' or 'M') .. newest@ .. oldest@
    @end
    @counter
      .. value@
    @end
  end
  if not replies then return reply end
  replies[#replies + 1] = reply
  seconds, space, micros = '', '', ''
end
return table.concat(replies)
