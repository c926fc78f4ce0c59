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
  /** Resolves with whether the dead letter was there. */
  remove(letter: RedisLetter): Promise<boolean>;
  /** Keeps the rest of a dead letter's batch in its place. */
  replace(letter: RedisLetter, rest: SealedBatch): Promise<void>;
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

const REMOVE = `
  if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return 0 end
  redis.call('HDEL', KEYS[5], ARGV[1])
  redis.call('HDEL', KEYS[3], ARGV[2])
  redis.call('HINCRBY', KEYS[4], 'items', -tonumber(ARGV[3]))
  return 1`;

const REPLACE = `
  if redis.call('HEXISTS', KEYS[5], ARGV[1]) == 0 then return 0 end
  redis.call('HSET', KEYS[5], ARGV[1], ARGV[2])
  redis.call('HINCRBY', KEYS[4], 'items', -tonumber(ARGV[3]))
  return 1`;

const PAGE = 100;

export function redisDeadLetters(redis: RedisConnection, queue: string): RedisDeadLetters {
  const key = (part: string): string => redis.key('bullmq-dead', queue, part);
  const keys = () => ['last', 'ids', 'known', 'sums', 'letters'].map(key);
  const adding = redis.script(ADD);
  const removing = redis.script(REMOVE);
  const replacing = redis.script(REPLACE);

  async function page(after: number, limit: number): Promise<RedisLetter[]> {
    const ids = await redis.run((client) =>
      client.zrangebyscore(key('ids'), `(${after}`, '+inf', 'LIMIT', 0, limit),
    );
    if (ids.length === 0) return [];
    const texts = await redis.run((client) => client.hmget(key('letters'), ...ids));
    return texts.flatMap((text, i) =>
      text === null ? [] : [{ ...(JSON.parse(text) as RedisLetter), id: Number(ids[i]) }],
    );
  }

  async function all(): Promise<RedisLetter[]> {
    const letters: RedisLetter[] = [];
    for (let after = 0; ; ) {
      const next = await page(after, PAGE);
      letters.push(...next);
      if (next.length < PAGE) return letters;
      after = next.at(-1)?.id ?? after;
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
      for (let from = after; letters.length < limit; ) {
        const next = await page(from, PAGE);
        for (const { payload: _, ...letter } of next) {
          if (branch === undefined || letter.branch === branch) letters.push(letter);
        }
        if (next.length < PAGE) break;
        from = next.at(-1)?.id ?? from;
      }
      return letters.slice(0, limit);
    },
    async read(ids) {
      const letters = await all();
      return ids === 'all' ? letters : letters.filter(({ id }) => ids.includes(id));
    },
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
      await replacing.run(keys(), [id, text, letter.items - items]);
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
