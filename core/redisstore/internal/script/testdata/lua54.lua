-- Runs scripts in Lua 5.4, where integers and floats differ, as servers do that have another Lua than Redis. A line of
-- the input is a table in Lua: what a script is called with, and the first time its source. Lines of the output are in
-- hex: the script's commands, each answered by a line that is Lua, and at last its reply.

local hex = {}
for i = 0, 255 do hex[string.char(i)] = string.format('%02x', i) end

local function write(kind, texts)
  for i, text in ipairs(texts) do texts[i] = string.gsub(text, '.', hex) end
  io.write(kind, ' ', table.concat(texts, ' '), '\n')
  io.flush()
end

local function read()
  local line = io.read('L')
  if not line then os.exit() end
  return load('return ' .. line)()
end

-- Returns the text that a server makes of an argument. Redis 7.2.0 to 7.2.4 make 1e+8 of the number 100000000.
local function argument(arg)
  if type(arg) ~= 'string' and arg >= 1e8 then error('the number ' .. arg .. ' is an argument') end
  return tostring(arg)
end

local function try(...)
  local texts = {}
  for i, arg in ipairs({...}) do texts[i] = argument(arg) end
  write('call', texts)
  return read()
end

local function call(...)
  local reply = try(...)
  if type(reply) == 'table' and reply.err then error(reply) end
  return reply
end

local scripts, environment = {}, {
  redis = {call = call, pcall = try}, string = string, table = table, math = math, type = type, ipairs = ipairs,
}
while true do
  local given = read()
  if given.source then scripts[given.sha] = load(given.source, 'script', 't', environment) end
  environment.KEYS, environment.ARGV = given.keys, given.args
  local ok, reply = pcall(scripts[given.sha])
  if ok and type(reply) == 'string' then
    write('reply', {reply})
  else
    write('error', {type(reply) == 'table' and reply.err or tostring(reply)})
  end
end
