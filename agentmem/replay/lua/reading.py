"""Scripts about the run as a whole: opening it, its counters, its cursors, its evaluations."""

from agentmem.replay.lua.shared import script

OPEN = script(r"""
-- schema version, fingerprint of the recipe ('' any), only look (0 or 1)
-- reply: {schema, fingerprint} that the run has
if ARGV[3] == '1' then return redis.call('HMGET', P .. 'meta', 'schema', 'fingerprint') end
pass_when_full()
for _, letter in ipairs({'e', 'a', 't'}) do
  redis.pcall('XGROUP', 'CREATE', STREAM[letter], READERS, '0', 'MKSTREAM')
end
redis.call('HSETNX', P .. 'meta', 'schema', ARGV[1])
if ARGV[2] ~= '' then redis.call('HSETNX', P .. 'meta', 'fingerprint', ARGV[2]) end
return redis.call('HMGET', P .. 'meta', 'schema', 'fingerprint')
""")

COUNTERS = script(r"""
-- reply: {names and values of the totals, drops, expired, live numbers}. Where tickets are is read off the
-- structures that hold them; only what is gone for good is a total.
local function pending(letter)
  return redis.call('XPENDING', STREAM[letter], READERS)[1]
end
local function length(letter)
  return redis.call('XLEN', STREAM[letter])
end

local buffered = 0
local function count_stored(gid)
  buffered = buffered + tonumber(redis.call('HGET', P .. 'g:' .. gid, 'ok') or '0')
end
for _, gid in ipairs(redis.call('SMEMBERS', P .. 'open')) do count_stored(gid) end
for _, gid in ipairs(redis.call('ZRANGE', P .. 'ready', 0, -1)) do count_stored(gid) end
for _, gid in ipairs(redis.call('ZRANGE', P .. 'taken', 0, -1)) do count_stored(gid) end

local running, eval_running = pending('t') + pending('a'), pending('e')
return {
  redis.call('HGETALL', N),
  redis.call('HGETALL', P .. 'drops'),
  redis.call('HGETALL', P .. 'expired'),
  {
    'queued', length('t') + length('a') - running,
    'running', running,
    'buffered', buffered,
    'eval_queued', length('e') - eval_running,
    'eval_running', eval_running,
    'groups_open', redis.call('SCARD', P .. 'open'),
    'groups_ready', redis.call('ZCARD', P .. 'ready'),
    'groups_taken', redis.call('ZCARD', P .. 'taken'),
    'groups_held', redis.call('ZCARD', P .. 'held'),
    'replay_groups', redis.call('ZCARD', P .. 'replay'),
    'dead_letters', redis.call('LLEN', P .. 'dead'),
    -- a producer that died while it was blocked stops renewing its place
    'blocked_producers', redis.call('ZCOUNT', P .. 'blocked', now_ms() - 5000, '+inf'),
  },
}
""")

DROP_EVAL = script(r"""
-- batch. Its results are freed; tickets of it that are still alive are withdrawn. Reply: tickets of the batch
pass_when_full()
local batch = P .. 'eval:' .. ARGV[1]
local fields, n = redis.call('HGETALL', batch), 0
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 2) == 't:' then
    local id = string.sub(fields[i], 3)
    local letter, entry = live(id)
    if letter == 'e' and fields[i + 1] == '' then
      leave_stream(id, letter, entry)
      forget_attempts(id)
      free_progress(id)
      add('eval_failed', 1)
      drop('eval_withdrawn', 1)
    end
    n = n + 1
  end
end
add('bytes', -free_members(batch))
wake_producers()
return n
""")

QUARANTINE_EVAL = script(r"""
-- batch, ticket id, what: a result that can't be read counts as failed
pass_when_full()
local batch = P .. 'eval:' .. ARGV[1]
local bytes, _, _, chunks = read_record(redis.call('HGET', batch, 't:' .. ARGV[2]) or '')
if not bytes then return 0 end
set_aside(ARGV[2], ARGV[1], chunks, ARGV[3], true)
redis.call('HSET', batch, 't:' .. ARGV[2], 'x')
redis.call('HINCRBY', batch, 'ok', -1)
redis.call('HINCRBY', batch, 'bad', 1)
add('bytes', -bytes)
add('eval_done', -1)
add('eval_failed', 1)
return 1
""")

SET_CURSOR = script(r"""
-- name, value
pass_when_full()
redis.call('HSET', P .. 'cursors', ARGV[1], ARGV[2])
return 1
""")
