import type { SealedBatch } from '../model/batch.ts';
import { itemsOf } from '../model/batch.ts';
import type { DeadLetter, DeadLetterFilter, DeadLetterReason } from '../queue/queue.ts';
import type { RedisConnection } from '../redis/redis.ts';
import type { JobPayload } from './job-data.ts';
import { jobPayload } from './job-data.ts';

/** The dead letters, in Redis, of a queue whose jobs hold their batches. */
export type RedisDeadLetters = {
  /** Adds one dead letter per batch and branch, however often the job runs; none for a deleted project. */
  add(branch: string, batch: SealedBatch, reason: DeadLetterReason, now: number): Promise<void>;
  list(filter: DeadLetterFilter): Promise<DeadLetter[]>;
  /** The dead letters with these ids, with their payloads. */
  read(ids: readonly number[] | 'all'): Promise<readonly RedisLetter[]>;
  /** The dead letters with ids above this one, in their order. One that gets a new id is found there, if it was not found before. */
  walk(after: number): AsyncGenerator<RedisLetter, void, undefined>;
  /** Resolves with whether the dead letter was there. */
  remove(letter: RedisLetter): Promise<boolean>;
  /** Keeps the rest of a dead letter's batch in its place. Resolves with whether the dead letter was there. */
  replace(letter: RedisLetter, rest: SealedBatch): Promise<boolean>;
  sums(): Promise<{ letters: number; items: number }>;
};

export type RedisLetter = DeadLetter & { readonly payload: JobPayload };

const ADD = `
  if redis.call('SISMEMBER', KEYS[6], ARGV[4]) == 1 then return 0 end
  local known = redis.call('HGET', KEYS[3], ARGV[1])
  local id = redis.call('INCR', KEYS[1])
  local letter = ARGV[3]
  if known then
    -- A new number: a replay that has added its job already removes the former one only.
    letter = redis.call('HGET', KEYS[5], known) or letter
    redis.call('HDEL', KEYS[5], known)
    redis.call('ZREM', KEYS[2], known)
  else
    redis.call('HINCRBY', KEYS[4], 'items', ARGV[2])
  end
  redis.call('HSET', KEYS[3], ARGV[1], id)
  redis.call('HSET', KEYS[5], id, letter)
  redis.call('ZADD', KEYS[2], id, id)
  return id`;

/** After a failover that lost the last numbers, a number may be that of another dead letter. */
const REMOVE = `
  if redis.call('HGET', KEYS[3], ARGV[2]) ~= ARGV[1] then return 0 end
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('HDEL', KEYS[5], ARGV[1])
  redis.call('HDEL', KEYS[3], ARGV[2])
  redis.call('HINCRBY', KEYS[4], 'items', -tonumber(ARGV[3]))
  return 1`;

const REPLACE = `
  if redis.call('HGET', KEYS[3], ARGV[2]) ~= ARGV[1] then return 0 end
  redis.call('HSET', KEYS[5], ARGV[1], ARGV[3])
  redis.call('HINCRBY', KEYS[4], 'items', -tonumber(ARGV[4]))
  return 1`;

const PAGE = 100;

export function redisDeadLetters(redis: RedisConnection, queue: string): RedisDeadLetters {
  const key = (part: string): string => redis.key('bullmq-dead', queue, part);
  const keys = () => ['last', 'ids', 'known', 'sums', 'letters'].map(key);
  const adding = redis.script(ADD);
  const removing = redis.script(REMOVE);
  const replacing = redis.script(REPLACE);

  async function* walk(after: number): AsyncGenerator<RedisLetter, void, undefined> {
    for (let from = String(after); ; ) {
      const ids = await redis.run((client) =>
        client.zrangebyscore(key('ids'), `(${from}`, '+inf', 'LIMIT', 0, PAGE),
      );
      const last = ids.at(-1);
      // Not behind a page that is not full: a dead letter of it may have a new id by now.
      if (last === undefined) return;
      const texts = await redis.run((client) => client.hmget(key('letters'), ...ids));
      for (const [i, text] of texts.entries()) {
        if (text !== null) yield { ...(JSON.parse(text) as RedisLetter), id: Number(ids[i]) };
      }
      from = last;
    }
  }

  return {
    async add(branch, batch, reason, now) {
      const { id: batchId, tenant, body } = batch;
      const items = reason.items ?? itemsOf(batch);
      const letter = {
        branch,
        batchId,
        projectId: tenant.projectId,
        items,
        bytes: body.byteLength,
        reason: { code: reason.code, message: reason.message },
        failedAt: now,
        payload: { ...jobPayload(batch), branches: [branch] },
      };
      const args = [uniqueName(branch, batchId), items, JSON.stringify(letter), tenant.projectId];
      await adding.run([...keys(), deletedProjectsKey(redis)], args);
    },
    async list({ branch, limit = 100, after = 0 }) {
      const letters: DeadLetter[] = [];
      if (limit <= 0) return letters;
      for await (const { payload: _, ...letter } of walk(after)) {
        if (branch !== undefined && letter.branch !== branch) continue;
        if (letters.push(letter) >= limit) break;
      }
      return letters;
    },
    async read(ids) {
      const letters: RedisLetter[] = [];
      for await (const letter of walk(0)) {
        if (ids === 'all' || ids.includes(letter.id)) letters.push(letter);
      }
      return letters;
    },
    walk,
    async remove({ id, branch, batchId, items }) {
      const removed = await removing.run(keys(), [id, uniqueName(branch, batchId), items]);
      return removed === 1;
    },
    async replace({ id, ...letter }, rest) {
      const items = Math.min(letter.items, rest.items);
      const { branches } = letter.payload;
      const payload = { ...jobPayload(rest), ...(branches === undefined ? {} : { branches }) };
      const reason = { code: letter.reason.code, message: 'an item was erased' };
      const text = JSON.stringify({ ...letter, items, reason, payload });
      const name = uniqueName(letter.branch, letter.batchId);
      return (await replacing.run(keys(), [id, name, text, letter.items - items])) === 1;
    },
    async sums() {
      const [letters, items] = await redis.run((client) =>
        Promise.all([client.zcard(key('ids')), client.hget(key('sums'), 'items')]),
      );
      return { letters, items: Number(items ?? 0) };
    },
  };
}

/** Identifies a dead letter across repeated runs of its job. */
function uniqueName(branch: string, batchId: string): string {
  return `${batchId} ${branch}`;
}

/** The key of the set of deleted projects, whose batches Redis does not keep. */
export function deletedProjectsKey(redis: RedisConnection): string {
  return redis.key('deleted-projects');
}
