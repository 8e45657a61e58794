-- A sliding log in a sorted set, as it is usually written: what the list of the
-- shipped script is compared with. One member for each request.
--
-- KEYS     the set; a sequence that makes members unique
-- ARGV     window in microseconds; requests
-- Returns  admitted, remaining, microseconds until the oldest leaves

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window, requests = tonumber(ARGV[1]), tonumber(ARGV[2])

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
local count = redis.call('ZCARD', KEYS[1])
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local reset = oldest[2] and oldest[2] + window - now or window
if count >= requests then return { 0, 0, reset } end

local stamp, ttl = string.format('%.0f', now), string.format('%.0f', window / 1000 + 1000)
redis.call('ZADD', KEYS[1], stamp, redis.call('INCR', KEYS[2]))
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('PEXPIRE', KEYS[2], ttl)
return { 1, requests - count - 1, reset }
