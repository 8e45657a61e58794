-- Takes units back that decide.lua.tmpl has counted for a request, under all limits of a rule at one instant of the
-- server's clock. The formats are described in format.go.
--
-- KEYS     one for each limit, all in one hash slot
-- ARGV     the stamp of the request in microseconds, and the units; then for each limit its algorithm, as "log" or
--          "counter", and its window in microseconds
-- Returns  how many units count no more under any limit, as text
--
-- Units that a key does not hold stay where they are: where a clock that was ahead has left its mark, for example. A
-- key that counts nothing, such as one that was reset, holds no units. A value that is not the store's is left to the
-- next decision. Only commands of decisions are used, so that a user who may decide may give back. As there, a first
-- command that takes no memory lets a full server take the commands after it.

local call, try = redis.call, redis.pcall
local byte, char, floor = string.byte, string.char, math.floor
local depth = 1000 -- core.ReturnDepth
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at, units = ARGV[1] + 0, ARGV[2] + 0

-- Returns the number in the bytes from first to last of text.
local function number(text, first, last)
  local n = 0
  for i = first, last do n = n * 256 + byte(text, i) end
  return n
end

-- Returns n in so many bytes.
local function bytes(n, length)
  local text = ''
  for _ = 1, length do
    local low = n % 256
    text, n = char(low) .. text, (n - low) / 256
  end
  return text
end

-- Returns the time of the stamp in six bytes of text: of the times that it may be, the one nearest to now.
local function stamp(text, first)
  local age = (now - number(text, first, first + 5)) % 281474976710656
  if age >= 140737488355328 then age = age - 281474976710656 end
  return now - age
end

-- Takes units back from a log, and returns how many. Entries that are dropped are not looked at.
local function log(key, window)
  local newest = try('LINDEX', key, -1)
  if not newest then return units end
  if type(newest) ~= 'string' or #newest ~= 9 and #newest ~= 12 then return 0 end
  if stamp(newest, 1) <= now - window then return units end
  local dropped = floor(number(newest, 7, 9) / 1048576)
  local live = call('LLEN', key) - dropped
  local entries = {} -- newest first, down to those that hold the units
  local found, same, counted = 0, 0
  while found < units and #entries < live and same <= depth do
    local entry = #entries == 0 and newest or call('LINDEX', key, -1 - #entries)
    if #entry ~= 9 and #entry ~= 12 then break end
    counted = stamp(entry, 1)
    if counted < at then break end
    entries[#entries + 1] = entry
    if counted == at then
      found, same = found + (#entry == 12 and number(entry, 10, 12) or 1), same + 1
    elseif #entries > depth then
      return 0
    end
  end
  if found == 0 then return 0 end
  local last = #entries
  if last < live then -- the entry before may become the newest
    entries[last + 1] = call('LINDEX', key, -1 - last)
    if #entries[last + 1] ~= 9 and #entries[last + 1] ~= 12 then return 0 end
  end
  local kept, returned = {}, 0
  for i = #entries, 1, -1 do
    local entry = entries[i]
    local own = #entry == 12 and number(entry, 10, 12) or 1
    if i <= last and stamp(entry, 1) == at then
      local taken = math.min(own, units - returned)
      own, returned = own - taken, returned + taken
    end
    if own > 0 then
      local total = (number(entry, 7, 9) - returned) % 1048576
      kept[#kept + 1] = string.sub(entry, 1, 6) .. bytes(total, 3) .. (own == 1 and '' or bytes(own, 3))
    end
  end
  if #kept == 0 then
    call('DEL', key) -- with the entries that are dropped
    return returned
  end
  -- The newest entry alone says how many entries are dropped.
  local top = kept[#kept]
  kept[#kept] = string.sub(top, 1, 6) .. bytes(number(top, 7, 9) + dropped * 1048576, 3) .. string.sub(top, 10)
  call('LTRIM', key, 0, -1 - #entries)
  call('RPUSH', key, unpack(kept))
  if dropped + live == #entries then
    -- The key was without entries, and has gone with its TTL; see "log count" of decide.lua.tmpl.
    call('PEXPIRE', key, floor((stamp(top, 1) - now + window * 1.5) / 1000) + 1000)
  end
  return returned
end

-- Takes units back from a counter, and returns how many count no more.
local function counter(key, window)
  local value = try('GET', key)
  if not value then return units end
  if type(value) ~= 'string' or #value ~= 12 and #value ~= 18 then return 0 end
  local size = #value == 12 and 3 or 6
  local own = at - at % window -- when the fixed window of the request began
  local begun = stamp(value, #value - 5)
  local spent = number(value, size + 1, 2 * size) == 0 and (now - begun >= window or number(value, 1, size) == 0)
  if spent or own + 2 * window <= math.max(now, begun) or begun + 2 * window <= now then return units end
  local first
  if begun == own then
    first = size
  elseif begun == own + window then
    first = 0
  else
    return 0
  end
  local count = number(value, first + 1, first + size)
  local returned = math.min(count, units)
  -- The TTL that the key has, so that a full server takes the next command.
  call('PEXPIRE', key, floor((2 * window - now + begun) / 1000) + 1000)
  call('SETRANGE', key, first, bytes(count - returned, size))
  return returned
end

local least = units
for i, key in ipairs(KEYS) do
  local algorithm, window = ARGV[1 + 2 * i], ARGV[2 + 2 * i] + 0
  local returned
  if algorithm == 'counter' then
    returned = counter(key, window)
  elseif at <= now - window then
    returned = units
  else
    returned = log(key, window)
  end
  least = math.min(least, returned)
end
return string.format('%.0f', least)
