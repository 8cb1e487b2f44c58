"""Scripts of a group's life: ready, taken by a learner, finished, kept for replay, freed."""

from agentmem.replay.lua.shared import script

_GROUPS = r"""
-- Would another insert keep the replay table within its limiter? {samples per insert, min size, max diff}
local function insertable(limit)
  if redis.call('ZCARD', P .. 'replay') < limit[2] then return true end
  return count('replay_inserted') * limit[1] - count('replay_sampled') + limit[1] <= limit[3]
end

-- A consumed group is freed, or kept for replay while the table's limiter lets it in; then the oldest leaves
-- when there are too many.
local function retire(gid, outcome, capacity, limit)
  local g = P .. 'g:' .. gid
  local keep = outcome == 'trained' and capacity > 0
  if keep and not insertable(limit) then
    keep = false
    add('replay_refused', 1)
  end
  if keep then
    add('replay_inserted', 1)
    local bytes, members = 0, stored(g)
    for i = 1, #members, 2 do bytes = bytes + read_record(members[i + 1]) end
    add('bytes', -bytes)
    add('replay_bytes', bytes)
    redis.call('ZADD', P .. 'replay', redis.call('HGET', g, 'seq'), gid)
    while redis.call('ZCARD', P .. 'replay') > capacity do evict_replay() end
  else
    add('bytes', -free_members(g))
  end
end

local function describe(gid)
  local v = redis.call('HMGET', P .. 'g:' .. gid, 'size', 'seq')
  return {gid, v[1], v[2], stored(P .. 'g:' .. gid)}
end

local function give_back(gid)
  redis.call('ZREM', P .. 'taken', gid)
  redis.call('HDEL', P .. 'taker', gid)
  make_ready(gid)
end
"""

TAKE = script(
    _GROUPS
    + r"""
-- consumer, n, at least, current version ('' unknown), max staleness ('' none), min version ('' none),
-- lease in ms, wait in ms, groups that must be ready until the end of the stream
-- reply: groups of {id, size, seq, {ticket, record, ...}}
pass_when_full()
local consumer, n, at_least = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local least_ready = tonumber(ARGV[9])
if redis.call('HGET', P .. 'cursors', 'end_of_stream') == '1' then least_ready = 0 end
local current, staleness, floor = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if current and staleness then floor = math.max(floor or 0, current - staleness) end
local now = now_ms()
for _, gid in ipairs(redis.call('ZRANGEBYSCORE', P .. 'taken', '-inf', now)) do
  give_back(gid)
  add('group_leases_expired', 1)
end

local function oldest_version(gid)
  local members, low = stored(P .. 'g:' .. gid), nil
  for i = 1, #members, 2 do
    local _, lo = read_record(members[i + 1])
    if lo and (not low or lo < low) then low = lo end
  end
  return low
end

local fit, place = {}, 0
while #fit < n do
  local gid = redis.call('ZRANGE', P .. 'ready', place, place)[1]
  if not gid then break end
  local low = floor and oldest_version(gid)
  if low and low < floor then
    local ok = tonumber(redis.call('HGET', P .. 'g:' .. gid, 'ok'))
    redis.call('ZREM', P .. 'ready', gid)
    redis.call('HSET', P .. 'done', gid, 'expired')
    count_expired(P .. 'g:' .. gid, 1)
    add('expired', ok)
    drop('stale', ok)
    add('bytes', -free_members(P .. 'g:' .. gid))
  else
    fit[#fit + 1] = gid
    place = place + 1
  end
end
wake_producers()

if #fit < at_least or redis.call('ZCARD', P .. 'ready') < least_ready then
  if tonumber(ARGV[8]) > 0 then
    redis.call('DEL', P .. 'wake')
    redis.call('SET', P .. 'starving', consumer, 'PX', ARGV[8])
  end
  return {}
end
redis.call('DEL', P .. 'starving')
local out = {}
for _, gid in ipairs(fit) do
  redis.call('ZREM', P .. 'ready', gid)
  redis.call('ZADD', P .. 'taken', now + tonumber(ARGV[7]), gid)
  redis.call('HSET', P .. 'taker', gid, consumer)
  out[#out + 1] = describe(gid)
end
return out
"""
)

RENEW_GROUPS = script(r"""
-- lease in ms; group ids. Reply: how many are still leased
local n, until_ms = 0, now_ms() + tonumber(ARGV[1])
for i = 2, #ARGV do
  if redis.call('ZSCORE', P .. 'taken', ARGV[i]) then
    redis.call('ZADD', P .. 'taken', until_ms, ARGV[i])
    n = n + 1
  end
end
return n
""")

RETURN = script(
    _GROUPS
    + r"""
-- consumer whose groups all go back ('' none); group ids. Reply: how many went back
pass_when_full()
local n, ids = 0, {}
if ARGV[1] ~= '' then
  local takers = redis.call('HGETALL', P .. 'taker')
  for i = 1, #takers, 2 do
    if takers[i + 1] == ARGV[1] then ids[#ids + 1] = takers[i] end
  end
end
for i = 2, #ARGV do ids[#ids + 1] = ARGV[i] end
for _, gid in ipairs(ids) do
  if redis.call('ZSCORE', P .. 'taken', gid) then
    give_back(gid)
    n = n + 1
  end
end
return n
"""
)

FINISH = script(
    _GROUPS
    + r"""
-- outcome, hold (0 or 1), replay capacity in groups, samples per insert, min size, max diff; group ids
-- reply: {groups finished, consumption cursor}
-- A group whose lease ran out and that nobody took since is finished all the same: the work was done.
pass_when_full()
local outcome, hold, capacity, n = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3]), 0
local limit = {tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])}
for i = 7, #ARGV do
  local gid = ARGV[i]
  if redis.call('ZREM', P .. 'taken', gid) + redis.call('ZREM', P .. 'ready', gid) > 0 then
    local g = P .. 'g:' .. gid
    redis.call('HDEL', P .. 'taker', gid)
    redis.call('HSET', P .. 'done', gid, outcome)
    add(outcome, tonumber(redis.call('HGET', g, 'ok')))
    if outcome == 'expired' then count_expired(g, 1) end
    local cursor = redis.call('HINCRBY', N, 'consumed', 1)
    if hold then
      redis.call('ZADD', P .. 'held', cursor, gid)
    else
      retire(gid, outcome, capacity, limit)
    end
    n = n + 1
  end
end
wake_producers()
return {n, count('consumed')}
"""
)

SETTLE = script(
    _GROUPS
    + r"""
-- cursor, replay capacity, samples per insert, min size, max diff. What was consumed up to the cursor needn't
-- come back. Reply: groups let go
pass_when_full()
local limit = {tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])}
local ids = redis.call('ZRANGEBYSCORE', P .. 'held', '-inf', ARGV[1])
for _, gid in ipairs(ids) do
  redis.call('ZREM', P .. 'held', gid)
  retire(gid, redis.call('HGET', P .. 'done', gid), tonumber(ARGV[2]), limit)
end
wake_producers()
return #ids
"""
)

REWIND = script(
    _GROUPS
    + r"""
-- cursor. What was consumed after the cursor is ready again. Reply: groups that came back
pass_when_full()
local ids = redis.call('ZRANGEBYSCORE', P .. 'held', '(' .. ARGV[1], '+inf')
for _, gid in ipairs(ids) do
  local outcome = redis.call('HGET', P .. 'done', gid)
  redis.call('ZREM', P .. 'held', gid)
  redis.call('HDEL', P .. 'done', gid)
  add(outcome, -tonumber(redis.call('HGET', P .. 'g:' .. gid, 'ok')))
  if outcome == 'expired' then count_expired(P .. 'g:' .. gid, -1) end
  make_ready(gid)
end
return #ids
"""
)

QUARANTINE = script(r"""
-- group id, ticket id, min_group, what. A stored payload that can't be read: its trial fails, its bytes are
-- set aside. Reply: 1 the group goes on without it (or isn't taken any more), 0 the group has failed
pass_when_full()
local gid, id, min_group = ARGV[1], ARGV[2], tonumber(ARGV[3])
local g = P .. 'g:' .. gid
local text = redis.call('HGET', g, 't:' .. id)
local bytes, _, _, chunks = read_record(text or '')
if not bytes or not redis.call('ZSCORE', P .. 'taken', gid) then return 1 end
set_aside(id, gid, chunks, ARGV[4], false)
redis.call('HSET', g, 't:' .. id, 'x')
redis.call('HINCRBY', g, 'bad', 1)
local ok = redis.call('HINCRBY', g, 'ok', -1)
add('bytes', -bytes)
add('failed', 1)
if ok >= math.max(min_group, 1) then return 1 end
redis.call('ZREM', P .. 'taken', gid)
redis.call('HDEL', P .. 'taker', gid)
redis.call('HSET', P .. 'done', gid, 'failed')
add('failed', ok)
drop('group_below_min', ok)
add('bytes', -free_members(g))
wake_producers()
return 0
""")
