"""Scripts about the sizes that somebody wishes a run to have, and about what the run says of itself."""

from agentmem.replay.lua.shared import script

WISH = script(r"""
-- kind, number ('' takes the wish back), kind, number, ... Reply: the wish's own number
pass_when_full()
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', P .. 'wish', ARGV[i])
  else
    redis.call('HSET', P .. 'wish', ARGV[i], ARGV[i + 1])
  end
end
return redis.call('HINCRBY', P .. 'wish', '#', 1)
""")

CONFIGURED = script(r"""
-- kind, number, kind, number, ... that a driver was configured with. A wish for a kind of which the
-- configured number has changed since the driver before is over. Reply: the kinds of such wishes
pass_when_full()
local over = {}
for i = 1, #ARGV, 2 do
  local kind, before = ARGV[i], redis.call('HGET', P .. 'wish', 'configured:' .. ARGV[i])
  if before and before ~= ARGV[i + 1] and redis.call('HDEL', P .. 'wish', kind) == 1 then
    over[#over + 1] = kind
  end
  redis.call('HSET', P .. 'wish', 'configured:' .. kind, ARGV[i + 1])
end
return over
""")

REPORT = script(r"""
-- what the driver says of itself
pass_when_full()
redis.call('HSET', P .. 'status', 'said', ARGV[1], 'at', now_ms())
return 1
""")

REPORTED = script(r"""
-- reply: {what the driver said last, how many milliseconds ago}, or nothing
local said = redis.call('HMGET', P .. 'status', 'said', 'at')
if not said[1] then return {} end
return {said[1], now_ms() - tonumber(said[2])}
""")
