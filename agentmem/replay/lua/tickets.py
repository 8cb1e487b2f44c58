"""Scripts of a ticket's life: submitted, claimed, renewed, released, saved, committed, failed.

Arguments come flat: first the scalars, then a fixed number of values per item.
"""

from agentmem.replay.lua.shared import script

SUBMIT = script(r"""
-- items of 5: ticket id, group or batch, group size, stream letter, ticket bytes
-- reply per item: 1 new, 0 known, or a text that says why it is refused
local out = {}
for i = 1, #ARGV, 5 do
  local id, owner, size, letter = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local result = 0
  if letter == 'e' then
    local batch = P .. 'eval:' .. owner
    if redis.call('HEXISTS', batch, 't:' .. id) == 0 and redis.call('HEXISTS', P .. 'entry', id) == 0 then
      redis.call('HSET', batch, 't:' .. id, '')
      redis.call('HINCRBY', batch, 'size', 1)
      add('eval_submitted', 1)
      result = 1
    end
  elseif redis.call('HEXISTS', P .. 'done', owner) == 0 then
    local g = P .. 'g:' .. owner
    if redis.call('HEXISTS', g, 't:' .. id) == 0 then
      local known = redis.call('HGET', g, 'size')
      if redis.call('HEXISTS', P .. 'entry', id) == 1 then
        result = 'its id is in use by another group'
      elseif known and known ~= size then
        result = 'its group has size ' .. known .. ', not ' .. size
      elseif known and redis.call('HLEN', g) - 4 >= tonumber(known) then
        result = 'its group already has ' .. known .. ' members'
      else
        if not known then
          redis.call('HSET', g, 'size', size, 'ok', 0, 'bad', 0, 'seq', redis.call('HINCRBY', N, 'seq', 1))
          redis.call('SADD', P .. 'open', owner)
        end
        redis.call('HSET', g, 't:' .. id, '')
        add('submitted', 1)
        result = 1
      end
    end
  end
  if result == 1 then
    local entry = redis.call('XADD', STREAM[letter], '*', 'i', id, 'd', ARGV[i + 4])
    redis.call('HSET', P .. 'entry', id, letter .. entry .. ' ' .. owner)
  end
  out[#out + 1] = result
end
return out
""")

CLAIM = script(r"""
-- consumer, count, lease in ms, kills that bury a ticket, min_group
-- reply: {claims of {letter, entry, ticket bytes, attempt, progress fields}, {last id of e, a, t}}
local consumer, wanted, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local max_kills, min_group = tonumber(ARGV[4]), tonumber(ARGV[5])
local out = {}

local function give(letter, entry, fields)
  local id = fields[2]
  out[#out + 1] = {letter, entry, fields[4], attempt_of(id), redis.call('HGETALL', P .. 'p:' .. id)}
end

local function take_over(letter)
  local cursor = '0-0'
  repeat
    if #out >= wanted then return false end
    local found = redis.call('XAUTOCLAIM', STREAM[letter], READERS, consumer, lease, cursor,
      'COUNT', wanted - #out)
    cursor = found[1]
    for _, item in ipairs(found[2]) do
      local entry, fields = item[1], item[2]
      local id = fields[2]
      local kills = redis.call('HINCRBY', P .. 'kills', id, 1)
      add('leases_expired', 1)
      if kills >= max_kills then
        local _, _, owner = live(id)
        local what = 'its worker died ' .. kills .. ' times'
        bury(id, letter, entry, owner, 'infrastructure', what, '', min_group)
      else
        give(letter, entry, fields)
      end
    end
  until cursor == '0-0'
  return true
end

-- Leases are searched for expired ones some times per lease, not at each claim.
local now = now_ms()
if now - tonumber(redis.call('GET', P .. 'swept') or '0') >= lease / 8 then
  if take_over('e') and take_over('a') and take_over('t') then redis.call('SET', P .. 'swept', now) end
end

for _, letter in ipairs({'e', 'a', 't'}) do
  if #out < wanted then
    local found = redis.call('XREADGROUP', 'GROUP', READERS, consumer, 'COUNT', wanted - #out,
      'STREAMS', STREAM[letter], '>')
    if found then
      for _, item in ipairs(found[1][2]) do give(letter, item[1], item[2]) end
    end
  end
end

local last = {}
if #out == 0 then
  for _, letter in ipairs({'e', 'a', 't'}) do
    local newest = redis.call('XREVRANGE', STREAM[letter], '+', '-', 'COUNT', 1)[1]
    last[#last + 1] = newest and newest[1] or '0-0'
  end
end
return {out, last}
""")

RENEW = script(r"""
-- consumer; items of 3: ticket id, entry, attempt. Reply per item: 1 renewed, 0 lost
local out = {}
for i = 2, #ARGV, 3 do
  local letter = holds(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  if letter then
    redis.call('XCLAIM', STREAM[letter], READERS, ARGV[1], 0, ARGV[i + 1], 'JUSTID')
  end
  out[#out + 1] = letter and 1 or 0
end
return out
""")

RELEASE = script(r"""
-- items of 3: ticket id, entry, attempt. Reply per item: 1 queued again, 0 lost
pass_when_full()
local out = {}
for i = 1, #ARGV, 3 do
  local letter, owner = holds(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  if letter then requeue(ARGV[i], letter, ARGV[i + 1], owner) end
  out[#out + 1] = letter and 1 or 0
end
return out
""")

FAIL = script(r"""
-- retry (0 or 1), retry budget, min_group, kind, what, where; items of 3: ticket id, entry, attempt
-- reply per item: 1 queued again, 2 failed for good, 0 lost
pass_when_full()
local retry, budget, min_group = ARGV[1] == '1', tonumber(ARGV[2]), tonumber(ARGV[3])
local out = {}
for i = 7, #ARGV, 3 do
  local id, entry = ARGV[i], ARGV[i + 1]
  local letter, owner = holds(id, entry, ARGV[i + 2])
  local result = 0
  if letter then
    if retry and tonumber(redis.call('HGET', P .. 'retries', id) or '0') < budget then
      redis.call('HINCRBY', P .. 'retries', id, 1)
      add('retried', 1)
      requeue(id, letter, entry, owner)
      result = 1
    else
      bury(id, letter, entry, owner, ARGV[4], ARGV[5], ARGV[6], min_group)
      result = 2
    end
  end
  out[#out + 1] = result
end
return out
""")

FORFEIT = script(r"""
-- consumer: its leases count as expired from now on. Reply: their number
pass_when_full()
local total = 0
for _, letter in ipairs({'e', 'a', 't'}) do
  for _, item in ipairs(redis.call('XPENDING', STREAM[letter], READERS, '-', '+', 1000000, ARGV[1])) do
    redis.call('XCLAIM', STREAM[letter], READERS, ARGV[1], 0, item[1], 'IDLE', 1000000000000, 'JUSTID')
    total = total + 1
  end
end
redis.call('DEL', P .. 'swept')
return total
""")

RECALL = script(r"""
-- All claims of all consumers end: their tickets are queued again, oldest first. Reply: their number
pass_when_full()
local total = 0
for _, letter in ipairs({'e', 'a', 't'}) do
  for _, item in ipairs(redis.call('XPENDING', STREAM[letter], READERS, '-', '+', 1000000)) do
    local found = redis.call('XRANGE', STREAM[letter], item[1], item[1])
    if found[1] then
      local id = found[1][2][2]
      local _, _, owner = live(id)
      requeue(id, letter, item[1], owner)
      total = total + 1
    end
  end
end
return total
""")

PROGRESS = script(r"""
-- budget, producer, waited ms, staged
-- items: ticket id, entry, attempt, episode, chunk count, bytes, chunks...
-- reply per item: 1 saved, 0 lost, 2 blocked (this and all that follow)
local budget, staged, out, blocked = tonumber(ARGV[1]), ARGV[4] == '1', {}, false
if staged then pass_when_full() end  -- the transaction was let in, its values are there
local i = 5
while i <= #ARGV do
  local id, episode, chunks, bytes = ARGV[i], ARGV[i + 3], tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  local letter = holds(id, ARGV[i + 1], ARGV[i + 2])
  local p = P .. 'p:' .. id
  if not letter then
    out[#out + 1] = 0
  elseif redis.call('HEXISTS', p, episode .. ':0') == 1 then
    out[#out + 1] = 1
  else
    if letter ~= 'e' and not blocked then blocked = not admitted(bytes, budget) end
    if blocked and letter ~= 'e' then
      out[#out + 1] = 2
    else
      for c = 0, chunks - 1 do
        local value = ARGV[i + 6 + c]
        if staged then value = redis.call('GET', value) end
        redis.call('HSET', p, episode .. ':' .. c, value)
      end
      redis.call('HINCRBY', p, 'bytes', bytes)
      add('progress_bytes', bytes)
      out[#out + 1] = 1
    end
  end
  if staged then redis.call('UNLINK', unpack(ARGV, i + 6, i + 5 + chunks)) end
  i = i + 6 + chunks
end
note_blocked(ARGV[2], tonumber(ARGV[3]), blocked)
return out
""")

COMMIT = script(r"""
-- budget, producer, waited ms, staged, min_group, groups that may be ready (limiter of the online table)
-- items: ticket id, split letter, lowest version, highest version, bytes, chunk count, sampled tokens,
-- environment, chunks...
-- reply per item: 1 accepted, 0 duplicate, 2 blocked (with all training trials after it), 3 wrong split
local budget, staged, min_group = tonumber(ARGV[1]), ARGV[4] == '1', tonumber(ARGV[5])
local max_ahead, at_ms = tonumber(ARGV[6]), now_ms()
local out, blocked = {}, false
if staged then pass_when_full() end  -- the transaction was let in, its values are there
local i = 7
while i <= #ARGV do
  local id, bytes, chunks = ARGV[i], tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  local letter, entry, owner = live(id)
  if not letter then
    drop('duplicate_commits', 1)
    out[#out + 1] = 0
  elseif (letter == 'e') ~= (ARGV[i + 1] == 'e') then
    out[#out + 1] = 3
  else
    if letter ~= 'e' and not blocked then
      blocked = not within_limit(max_ahead) or not admitted(bytes - progress_bytes(id), budget)
    end
    if blocked and letter ~= 'e' then
      out[#out + 1] = 2
    else
      for c, key in ipairs(payload_keys(id, chunks)) do store(key, ARGV[i + 7 + c], staged) end
      leave_stream(id, letter, entry)
      forget_attempts(id)
      free_progress(id)
      add('bytes', bytes)
      local record = table.concat({
        ARGV[i + 4], ARGV[i + 2], ARGV[i + 3], ARGV[i + 5], ARGV[i + 6], at_ms, ARGV[i + 7]}, ':')
      if letter == 'e' then
        redis.call('HSET', P .. 'eval:' .. owner, 't:' .. id, record)
        redis.call('HINCRBY', P .. 'eval:' .. owner, 'ok', 1)
        add('eval_done', 1)
      else
        redis.call('HSET', P .. 'g:' .. owner, 't:' .. id, record)
        redis.call('HINCRBY', P .. 'g:' .. owner, 'ok', 1)
        close_if_complete(owner, min_group)
      end
      out[#out + 1] = 1
    end
  end
  if staged then redis.call('UNLINK', unpack(ARGV, i + 8, i + 7 + chunks)) end
  i = i + 8 + chunks
end
note_blocked(ARGV[2], tonumber(ARGV[3]), blocked)
return out
""")

NOTE_BLOCKED = script(r"""
-- producer: the server itself has no memory for its data
pass_when_full()
redis.call('ZADD', P .. 'blocked', now_ms(), ARGV[1])
return 1
""")
