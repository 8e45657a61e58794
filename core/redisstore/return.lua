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
-- next decision. As there, a first command that takes no memory lets a full server take the commands after it.

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
  local a, b, c, d, e, f = byte(text, first, first + 5)
  local age = (now - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)) % 281474976710656
  if age >= 140737488355328 then age = age - 281474976710656 end
  return now - age
end

-- Returns the cost of an entry of a log.
local function cost(entry) return #entry == 12 and number(entry, 10, 12) or 1 end

-- Finds the entries of a log that hold the units. live is how many entries of the list count. Returns the newest
-- entries of the log, oldest first; and the numbers among them of the oldest and of the newest that hold units, or
-- nothing if none within reach does. The entry before these is among the entries too, if there is one.
local function find(key, live)
  for _, most in ipairs({16, 2 * depth + 2}) do -- mostly few are newer
    local entries = call('LRANGE', key, -math.min(most, live), -1)
    local first, last, found, i = nil, nil, 0, #entries
    while i > 0 and found < units and #entries - (last or i) <= depth and (last or i) - i <= depth do
      local entry = entries[i]
      local counted = (#entry == 9 or #entry == 12) and stamp(entry, 1) or 0
      if counted < at then break end
      if counted == at then first, last, found = i, last or i, found + cost(entry) end
      i = i - 1
    end
    if i > 0 or #entries == live then return entries, first, last end
  end
end

-- Takes units back from a log, and returns how many. Entries that are dropped are not looked at.
local function log(key, window)
  local length = try('LLEN', key)
  if type(length) ~= 'number' then return 0 end
  local newest = length > 0 and call('LINDEX', key, -1)
  if not newest then return units end
  if #newest ~= 9 and #newest ~= 12 then return 0 end
  if stamp(newest, 1) <= now - window then return units end
  local dropped = floor(number(newest, 7, 9) / 1048576)
  local entries, first, last = find(key, length - dropped)
  if not first then return 0 end
  local from = math.max(1, first - 1) -- the entry before may become the newest
  local kept, returned = {}, 0
  for i = from, #entries do
    local entry = entries[i]
    local own = cost(entry)
    local cut = string.sub(entry, 10)
    if i >= first and i <= last and returned < units then
      local taken = math.min(own, units - returned)
      own, returned = own - taken, returned + taken
      cut = own == 1 and '' or bytes(own, 3)
    end
    if own > 0 then
      local t, u, v = byte(entry, 7, 9)
      local total = ((t * 256 + u) * 256 + v - returned) % 1048576
      v = total % 256
      u = (total - v) / 256 % 256
      kept[#kept + 1] = string.sub(entry, 1, 6) .. char((total - u * 256 - v) / 65536, u, v) .. cut
    end
  end
  if #kept == 0 then
    call('DEL', key) -- with the entries that are dropped
    return returned
  end
  -- The newest entry alone says how many entries are dropped.
  local top = kept[#kept]
  kept[#kept] = string.sub(top, 1, 6) .. bytes(number(top, 7, 9) + dropped * 1048576, 3) .. string.sub(top, 10)
  call('LTRIM', key, 0, from - #entries - 2)
  call('RPUSH', key, unpack(kept))
  if length == #entries - from + 1 then
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
