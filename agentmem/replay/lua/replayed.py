"""Scripts of the replay table: what there is to draw from, what was drawn, what is damaged.

A limiter comes as samples per insert, the least size, and the least difference
`inserts * samples per insert - samples` that a draw may leave.
"""

from agentmem.replay.lua.shared import script

_DRAWS = r"""
-- How many groups may be drawn now
local function allowed(per_insert, min_size, min_diff)
  if redis.call('ZCARD', P .. 'replay') < min_size then return 0 end
  return math.max(0, math.floor(count('replay_inserted') * per_insert - count('replay_sampled') - min_diff))
end
"""

REPLAY_TABLE = script(
    _DRAWS
    + r"""
-- n, samples per insert, min size, min diff. Reply: {how many of n may be drawn,
-- {id, size, seq, {ticket, record, ...}, priority or ''} of each group, oldest first}
local n = tonumber(ARGV[1])
local may = math.min(n, allowed(tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])))
local ids, out = redis.call('ZRANGE', P .. 'replay', 0, -1), {}
if may < math.min(n, #ids) then
  pass_when_full()
  add('replay_limited', math.min(n, #ids) - may)
end
for _, gid in ipairs(may > 0 and ids or {}) do
  local v = redis.call('HMGET', P .. 'g:' .. gid, 'size', 'seq', 'priority')
  out[#out + 1] = {gid, v[1], v[2], stored(P .. 'g:' .. gid), v[3] or ''}
end
return {may, out}
"""
)

REPLAY_DRAWN = script(
    _DRAWS
    + r"""
-- max samples, samples per insert, min size, min diff; group ids that were drawn. A group drawn that often
-- leaves the table. Reply per group: 1 the draw counts, 0 it left or the limiter was used up in between
pass_when_full()
local min_size, out = tonumber(ARGV[3]), {}
for i = 5, #ARGV do
  local g, result = P .. 'g:' .. ARGV[i], 0
  local may = allowed(tonumber(ARGV[2]), min_size, tonumber(ARGV[4])) > 0
  if may and redis.call('ZSCORE', P .. 'replay', ARGV[i]) then
    result = 1
    add('replay_drawn', tonumber(redis.call('HGET', g, 'ok')))
    add('replay_sampled', 1)
    if redis.call('HINCRBY', g, 'samples', 1) >= tonumber(ARGV[1]) then
      redis.call('ZREM', P .. 'replay', ARGV[i])
      add('replay_bytes', -free_members(g))
      min_size = min_size - 1  -- this call's draws were let in together
    end
  end
  out[#out + 1] = result
end
wake_producers()
return out
"""
)

REPLAY_DAMAGED = script(r"""
-- group id, ticket id, what. A group with a payload that can't be read leaves the table. Reply: 1, or 0 if it
-- had left before
pass_when_full()
local g = P .. 'g:' .. ARGV[1]
local bytes, _, _, chunks = read_record(redis.call('HGET', g, 't:' .. ARGV[2]) or '')
if not bytes or redis.call('ZREM', P .. 'replay', ARGV[1]) == 0 then return 0 end
set_aside(ARGV[2], ARGV[1], chunks, ARGV[3], false)
add('replay_bytes', -free_members(g))
wake_producers()
return 1
""")

SET_PRIORITIES = script(r"""
-- items of 2: group id, priority. Reply: groups that are still there
pass_when_full()
local n = 0
for i = 1, #ARGV, 2 do
  if redis.call('EXISTS', P .. 'g:' .. ARGV[i]) == 1 then
    redis.call('HSET', P .. 'g:' .. ARGV[i], 'priority', ARGV[i + 1])
    n = n + 1
  end
end
return n
""")
