"""Lua functions that several scripts share.

A member's record in its group (`t:<ticket>`) is '' while the ticket lives, 'x' when it failed, and
`bytes:lowest version:highest version:chunks:sampled tokens:commit time in ms:environment` when its trial is
stored (versions may be empty).
"""

PRELUDE = r"""
local P = KEYS[1]
local N = P .. 'n'
local READERS = 'agents'
local STREAM = {e = P .. 'eval', a = P .. 'again', t = P .. 'train'}

local function add(field, x)
  if x ~= 0 then redis.call('HINCRBY', N, field, x) end
end

local function count(field)
  return tonumber(redis.call('HGET', N, field) or '0')
end

local function drop(reason, x)
  if x ~= 0 then redis.call('HINCRBY', P .. 'drops', reason, x) end
end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- A script whose first write may not run out of memory is let through by a full server as a whole. What frees
-- memory, or hands work to those who will free it, starts with this.
local function pass_when_full()
  redis.call('DEL', P .. 'none')
end

local function payload_keys(id, chunks)
  if chunks == 1 then return {P .. 'd:' .. id} end
  local keys = {}
  for i = 0, chunks - 1 do keys[#keys + 1] = P .. 'd:' .. id .. ':' .. i end
  return keys
end

local function read_record(text)
  local bytes, lo, hi, chunks, tokens, env = string.match(
    text, '^(%d+):(%-?%d*):(%-?%d*):(%d+):(%d+):%d+:(.*)$')
  if not bytes then return nil end
  return tonumber(bytes), tonumber(lo), tonumber(hi), tonumber(chunks), tonumber(tokens), env
end

-- The stored members of a hash with `t:` fields: {ticket, record, ticket, record, ...}
local function stored(hash)
  local fields, out = redis.call('HGETALL', hash), {}
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 2) == 't:' and read_record(fields[i + 1]) then
      out[#out + 1] = string.sub(fields[i], 3)
      out[#out + 1] = fields[i + 1]
    end
  end
  return out
end

-- Delete the hash and the payloads of its stored members; returns the payload bytes freed.
local function free_members(hash)
  local members, freed = stored(hash), 0
  for i = 1, #members, 2 do
    local bytes, _, _, chunks = read_record(members[i + 1])
    redis.call('UNLINK', unpack(payload_keys(members[i], chunks)))
    freed = freed + bytes
  end
  redis.call('UNLINK', hash)
  return freed
end

-- Expired trials by environment, and by length: sampled tokens, up to the next power of two.
local function count_expired(hash, sign)
  local members = stored(hash)
  for i = 1, #members, 2 do
    local _, _, _, _, tokens, env = read_record(members[i + 1])
    local bucket = 1
    while bucket < tokens do bucket = bucket * 2 end
    redis.call('HINCRBY', P .. 'expired', 'env:' .. env, sign)
    redis.call('HINCRBY', P .. 'expired', 'length:' .. bucket, sign)
  end
end

-- A payload that can't be read is kept for a look, the newest few megabytes of such.
local BAD_BYTES = 8388608

local function evict_bad()
  local item = redis.call('LPOP', P .. 'bad')
  if not item then return 0 end
  local bytes, chunks, id = string.match(item, '^(%d+):(%d+):(.*)$')
  for c = 0, tonumber(chunks) - 1 do redis.call('UNLINK', P .. 'bad:' .. id .. ':' .. c) end
  add('quarantined_bytes', -tonumber(bytes))
  return tonumber(bytes)
end

local function set_aside(id, owner, chunks, what, eval)
  local bytes = 0
  for c, key in ipairs(payload_keys(id, chunks)) do
    local size = redis.pcall('STRLEN', key)
    if type(size) == 'number' and size > 0 then
      bytes = bytes + size
      redis.call('RENAME', key, P .. 'bad:' .. id .. ':' .. (c - 1))
    end
  end
  redis.call('RPUSH', P .. 'bad', bytes .. ':' .. chunks .. ':' .. id)
  add('quarantined_bytes', bytes)
  while count('quarantined_bytes') > BAD_BYTES do
    if evict_bad() == 0 then break end
  end
  drop('corrupt', 1)
  redis.call('RPUSH', P .. 'dead', cjson.encode({
    ticket = id, owner = owner, eval = eval, kind = 'data', what = what, where = 'payload', attempts = 0,
    at_ms = now_ms()}))
end

local function progress_bytes(id)
  return tonumber(redis.call('HGET', P .. 'p:' .. id, 'bytes') or '0')
end

local function free_progress(id)
  local bytes = progress_bytes(id)
  if bytes > 0 then
    redis.call('UNLINK', P .. 'p:' .. id)
    add('progress_bytes', -bytes)
  end
end

local function wake_producers()
  local waiting = redis.call('ZCARD', P .. 'blocked')
  if waiting > 0 then
    redis.call('DEL', P .. 'space')
    for _ = 1, waiting do redis.call('RPUSH', P .. 'space', '1') end
    redis.call('PEXPIRE', P .. 'space', 5000)
  end
end

local function make_ready(gid)
  redis.call('ZADD', P .. 'ready', redis.call('HGET', P .. 'g:' .. gid, 'seq'), gid)
  if redis.call('EXISTS', P .. 'starving') == 1 then
    redis.call('DEL', P .. 'wake')
    redis.call('RPUSH', P .. 'wake', '1')
    redis.call('PEXPIRE', P .. 'wake', 5000)
  end
end

-- A group whose members have all committed or failed leaves the open set: ready if at least `min_group`
-- trials are stored, else it fails as a whole and its stored trials count as failed.
local function close_if_complete(gid, min_group)
  local g = P .. 'g:' .. gid
  local v = redis.call('HMGET', g, 'size', 'ok', 'bad')
  local ok = tonumber(v[2])
  if ok + tonumber(v[3]) < tonumber(v[1]) then return end
  redis.call('SREM', P .. 'open', gid)
  if ok >= math.max(min_group, 1) then
    make_ready(gid)
  else
    add('failed', ok)
    drop('group_below_min', ok)
    add('bytes', -free_members(g))
    redis.call('HSET', P .. 'done', gid, 'failed')
    wake_producers()
  end
end

-- A live ticket: its stream's letter, its current entry, its group (training) or batch (evaluation).
local function live(id)
  local value = redis.call('HGET', P .. 'entry', id)
  if not value then return nil end
  local letter, entry, owner = string.match(value, '^(%a)(%d+%-%d+) (.*)$')
  return letter, entry, owner
end

local function attempt_of(id)
  return tonumber(redis.call('HGET', P .. 'kills', id) or '0')
    + tonumber(redis.call('HGET', P .. 'retries', id) or '0')
end

-- Is this claim (its entry and its attempt) still the one that holds the ticket?
local function holds(id, entry, attempt)
  local letter, current, owner = live(id)
  if current == entry and attempt_of(id) == tonumber(attempt) then return letter, owner end
  return nil
end

local function leave_stream(id, letter, entry)
  redis.call('XACK', STREAM[letter], READERS, entry)
  redis.call('XDEL', STREAM[letter], entry)
  redis.call('HDEL', P .. 'entry', id)
end

local function forget_attempts(id)
  redis.call('HDEL', P .. 'kills', id)
  redis.call('HDEL', P .. 'retries', id)
end

-- Queue a ticket again: before the tickets that were never claimed, and at the end of the evaluations.
local function requeue(id, letter, entry, owner)
  local found = redis.call('XRANGE', STREAM[letter], entry, entry)
  leave_stream(id, letter, entry)
  local to = letter == 'e' and 'e' or 'a'
  local fresh = redis.call('XADD', STREAM[to], '*', unpack(found[1][2]))
  redis.call('HSET', P .. 'entry', id, to .. fresh .. ' ' .. owner)
end

-- Dead letter: the ticket has failed for good; its group is completed without it.
local function bury(id, letter, entry, owner, kind, what, where, min_group)
  leave_stream(id, letter, entry)
  local attempts = attempt_of(id)
  forget_attempts(id)
  free_progress(id)
  redis.call('RPUSH', P .. 'dead', cjson.encode({
    ticket = id, owner = owner, eval = letter == 'e', kind = kind, what = what, where = where,
    attempts = attempts, at_ms = now_ms()}))
  redis.call('LTRIM', P .. 'dead', -10000, -1)
  drop('failed_' .. kind, 1)
  if letter == 'e' then
    redis.call('HSET', P .. 'eval:' .. owner, 't:' .. id, 'x')
    redis.call('HINCRBY', P .. 'eval:' .. owner, 'bad', 1)
    add('eval_failed', 1)
  else
    redis.call('HSET', P .. 'g:' .. owner, 't:' .. id, 'x')
    redis.call('HINCRBY', P .. 'g:' .. owner, 'bad', 1)
    add('failed', 1)
    close_if_complete(owner, min_group)
  end
end

local function evict_replay()
  local oldest = redis.call('ZRANGE', P .. 'replay', 0, 0)[1]
  if not oldest then return 0 end
  redis.call('ZREM', P .. 'replay', oldest)
  local freed = free_members(P .. 'g:' .. oldest)
  add('replay_bytes', -freed)
  add('replay_evicted', 1)
  return freed
end

local function used_bytes()
  local v = redis.call('HMGET', N, 'bytes', 'progress_bytes', 'replay_bytes', 'quarantined_bytes')
  return tonumber(v[1] or '0') + tonumber(v[2] or '0') + tonumber(v[3] or '0') + tonumber(v[4] or '0')
end

-- May `more` bytes of training data be stored? What was set aside and old groups kept for replay give way
-- first. A learner that waits for groups overrules the budget: nothing would be freed before it gets them.
local function admitted(more, budget)
  if used_bytes() + more <= budget then return true end
  while used_bytes() + more > budget do
    if evict_bad() == 0 and evict_replay() == 0 then break end
  end
  if used_bytes() + more <= budget then return true end
  if redis.call('EXISTS', P .. 'starving') == 1 or used_bytes() == 0 then
    add('budget_overruled', 1)
    return true
  end
  return false
end

-- May another group become ready, by the limiter of the online table? Ready groups are inserts without a
-- sample. As with bytes, a learner that waits overrules it.
local function within_limit(max_ahead)
  if redis.call('ZCARD', P .. 'ready') + 1 <= max_ahead then return true end
  if redis.call('EXISTS', P .. 'starving') == 1 then return true end
  add('online_limited', 1)
  return false
end

-- Large payloads come as keys set in the same transaction, small ones as they are.
local function store(key, value, staged)
  if staged then
    redis.call('RENAME', value, key)
    redis.call('PERSIST', key)
  else
    redis.call('SET', key, value)
  end
end

-- `waited_ms` is how long this producer has waited since it last asked; negative if it wasn't blocked.
local function note_blocked(producer, waited_ms, blocked)
  if waited_ms > 0 then add('blocked_ms', waited_ms) end
  if blocked then
    redis.call('ZADD', P .. 'blocked', now_ms(), producer)
  elseif waited_ms >= 0 then
    redis.call('ZREM', P .. 'blocked', producer)
  end
end
"""


def script(body: str) -> str:
    """A whole script: the shared functions, then `body`."""
    return PRELUDE + body
