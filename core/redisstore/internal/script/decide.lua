-- Decides requests under all limits of a rule, at one instant of the server's clock, and counts each request under all
-- limits or none.
--
-- This is a text/template, which script.go renders for the limits of a rule: each step of a decision is written out
-- for each limit, with the limit's number in the names of the variables, so that the script needs no tables. Comments
-- and indentation are not sent to Redis. What an algorithm does stands in a file of its own, such as log.lua. Its parts
-- are rendered first, and put in here: Script, Request and Counting once for each algorithm of the rule, and Find,
-- Judge, Count and Reply for each limit. Find is "log find" for each limit that is a log, for example. Locals and
-- Limits set the variables of each limit, and Keys that of its key.
--
-- KEYS     for each request one for each limit, all in one hash slot
-- ARGV     the limits of the first request: the Requests of each; then the window of each in microseconds, unless the
--          windows stand in the script; then for a lease how far ahead of TIME it is stamped. Then for each request its
--          cost, negative to answer without counting, after '!' if it is a charge, which is counted whatever the limits
--          say, and before that after '+' and its limits if these differ from those of the request before. Costs of 1
--          at the end may be left out.
-- Returns  TIME as 'seconds microseconds', and a part for each request. format.go describes the parts, and the file
--          of an algorithm, such as log.go, what stands in Redis, with an example of each.
--
-- Expiry is reckoned against TIME. Stamps never run backwards, with the exception below. Expired entries stay in the
-- list until an entry is pushed, which says how many of them are dropped.
--
-- A clock that was ahead leaves stamps ahead of TIME, which would be in the way for as long as it was ahead. Where the
-- newest stamp of a log, or the beginning of a counter's window or of a slot, is ahead by more than the allowance (more
-- than a lease may be), all units that still count do so from now on: a log becomes one entry of TIME, a counter
-- the count of the window of TIME, a coarse log the slot of TIME. The request is decided by that. A request that
-- counts writes it, even if it is refused: else it would be found anew each time. It deletes the key first, so that a
-- full server takes the rest.
--
-- The script needs no struct, bit or cmsgpack, so that it runs on miniredis; nor does it add to texts with leading
-- zeros, which miniredis takes for octal. It runs in Lua 5.4 too, which other servers have. Numbers are dear as
-- arguments and in texts: indexes are texts, and the rest stays in bytes. Redis 7.2.0 to 7.2.4 write the number
-- 100000000 as 1e+8, so that a TTL is a text. Once anything is written, nothing raises an error, so that an error of
-- one request is not its neighbours'. Nor does a full server raise one for requests that came together: it goes on
-- refusing the clients that it knows. Any other error at the first writing is the error of all requests.

local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local byte, char = string.byte, string.char
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local clock = now % 281474976710656 -- as a stamp has it
local replies, parts, written = #KEYS > {{.Number}} and {time[1] .. ' ' .. time[2]}, 1, false

{{.Script}}
local arg = 0 -- the last of ARGV that has been read
{{.Locals}}{{if .Lease}}local ahead = ARGV[arg + {{.Args}}] + 0{{end}}
arg = {{.Args}}
for key = 0, #KEYS - 1, {{.Number}} do
  local cost, counts, charge = ARGV[arg + 1], true, false
  if not cost then
    cost = 1
  else
    arg = arg + 1
    if cost == '+' then
      {{.Limits}}{{if .Lease}}ahead = ARGV[arg + {{.Args}}] + 0{{end}}
      arg = arg + {{.Args}} + 1
      cost = ARGV[arg]
    end
    if cost == '!' then
      charge = true
      arg = arg + 1
      cost = ARGV[arg]
    end
    cost = cost + 0
    if cost <= 0 then cost, counts = -cost, false end
  end
  {{.Keys}}local stamp, admitted = now{{if .Lease}} + ahead{{end}}, true
  -- broken   a key that holds a value which is not the store's
  -- failed   the error of Redis at writing
  -- crowded  the units that stay of a log which has no room for a charge, by number of limit
  local broken, failed, crowded

  -- Each limit's value is read. A log is judged here already; the others below, since they need the newest stamp.
  {{.Request}}
  {{.Find}}

  -- The other limits are judged, at the newest stamp of all.
  {{.Judge}}

  if admitted and counts and not broken then
    {{.Counting}}
    {{.Count}}
  end

  local reply
  if broken then
    if counts then
      call('DEL', broken)
      written = true
    end
    reply = 'F' .. broken .. '\n'
  elseif failed then
    reply = 'E' .. string.gsub(failed, '\n', ' ') .. '\n'
  else
    reply = (admitted and 'A' or 'R')
    {{.Reply}}
  end
  if not replies then return time[1] .. ' ' .. time[2] .. reply end
  parts = parts + 1
  replies[parts] = reply
end
return table.concat(replies)

-- The age of the stamp in the bytes a to f, in microseconds, negative if it is ahead of TIME. Its data is the name of
-- the variable. Written out, since a call takes time.
{{define "age" -}}
{{.}} = clock - (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f)
if {{.}} < 0 or {{.}} >= 140737488355328 then {{.}} = ({{.}} + 140737488355328) % 281474976710656 - 140737488355328 end
{{end}}

-- The bytes a to f of a number below 2^48. Its data is the name of the variable, which is changed.
{{define "bytes" -}}
f = {{.}} % 256; {{.}} = ({{.}} - f) / 256
e = {{.}} % 256; {{.}} = ({{.}} - e) / 256
d = {{.}} % 256; {{.}} = ({{.}} - d) / 256
c = {{.}} % 256; {{.}} = ({{.}} - c) / 256
b = {{.}} % 256
a = ({{.}} - b) / 256
{{- end}}

-- A function that returns a number below 2^48 as six bytes. To make it takes time: make it only where it is needed.
{{define "six" -}}
local function six(n)
  local a, b, c, d, e, f
  {{template "bytes" "n"}}
  return char(a, b, c, d, e, f)
end
{{- end}}

-- What becomes of a value that is not the store's, and of an error of Redis at reading.
{{define "foreign" -}}
if type(value{{.N}}) == 'table' and not string.find(value{{.N}}.err, 'WRONGTYPE', 1, true) then return value{{.N}} end
broken = {{.Key}}
{{- end}}

-- What becomes of an error of Redis at writing. Its data is the name of the variable.
{{define "failed" -}}
if not written and not (replies and string.find({{.}}.err, 'OOM', 1, true)) then return {{.}} end
failed = {{.}}.err
{{- end}}
