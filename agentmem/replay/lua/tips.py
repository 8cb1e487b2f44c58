"""Scripts of the books of tips. A book is named `<namespace>:<task>`; a namespace has no colon.

An entry of a book's list is the 16 bytes of its digest, then its payload. The last entry's number is the
book's version. `tip_base` (in the totals) is at least the version of any book that was dropped: new books
start there, so that a version of a task never comes twice.
"""

from agentmem.replay.lua.shared import script

_BOOKS = r"""
local function total(namespace, field, x)
  if x ~= 0 then redis.call('HINCRBY', P .. 'tips:' .. namespace, field, x) end
end

-- Entries and bytes that come (or, negative, go), in the namespace and in the run
local function grow(namespace, entries, bytes)
  total(namespace, 'tips', entries)
  total(namespace, 'bytes', bytes)
  add('tips', entries)
  add('tip_bytes', bytes)
end

-- Drop a book as a whole; returns its entries
local function drop_book(book)
  local namespace = string.match(book, '^[^:]*')
  local v = redis.call('HMGET', P .. 'tip:' .. book, 'version', 'bytes')
  local entries = redis.call('LLEN', P .. 'tiplog:' .. book)
  if tonumber(v[1]) >= count('tip_base') then redis.call('HSET', N, 'tip_base', v[1] + 1) end
  grow(namespace, -entries, -tonumber(v[2]))
  total(namespace, 'tasks', -1)
  for _, kind in ipairs({'tip:', 'tiplog:', 'tiphas:', 'tipsrc:'}) do
    redis.call('UNLINK', P .. kind .. book)
  end
  redis.call('ZREM', P .. 'tips', book)
  return entries
end
"""

ADD_TIPS = script(
    _BOOKS
    + r"""
-- namespace, task, source, most entries of a book, most bytes of all books, bytes of a key; then items of 2:
-- digest, payload. Reply: {bytes of a key in this book, version}; nothing was done if the bytes differ
local namespace, source, width = ARGV[1], ARGV[3], tonumber(ARGV[6])
local most, most_bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local book = namespace .. ':' .. ARGV[2]
local head, log = P .. 'tip:' .. book, P .. 'tiplog:' .. book
local has, sources = P .. 'tiphas:' .. book, P .. 'tipsrc:' .. book

local v = redis.call('HMGET', head, 'version', 'width')
local version = tonumber(v[1] or count('tip_base'))
if v[2] and tonumber(v[2]) ~= width then return {tonumber(v[2]), version} end
if redis.call('ZSCORE', sources, source) then return {width, version} end
if not v[1] then
  redis.call('HSET', head, 'version', version, 'width', width, 'bytes', 0)
  total(namespace, 'tasks', 1)
end
local write = redis.call('HINCRBY', N, 'tip_writes', 1)
redis.call('ZADD', P .. 'tips', write, book)
redis.call('ZADD', sources, write, source)
redis.call('ZREMRANGEBYRANK', sources, 0, -most - 1)

local added, bytes = 0, 0
for i = 7, #ARGV, 2 do
  if redis.call('SADD', has, ARGV[i]) == 1 then
    redis.call('RPUSH', log, ARGV[i] .. ARGV[i + 1])
    added, bytes = added + 1, bytes + #ARGV[i] + #ARGV[i + 1]
  else
    total(namespace, 'duplicates', 1)
  end
end
version = version + added
redis.call('HSET', head, 'version', version)
redis.call('HINCRBY', head, 'bytes', bytes)
grow(namespace, added, bytes)
total(namespace, 'added', added)

local function drop_oldest()
  local entry = redis.call('LPOP', log)
  redis.call('SREM', has, string.sub(entry, 1, 16))
  redis.call('HINCRBY', head, 'bytes', -#entry)
  grow(namespace, -1, -#entry)
  total(namespace, 'dropped', 1)
end
while redis.call('LLEN', log) > most do drop_oldest() end
while count('tip_bytes') > most_bytes do
  local oldest = redis.call('ZRANGE', P .. 'tips', 0, 0)[1]
  if oldest ~= book then
    total(string.match(oldest, '^[^:]*'), 'dropped', drop_book(oldest))
  elseif redis.call('LLEN', log) > 1 then
    drop_oldest()
  else
    break
  end
end
return {width, version}
"""
)

READ_TIPS = script(r"""
-- namespace, task, after. Reply: {version, number of the first entry kept, the entries kept whose number is
-- greater than `after`}; all of them if the book hasn't come to `after`
local book = ARGV[1] .. ':' .. ARGV[2]
local version = tonumber(redis.call('HGET', P .. 'tip:' .. book, 'version') or count('tip_base'))
local first = version - redis.call('LLEN', P .. 'tiplog:' .. book) + 1
local after = tonumber(ARGV[3])
if after > version then after = 0 end
return {version, first, redis.call('LRANGE', P .. 'tiplog:' .. book, math.max(after + 1 - first, 0), -1)}
""")

DROP_TIPS = script(
    _BOOKS
    + r"""
-- namespace. Reply: entries dropped
pass_when_full()
local n = 0
for _, book in ipairs(redis.call('ZRANGE', P .. 'tips', 0, -1)) do
  if string.match(book, '^[^:]*') == ARGV[1] then n = n + drop_book(book) end
end
redis.call('UNLINK', P .. 'tips:' .. ARGV[1])
return n
"""
)
