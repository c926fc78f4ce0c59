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
 * KEYS state, month, hour, leases, reserved
 * ARGV epoch, hour number, month's start, month key's end (s), hour key's end (s), project, events, bytes,
 *      event and byte limit of the organization, then of the project (-1: unlimited),
 *      batch id (empty: only check), lease (ms)
 * Answers {'ok'}, {'epoch'}, {'later', newest hour}, {'month' or 'hour', 'o' or 'p'}
 */
export const RESERVE = `${SERVER}
local state = redis.call('HMGET', KEYS[1], 'epoch', 'hour', 'server', 'month')
if state[1] ~= ARGV[1] or state[3] ~= server() then return {'epoch'} end
local hour = tonumber(ARGV[2])
local newest = tonumber(state[2] or ARGV[2])
if newest > hour then return {'later', newest} end
local project, batch = ARGV[6], ARGV[13]
local events, bytes = tonumber(ARGV[7]), tonumber(ARGV[8])
if batch ~= '' and redis.call('HEXISTS', KEYS[5], batch) == 1 then return {'ok'} end
local month = redis.call('HMGET', KEYS[2], 'o', project)
local used = redis.call('HMGET', KEYS[3], 'o', project)
if (state[2] == ARGV[2] and not used[1]) or (state[4] == ARGV[3] and not month[1]) then
  redis.call('DEL', KEYS[1])
  return {'epoch'}
end
local function full(now, more, most)
  most = tonumber(most)
  return most >= 0 and more > 0 and tonumber(now or 0) + more > most
end
if full(month[1], events, ARGV[9]) then return {'month', 'o'} end
if full(month[2], events, ARGV[11]) then return {'month', 'p'} end
if full(used[1], bytes, ARGV[10]) then return {'hour', 'o'} end
if full(used[2], bytes, ARGV[12]) then return {'hour', 'p'} end
if batch == '' then return {'ok'} end
if newest < hour or not state[2] then redis.call('HSET', KEYS[1], 'hour', ARGV[2], 'month', ARGV[3]) end
redis.call('HINCRBY', KEYS[2], 'o', events)
redis.call('HINCRBY', KEYS[2], project, events)
redis.call('HINCRBY', KEYS[3], 'o', bytes)
redis.call('HINCRBY', KEYS[3], project, bytes)
if not month[1] then redis.call('EXPIREAT', KEYS[2], ARGV[4]) end
if not used[1] then redis.call('EXPIREAT', KEYS[3], ARGV[5]) end
local time = redis.call('TIME')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[14])
redis.call('ZADD', KEYS[4], ends, batch)
redis.call('HSET', KEYS[5], batch, project .. ' ' .. ARGV[3] .. ' ' .. ARGV[2] .. ' ' .. ARGV[7] .. ' ' .. ARGV[8])
return {'ok'}
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
 * Claims overdue reservations for the caller, for a limited time.
 * KEYS leases, reserved; ARGV maximum number, duration of the claim (ms)
 * Answers batch ids alternating with reservations.
 */
export const OVERDUE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
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
 * Admits a request of a key, over all replicas. The rate is a generic cell rate algorithm: one number per key, the time
 * at which the next request is due. Requests in flight are a sorted set by the time at which they expire.
 * KEYS rate, in flight
 * ARGV microseconds between two requests (0: no rate), burst tolerance (us), maximum in flight (0: unlimited),
 *      request id, longest time in flight (ms)
 * Answers 0, {'rate', microseconds to wait} or {'in_flight'}
 */
export const ADMIT_KEY = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local most = tonumber(ARGV[3])
if most > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if redis.call('ZCARD', KEYS[2]) >= most then return {'in_flight'} end
end
local interval = tonumber(ARGV[1])
if interval > 0 then
  local due = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
  local wait = due - now - tonumber(ARGV[2])
  if wait > 0 then return {'rate', math.ceil(wait)} end
  due = due + interval
  redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', math.ceil((due - now) / 1000) + 1)
end
if most > 0 then
  local longest = tonumber(ARGV[5])
  redis.call('ZADD', KEYS[2], now + longest * 1000, ARGV[4])
  redis.call('PEXPIRE', KEYS[2], longest)
end
return 0
`;

/** KEYS in flight; ARGV request ids */
export const RELEASE_KEY = `return redis.call('ZREM', KEYS[1], unpack(ARGV))`;
