-- Takes units back that decide.lua has counted for a request, under all limits of a rule at one instant of the server's
-- clock. It is a text/template as decide.lua is. Functions has a function for each algorithm, "log return" for example,
-- and Steps their names.
--
-- KEYS     one for each limit, all in one hash slot
-- ARGV     the stamp of the request in microseconds, what is left of its cost, and the units; then for each limit its
--          algorithm, as "log", "counter", "coarse" or "bucket", its window in microseconds, and its Requests
-- Returns  how many units count no more under any limit, as text
--
-- Units that a key does not hold stay where they are: where a clock that was ahead has left its mark, for example. A
-- key that counts nothing, such as one that was reset, holds no units. A value that is not the store's is left to the
-- next decision. As there, a first command that takes no memory lets a full server take the commands after it.
local call, try = redis.call, redis.pcall
local byte, char, unpack = string.byte, string.char, table.unpack or unpack
local depth = 1000 -- window.ReturnDepth
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at, left, units = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0

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

{{.Functions}}

local least, steps = units, { {{- .Steps -}} }
for i, key in ipairs(KEYS) do
  least = math.min(least, steps[ARGV[1 + 3 * i]](key, ARGV[2 + 3 * i] + 0, ARGV[3 + 3 * i] + 0))
end
return string.format('%.0f', least)
