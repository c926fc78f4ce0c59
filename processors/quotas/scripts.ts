import type { Window } from '../../src/model/usage-window.ts';
import type { RedisConnection, RedisScript } from '../../src/redis/redis.ts';

/**
 * The Lua scripts of the shared counters. All keys of an organization are in one hash slot. Each script makes all its
 * checks before its first change, so that it changes everything or nothing.
 *
 *   state    hash    `epoch` of the counters, `server` on which they were built, and the newest `hour` and `month`
 *                    counted in, whose counters exist unless Redis lost them
 *   month    hash    events by scope: `o` is the organization, any other scope a project's id
 *   hour     hash    bytes by scope
 *   leases   zset    batch id by the time (ms) at which an unsettled reservation is overdue
 *   reserved hash    batch id to `project month hour events bytes`, for its cancellation
 */

/** The name of a key of an organization; all of them are in one hash slot. */
export type KeyName = (organizationId: string, name: string) => string;

/** The keys of the scripts, by role. */
type CounterKeys = {
  readonly state: string;
  readonly month: string;
  readonly hour: string;
  readonly leases: string;
  readonly reserved: string;
};

export function counterKeys(
  key: KeyName,
  organizationId: string,
  { month, hour }: Pick<Window, 'month' | 'hour'>,
): CounterKeys {
  return {
    state: key(organizationId, 'state'),
    month: key(organizationId, `month:${month}`),
    hour: key(organizationId, `hour:${hour}`),
    ...leaseKeys(key, organizationId),
  };
}

/** The keys that are independent of the time. */
export function leaseKeys(
  key: KeyName,
  organizationId: string,
): Pick<CounterKeys, 'leases' | 'reserved'> {
  return { leases: key(organizationId, 'leases'), reserved: key(organizationId, 'reserved') };
}

/** Runs a script of this file. Rejects with `RetryableError`. */
export type RunScript = (
  script: string,
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<unknown>;

/** Sends each script to Redis once. */
export function scriptRunner(redis: Pick<RedisConnection, 'script'>): RunScript {
  const scripts = new Map<string, RedisScript>();
  return (text, keys, args) => {
    let script = scripts.get(text);
    if (script === undefined) {
      script = redis.script(text);
      scripts.set(text, script);
    }
    return script.run(keys, args);
  };
}

/**
 * The id of the server's replication history. It changes with a restart and with the promotion of a replica, both of
 * which may lose the last changes of the counters.
 */
const SERVER = `
local function server()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end`;

/**
 * Checks and reserves for several requests of an organization, in their order, each as if it came alone.
 * KEYS state, month, hour, leases, reserved
 * ARGV epoch, hour number, month's start, month key's end (s), hour key's end (s), lease (ms), then for each request:
 *      batch id (empty: only check), project, events, bytes,
 *      event and byte limit of the organization, then of the project (-1: unlimited)
 * Answers {'epoch'}, {'moved', hour in force}, or {'all', …} with an answer for each request: 'ok', 'month o', 'month p',
 * 'hour o' or 'hour p'
 *
 * The clock of one replica does not open windows for all: an hour after the next one of Redis is not trusted. A request
 * counts in the hour of Redis then, and counters of such an hour are rebuilt.
 */
export const RESERVE = `${SERVER}
local state = redis.call('HMGET', KEYS[1], 'epoch', 'hour', 'server', 'month')
if state[1] ~= ARGV[1] or state[3] ~= server() then return {'epoch'} end
local time = redis.call('TIME')
local hour, present = tonumber(ARGV[2]), math.floor(time[1] / 3600)
local newest = tonumber(state[2] or ARGV[2])
if state[2] and newest > present + 1 then
  redis.call('DEL', KEYS[1])
  return {'epoch'}
end
if hour > present + 1 then return {'moved', math.max(present, tonumber(state[2] or 0))} end
if newest > hour then return {'moved', newest} end
local scopes, isKnown, batches = {'o'}, {o = true}, {}
for i = 7, #ARGV, 8 do
  if ARGV[i] ~= '' then table.insert(batches, ARGV[i]) end
  local project = ARGV[i + 1]
  if not isKnown[project] then
    isKnown[project] = true
    table.insert(scopes, project)
  end
end
local function read(key, fields)
  local found = {}
  if #fields == 0 then return found end
  for i, value in ipairs(redis.call('HMGET', key, unpack(fields))) do found[fields[i]] = value end
  return found
end
local isReserved = read(KEYS[5], batches)
local month, used = read(KEYS[2], scopes), read(KEYS[3], scopes)
local isFirst = {month = not month.o, hour = not used.o}
if (state[2] == ARGV[2] and isFirst.hour) or (state[4] == ARGV[3] and isFirst.month) then
  redis.call('DEL', KEYS[1])
  return {'epoch'}
end
local function full(now, more, most)
  most = tonumber(most)
  return most >= 0 and more > 0 and tonumber(now or 0) + more > most
end
local answer, leases, reserved, isChanged = {'all'}, {}, {}, {}
for i = 7, #ARGV, 8 do
  local batch, project = ARGV[i], ARGV[i + 1]
  local events, bytes = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local verdict = 'ok'
  if batch == '' or not isReserved[batch] then
    if full(month.o, events, ARGV[i + 4]) then verdict = 'month o'
    elseif full(month[project], events, ARGV[i + 6]) then verdict = 'month p'
    elseif full(used.o, bytes, ARGV[i + 5]) then verdict = 'hour o'
    elseif full(used[project], bytes, ARGV[i + 7]) then verdict = 'hour p'
    elseif batch ~= '' then
      isReserved[batch] = true
      for _, scope in ipairs({'o', project}) do
        month[scope] = tonumber(month[scope] or 0) + events
        used[scope] = tonumber(used[scope] or 0) + bytes
        isChanged[scope] = true
      end
      table.insert(leases, batch)
      table.insert(reserved, batch)
      table.insert(reserved, project .. ' ' .. ARGV[3] .. ' ' .. ARGV[2] .. ' ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3])
    end
  end
  table.insert(answer, verdict)
end
if #leases == 0 then return answer end
if newest < hour or not state[2] then redis.call('HSET', KEYS[1], 'hour', ARGV[2], 'month', ARGV[3]) end
local function write(key, sums)
  local values = {}
  for scope in pairs(isChanged) do
    table.insert(values, scope)
    table.insert(values, string.format('%.0f', sums[scope]))
  end
  redis.call('HSET', key, unpack(values))
end
write(KEYS[2], month)
write(KEYS[3], used)
if isFirst.month then redis.call('EXPIREAT', KEYS[2], ARGV[4]) end
if isFirst.hour then redis.call('EXPIREAT', KEYS[3], ARGV[5]) end
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[6])
local places = {}
for _, batch in ipairs(leases) do
  table.insert(places, ends)
  table.insert(places, batch)
end
redis.call('ZADD', KEYS[4], unpack(places))
redis.call('HSET', KEYS[5], unpack(reserved))
return answer
`;

/**
 * Ends the reservations of durable batches, which stay counted.
 * KEYS leases, reserved; ARGV batch ids
 */
export const CONFIRM = `
redis.call('ZREM', KEYS[1], unpack(ARGV))
return redis.call('HDEL', KEYS[2], unpack(ARGV))
`;

/**
 * Counts a durable batch whose reservation was lost with the counters of an earlier epoch, once: it has a reservation again until it is
 * confirmed.
 * KEYS state, month, hour, leases, reserved
 * ARGV epoch whose sums lack the batch, batch id, project, month's start, hour number, events, bytes, lease (ms)
 * Answers 'counted', also for the counters of a later epoch, or 'missing' if the counters of the epoch are not installed
 */
export const RECOUNT = `${SERVER}
local state = redis.call('HMGET', KEYS[1], 'epoch', 'server')
if not state[1] or state[2] ~= server() then return 'missing' end
local epoch, wanted = tonumber(state[1]), tonumber(ARGV[1])
if epoch < wanted then return 'missing' end
if epoch > wanted or redis.call('HEXISTS', KEYS[5], ARGV[2]) == 1 then return 'counted' end
local function count(key, amount)
  if redis.call('EXISTS', key) == 0 then return end
  redis.call('HINCRBY', key, 'o', amount)
  redis.call('HINCRBY', key, ARGV[3], amount)
end
count(KEYS[2], tonumber(ARGV[6]))
count(KEYS[3], tonumber(ARGV[7]))
local time = redis.call('TIME')
redis.call('ZADD', KEYS[4], time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[8]), ARGV[2])
redis.call('HSET', KEYS[5], ARGV[2], table.concat(ARGV, ' ', 3, 7))
return 'counted'
`;

/**
 * Ends a reservation and uncounts its usage, once, in the windows that still exist.
 * KEYS leases, reserved, month, hour; ARGV batch id, project, events, bytes
 */
export const CANCEL = `
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then return 0 end
local function uncount(key, amount)
  if amount == 0 or redis.call('EXISTS', key) == 0 then return end
  redis.call('HINCRBY', key, 'o', -amount)
  redis.call('HINCRBY', key, ARGV[2], -amount)
end
uncount(KEYS[3], tonumber(ARGV[3]))
uncount(KEYS[4], tonumber(ARGV[4]))
return 1
`;

/**
 * Claims overdue reservations for the caller, for a limited time. A reservation that lasts longer than any is made for was made while the
 * clock of Redis was ahead, and would count until then: it gets the longest time from now.
 * KEYS leases, reserved; ARGV maximum number, duration of the claim (ms), longest time of a reservation (ms)
 * Answers batch ids alternating with reservations.
 */
export const OVERDUE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = now + tonumber(ARGV[3])
for _, batch in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', ends), '+inf', 'LIMIT', 0, tonumber(ARGV[1]))) do
  redis.call('ZADD', KEYS[1], ends, batch)
end
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, tonumber(ARGV[1]))
local answer = {}
for _, batch in ipairs(found) do
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), batch)
  table.insert(answer, batch)
  table.insert(answer, redis.call('HGET', KEYS[2], batch) or '')
end
return answer
`;

/**
 * Installs counters that were rebuilt from the ledger, unless another replica has installed newer ones.
 * KEYS state, month, hour, leases, reserved
 * ARGV epoch, hour number, month's start, month key's end (s), hour key's end (s), then repeated: scope, events, bytes
 * Answers the epoch in force.
 */
export const INSTALL = `${SERVER}
local state = redis.call('HMGET', KEYS[1], 'epoch', 'server')
if state[1] and state[2] == server() and tonumber(state[1]) >= tonumber(ARGV[1]) then return state[1] end
redis.call('DEL', unpack(KEYS))
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'hour', ARGV[2], 'month', ARGV[3], 'server', server())
for i = 6, #ARGV, 3 do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 2])
end
redis.call('EXPIREAT', KEYS[2], ARGV[4])
redis.call('EXPIREAT', KEYS[3], ARGV[5])
return ARGV[1]
`;

/** KEYS state. Answers the epoch, or nothing if this server may have lost changes of the counters. */
export const EPOCH = `${SERVER}
local state = redis.call('HMGET', KEYS[1], 'epoch', 'server')
if state[2] == server() then return state[1] end
return false
`;

/** KEYS state. Answers the time of Redis in seconds. */
export const PRESENT = `return redis.call('TIME')[1]`;

/**
 * KEYS state, month, hour
 * ARGV epoch, scope
 * Answers {'ok', events, bytes}, or {'epoch'} if the counters were lost or replaced
 */
export const READ = `${SERVER}
local state = redis.call('HMGET', KEYS[1], 'epoch', 'server')
if state[1] ~= ARGV[1] or state[2] ~= server() then return {'epoch'} end
return {
  'ok',
  redis.call('HGET', KEYS[2], ARGV[2]) or '0',
  redis.call('HGET', KEYS[3], ARGV[2]) or '0',
}
`;

/**
 * Admits requests of a key, over all replicas, in their order. The rate is a generic cell rate algorithm: one number per key,
 * the time at which the next request is due. Requests in flight are a sorted set by the time at which they expire. Times that are further
 * ahead than any request makes them are of a clock of Redis that was ahead: they would refuse the requests of the key until then.
 * KEYS rate, in flight
 * ARGV microseconds between two requests (0: no rate), burst tolerance (us), maximum in flight (0: unlimited),
 *      longest time in flight (ms), then request ids
 * Answers for each request: 0, the microseconds to wait for the rate, or -1 if too many are in flight
 */
export const ADMIT_KEY = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, tolerance, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local longest = tonumber(ARGV[4])
local inFlight, due = 0, now
if most > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], now + 2 * longest * 1000, '+inf')
  inFlight = redis.call('ZCARD', KEYS[2])
end
if interval > 0 then
  due = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
  due = math.min(due, now + tolerance + interval)
end
local answer, admitted = {}, {}
for i = 5, #ARGV do
  local wait = due - now - tolerance
  if most > 0 and inFlight >= most then
    table.insert(answer, -1)
  elseif interval > 0 and wait > 0 then
    table.insert(answer, math.ceil(wait))
  else
    due = due + interval
    inFlight = inFlight + 1
    table.insert(admitted, now + longest * 1000)
    table.insert(admitted, ARGV[i])
    table.insert(answer, 0)
  end
end
if #admitted == 0 then return answer end
if interval > 0 then
  redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', math.ceil((due - now) / 1000) + 1)
end
if most > 0 then
  redis.call('ZADD', KEYS[2], unpack(admitted))
  redis.call('PEXPIRE', KEYS[2], longest)
end
return answer
`;

/** KEYS in flight; ARGV request ids */
export const RELEASE_KEY = `return redis.call('ZREM', KEYS[1], unpack(ARGV))`;
