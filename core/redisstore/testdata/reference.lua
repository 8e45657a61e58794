-- The log kept in a sorted set, one member for each unit: the plain form that
-- the shipped script is compared with. A coarse log is one whose stamps are the
-- ends of slots. Test only.
--
-- KEYS     the set; a sequence that makes members unique
-- ARGV     cost; '1' to count, '!' to count whatever the limit says; window in
--          microseconds; requests; now in microseconds; the length of slots, none for a
--          log. To give units back: the units; 'return'; window; the stamp of the
--          request; now; slot
-- Returns  admitted, remaining, reset after, retry after ('-1': never), the stamp;
--          all but the first as strings. Or how many units count no more

local cost, window, requests, now = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local always, counts = ARGV[2] == '!', ARGV[2] ~= '0'
local slot = tonumber(ARGV[6] or 1)
local function ending(time) return time - time % slot + slot - 1 end
local function text(number) return string.format('%.0f', number) end

local cutoff = text(now - window)

if ARGV[2] == 'return' then
  local at = text(ending(tonumber(ARGV[4])))
  if tonumber(at) <= now - window or redis.call('ZCOUNT', KEYS[1], '(' .. cutoff, '+inf') == 0 then return cost end
  local own = redis.call('ZRANGEBYSCORE', KEYS[1], at, at, 'LIMIT', 0, cost)
  for _, unit in ipairs(own) do redis.call('ZREM', KEYS[1], unit) end
  return #own
end

local live = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. cutoff, '+inf', 'WITHSCORES')

-- What is counted further ahead of now than 75 s, or an eighth of the window, was
-- counted by a clock that was ahead: all units count from now on. A request that charges
-- writes that, even if it is refused.
local stamp = now
local newest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
local begun = newest[2] and tonumber(newest[2]) - slot + 1
if begun and begun - now > math.min(75000000, window / 8) then
  for unit = 2, #live, 2 do live[unit] = text(ending(now)) end
  if counts and cost > 0 then
    redis.call('DEL', KEYS[1])
    for unit = 1, #live, 2 do redis.call('ZADD', KEYS[1], live[unit + 1], live[unit]) end
  end
elseif begun and begun > stamp then
  stamp = begun
end

local units = #live / 2
local function age(unit) return tonumber(live[2 * unit]) + window - now end

local admitted, retry = 1, 0
if not always and cost > requests then
  admitted, retry = 0, -1
elseif not always and cost > 0 and units + cost > requests then
  admitted, retry = 0, age(units + cost - requests)
end

local reset = 0
if units > 0 then
  reset = age(1)
elseif admitted == 1 and cost > 0 then
  reset = ending(stamp) + window - now
end

if admitted == 1 and cost > 0 then
  units = units + cost
  if counts then
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', cutoff)
    for _ = 1, cost do
      redis.call('ZADD', KEYS[1], text(ending(stamp)), text(redis.call('INCR', KEYS[2])))
    end
  end
end

local remaining = requests - units
if remaining < 0 then remaining = 0 end
return { admitted, text(remaining), text(reset), text(retry), text(stamp) }
