import type { IdempotencyLedger } from '../../component/component.ts';
import type {
  DeadLetter,
  DeadLetterFilter,
  DurableQueue,
  QueueEntry,
  QueueStats,
} from '../../queue/queue.ts';
import { earliest } from '../../queue/queue.ts';

/**
 * A queue and what other queues of the same name still hold:
 *
 *   append ─▶ own ───────┐
 *             leftover 1 ─┼─▶ lease, the leftovers first ─▶ ack, nack, dead letter: where it came from
 *             leftover 2 ─┘
 *
 * Each queue numbers its entries and dead letters on its own; here the numbers of each leftover have a range of their
 * own.
 */
export function joinQueues(own: DurableQueue, leftovers: readonly DurableQueue[]): DurableQueue {
  if (leftovers.length === 0) return own;
  const all = [own, ...leftovers];

  /** The queue of a number, and the entry's number in that queue. */
  function homeOf(number: number): [DurableQueue, number] {
    const queue = all[Math.floor(number / RANGE)];
    if (queue === undefined) throw new Error(`no queue has an entry ${number}`);
    return [queue, number % RANGE];
  }

  function atHome(entry: QueueEntry): [DurableQueue, QueueEntry] {
    const [queue, seq] = homeOf(entry.seq);
    return [queue, { ...entry, seq }];
  }

  async function change(verb: 'replay' | 'drop', ids: readonly number[] | 'all'): Promise<number> {
    let changed = 0;
    for (const [index, queue] of all.entries()) {
      const meant = ids === 'all' ? ids : numbersOf(index, ids);
      if (meant === 'all' || meant.length > 0) changed += await queue[verb](meant);
    }
    return changed;
  }

  return {
    append: (batch, request) => own.append(batch, request),
    lease: (branch, max, maxBytes) => leaseFrom(all, branch, max, maxBytes),
    leaseOfIdle: (branch, maxBytes) => leaseOfIdleFrom(all, branch, maxBytes),
    untriedSince: (project) => earliest(all.map((queue) => queue.untriedSince?.(project))),
    onAvailable: (branch, listener) =>
      together(all.map((queue) => queue.onAvailable(branch, listener))),
    async ack(branch, entries, withinMs) {
      await Promise.all(
        [...grouped(entries.map(atHome))].map(([queue, own]) => queue.ack(branch, own, withinMs)),
      );
    },
    nack(branch, entry, delayMs, reason) {
      const [queue, own] = atHome(entry);
      return queue.nack(branch, own, delayMs, reason);
    },
    deadLetter(branch, entry, reason) {
      const [queue, own] = atHome(entry);
      return queue.deadLetter(branch, own, reason);
    },
    discard(branch, entry, reason) {
      const [queue, own] = atHome(entry);
      return queue.discard(branch, own, reason);
    },
    onDrop: (listener) => together(all.map((queue) => queue.onDrop(listener))),
    deadLetters: (filter) => deadLettersOf(all, filter),
    replay: (ids) => change('replay', ids),
    drop: (ids) => change('drop', ids),
    async removeProject(projectId) {
      await Promise.all(all.map((queue) => queue.removeProject(projectId)));
    },
    async *eraseItems(erasing) {
      for (const queue of all) if (queue.eraseItems !== undefined) yield* queue.eraseItems(erasing);
    },
    async *sweepErased() {
      for (const queue of all) if (queue.sweepErased !== undefined) yield* queue.sweepErased();
    },
    stats: () =>
      sumOf(
        own.stats(),
        all.slice(1).map((queue) => queue.stats()),
      ),
    async verify() {
      const found = await Promise.all(all.map((queue) => queue.verify()));
      return {
        entries: found.reduce((sum, { entries }) => sum + entries, 0),
        quarantined: found.reduce((sum, { quarantined }) => sum + quarantined, 0),
      };
    },
    idempotency: joinLedgers(own.idempotency, leftovers),
  };
}

/** More numbers than a file ever uses, and few enough that thousands of ranges are exact integers. */
const RANGE = 2 ** 40;

/** Leftovers first: the worker's own queue is the first in the list and is leased from last. */
async function leaseFrom(
  all: readonly DurableQueue[],
  branch: string,
  max: number,
  maxBytes: number,
): Promise<QueueEntry[]> {
  const entries: QueueEntry[] = [];
  let room = maxBytes;
  const inOrder = [...all.entries()];
  for (const [index, queue] of [...inOrder.slice(1), ...inOrder.slice(0, 1)]) {
    if (entries.length >= max || (entries.length > 0 && room <= 0)) break;
    let found: readonly QueueEntry[];
    try {
      found = await queue.lease(branch, max - entries.length, Math.max(room, 1));
    } catch (error) {
      // Entries that are already leased must survive the failure of another file.
      if (entries.length > 0) return entries;
      throw error;
    }
    for (const entry of found) {
      room -= entry.batch.body.length;
      entries.push({ ...entry, seq: index * RANGE + entry.seq });
    }
  }
  return entries;
}

async function leaseOfIdleFrom(
  all: readonly DurableQueue[],
  branch: string,
  maxBytes: number,
): Promise<QueueEntry[]> {
  for (const [index, queue] of all.entries()) {
    const found = (await queue.leaseOfIdle?.(branch, maxBytes)) ?? [];
    if (found.length > 0) {
      return found.map((entry) => ({ ...entry, seq: index * RANGE + entry.seq }));
    }
  }
  return [];
}

async function deadLettersOf(
  all: readonly DurableQueue[],
  { limit = Number.MAX_SAFE_INTEGER, after = 0, ...filter }: DeadLetterFilter = {},
): Promise<DeadLetter[]> {
  const letters: DeadLetter[] = [];
  for (const [index, queue] of all.entries()) {
    const wanted = limit - letters.length;
    const start = index * RANGE;
    if (wanted <= 0) break;
    if (after >= start + RANGE) continue;
    const from = Math.max(0, after - start);
    const found = await queue.deadLetters({ ...filter, limit: wanted, after: from });
    letters.push(...found.map((letter) => ({ ...letter, id: start + letter.id })));
  }
  return letters;
}

function numbersOf(index: number, numbers: readonly number[]): number[] {
  return numbers.filter((id) => Math.floor(id / RANGE) === index).map((id) => id % RANGE);
}

function grouped(homes: readonly [DurableQueue, QueueEntry][]): Map<DurableQueue, QueueEntry[]> {
  const groups = new Map<DurableQueue, QueueEntry[]>();
  for (const [queue, entry] of homes) {
    const group = groups.get(queue);
    if (group === undefined) groups.set(queue, [entry]);
    else group.push(entry);
  }
  return groups;
}

function together(removers: readonly (() => void)[]): () => void {
  return () => {
    for (const remove of removers) remove();
  };
}

/** Replays answers that a leftover keeps; new answers are kept by the own queue. */
function joinLedgers(
  own: IdempotencyLedger,
  leftovers: readonly DurableQueue[],
): IdempotencyLedger {
  return {
    async claim(...request) {
      const claimed = await own.claim(...request);
      if (claimed.state !== 'new') return claimed;
      try {
        for (const { idempotency } of leftovers) {
          const earlier = await idempotency.claim(...request);
          if (earlier.state === 'new') {
            earlier.release();
            continue;
          }
          claimed.release();
          return earlier;
        }
      } catch (error) {
        claimed.release();
        throw error;
      }
      return claimed;
    },
  };
}

function sumOf(own: QueueStats, others: readonly QueueStats[]): QueueStats {
  const sum = (of: (stats: QueueStats) => number) =>
    others.reduce((total, stats) => total + of(stats), of(own));
  return {
    branches: own.branches.map((branch) => {
      const same = others.flatMap(({ branches }) =>
        branches.filter((other) => other.branch === branch.branch),
      );
      const oldest = [branch, ...same].flatMap(({ oldestAt }) => oldestAt ?? []);
      return {
        branch: branch.branch,
        entries: same.reduce((total, { entries }) => total + entries, branch.entries),
        items: same.reduce((total, { items }) => total + items, branch.items),
        leased: same.reduce((total, { leased }) => total + leased, branch.leased),
        oldestAt: oldest.length === 0 ? undefined : Math.min(...oldest),
      };
    }),
    bytes: sum(({ bytes }) => bytes),
    maxBytes: own.maxBytes,
    deadLetters: sum(({ deadLetters }) => deadLetters),
    deadLetterItems: sum(({ deadLetterItems }) => deadLetterItems),
    quarantined: sum(({ quarantined }) => quarantined),
  };
}
