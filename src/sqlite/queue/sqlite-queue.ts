import type { Steps } from '../../component/background.ts';
import type { Clock, IdempotencyLedger, Logger } from '../../component/component.ts';
import type { SteadyTime } from '../../component/steady-time.ts';
import type { SealedBatch } from '../../model/batch.ts';
import { Refusal, RetryableError } from '../../model/errors.ts';
import { endRequest } from '../../model/formats.ts';
import type { KeyedAnswer, RequestContext } from '../../model/request-context.ts';
import { isImplicitKey } from '../../model/request-context.ts';
import { type BodyCache, bodyCache } from '../../queue/body-cache.ts';
import type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterReason,
  DropReason,
  DurableQueue,
  ItemErasing,
  QueueDrop,
  QueueEntry,
  QueueOptions,
  QueueStats,
} from '../../queue/queue.ts';
import { earliest } from '../../queue/queue.ts';
import { batchOf, RECORD, recordOf } from '../../queue/record.ts';
import type { Database } from '../database.ts';
import type { AnswerRecord, KnownEntry } from './append-operations.ts';
import type { LineEntry } from './branch-line.ts';
import { BranchLine } from './branch-line.ts';
import type { QueueState } from './entry-operations.ts';
import { answerRecord } from './idempotency.ts';
import type { ErasingFile } from './item-erasing.ts';
import { eraseItems, sweepErased } from './item-erasing.ts';
import type { LargeBodies } from './large-bodies.ts';
import { LeaseEnds, REWRITE_MS } from './lease-ends.ts';
import type { QueueOperations } from './operations.ts';
import type { WrittenParts } from './part-operations.ts';
import type { RecentRequest, RecentRequests } from './recent-requests.ts';
import { itemizedAnswer, recentRequest } from './recent-requests.ts';
import type { RemovedBatch, ShrunkBatch } from './removal-operations.ts';
import type { UsageLedger } from './usage-ledger.ts';

type WriteOperations = QueueOperations['write'];

/** The weight of an append without its body. */
const ENTRY_WEIGHT = 512;
const PAGE = 1024;
const NO_BYTES = new Uint8Array(0);
const CACHE_BYTES = 32 * 1024 * 1024;
const FULL_RETRY_MS = 2000;

export type SqliteQueueParts = {
  readonly database: Database<QueueOperations>;
  readonly clock: Clock;
  /** Answers and recent requests expire by it. */
  readonly time: SteadyTime;
  readonly logger: Logger;
  readonly idempotency: IdempotencyLedger;
  readonly recent: RecentRequests;
  readonly usage: UsageLedger;
  readonly largeBodies: LargeBodies;
  /** Removes the project from all queues of the file. */
  readonly removeProject: (projectId: string) => Promise<void>;
  /** The file, if its queues erase items themselves. */
  readonly erasing?: ErasingFile;
};

/** A queue in a database file. Leases, and the next entries of each branch, are in memory; all else is on disk. */
export class SqliteQueue implements DurableQueue {
  readonly idempotency: IdempotencyLedger;
  readonly removeProject: (projectId: string) => Promise<void>;
  readonly eraseItems?: (erasing: ItemErasing) => Steps;
  readonly sweepErased?: () => Steps;
  readonly #name: string;
  readonly #database: Database<QueueOperations>;
  readonly #clock: Clock;
  readonly #time: SteadyTime;
  readonly #leaseEnds: LeaseEnds;
  readonly #logger: Logger;
  readonly #usage: UsageLedger;
  readonly #recent: RecentRequests;
  readonly #largeBodies: LargeBodies;
  readonly #dropListeners = new Set<(drop: QueueDrop) => void>();
  readonly #cache: BodyCache;
  readonly #lines = new Map<string, BranchLine>();
  /** The lines of the configured branches, in which new entries wait. */
  #targets: readonly BranchLine[] = [];
  #targetNumbers: readonly number[] = [];
  /** Numbers of all branches, also of those that are no longer configured. */
  #allNumbers: readonly number[] = [];
  #maxBytes = 0;
  #bytes: number;
  #deadLetters: number;
  #deadLetterItems: number;
  #quarantined: number;

  constructor(parts: SqliteQueueParts, options: QueueOptions, state: QueueState) {
    this.idempotency = parts.idempotency;
    this.removeProject = parts.removeProject;
    const { erasing } = parts;
    if (erasing !== undefined) {
      this.eraseItems = (items) => eraseItems(erasing, items);
      this.sweepErased = () => sweepErased(erasing.database);
    }
    this.#name = options.name;
    this.#database = parts.database;
    this.#clock = parts.clock;
    this.#time = parts.time;
    this.#leaseEnds = new LeaseEnds({ queue: options.name, ...parts });
    this.#logger = parts.logger;
    this.#usage = parts.usage;
    this.#recent = parts.recent;
    this.#largeBodies = parts.largeBodies;
    this.#bytes = state.bytes;
    this.#deadLetters = state.deadLetters;
    this.#deadLetterItems = state.deadLetterItems;
    this.#quarantined = state.quarantined;
    this.#cache = bodyCache(options.cacheBytes ?? CACHE_BYTES);
    this.reconfigure(options, state);
  }

  /** Replaces the configuration of the queue. */
  reconfigure(options: QueueOptions, state: QueueState): void {
    this.#maxBytes = options.maxBytes;
    for (const { branch, number, entries, items } of state.branches) {
      if (this.#lines.has(branch)) continue;
      const start = { branch, number, entries, items, lastSeq: state.lastSeq };
      this.#lines.set(branch, new BranchLine(start, this.#clock));
      if (entries === 0 || options.branches.includes(branch)) continue;
      const about = { queue: this.#name, branch, entries };
      this.#logger.warn(about, 'Entries wait for an exporter that is not configured');
    }
    const lines = [...this.#lines.values()];
    this.#targets = lines.filter((line) => options.branches.includes(line.branch));
    this.#targetNumbers = this.#targets.map((line) => line.number);
    this.#allNumbers = lines.map((line) => line.number);
  }

  append(batch: SealedBatch, request?: RequestContext): Promise<void> {
    const given = request?.answer;
    if (given?.keptFor === undefined || !isImplicitKey(given.key))
      return this.#append(batch, given);
    if (batch.items === 0) return Promise.resolve();
    const recent = recentRequest(batch, given, given.keptFor, this.#time.now());
    if (given.isUnclaimed !== true) return this.#appendClaimed(batch, recent);
    return this.#recent.appendOnce(recent, () => this.#write(batch, null, recent));
  }

  async #append(batch: SealedBatch, given: KeyedAnswer | undefined): Promise<void> {
    const answer = given === undefined ? null : answerRecord(batch, given, this.#time.now());
    if (batch.items > 0) await this.#write(batch, answer);
    else if (answer !== null) await this.#database.write('queue.remember', [answer]);
  }

  async #appendClaimed(batch: SealedBatch, recent: RecentRequest): Promise<void> {
    this.#recent.add(recent, await this.#write(batch, null, recent));
  }

  /** Writes the batch, with the answer to its key or the request behind it. Resolves with the number of the durable batch. */
  async #write(
    batch: SealedBatch,
    answer: AnswerRecord | null,
    recent?: RecentRequest,
  ): Promise<number> {
    const size = batch.body.byteLength;
    this.#refuseWhenFull(size);
    const usageAt = this.#usage.entering(batch);
    // Counted before the write, so that appends in flight cannot exceed the bound together.
    this.#bytes += size;
    let parts: WrittenParts | null = null;
    try {
      if (this.#largeBodies.isLarge(batch)) parts = await this.#writeParts(batch);
      const record = parts === null ? recordOf(batch) : recordOf(batch, NO_BYTES);
      const { tag = null, expiresAt = 0 } = recent ?? {};
      const itemized = recent === undefined ? null : itemizedAnswer(recent, batch.id);
      const appended = await this.#database.write(
        'queue.append',
        [this.#targetNumbers, answer, record, usageAt, size, parts, tag, expiresAt, itemized],
        { weight: record[RECORD.BODY].byteLength + ENTRY_WEIGHT },
      );
      if (appended === null) throw projectDeleted();
      this.#usage.entered(batch.id, typeof appended === 'number' ? 'written' : 'known');
      this.#enterLines(appended, batch, size);
      return typeof appended === 'number' ? appended : appended.seq;
    } catch (error) {
      this.#usage.entered(batch.id, 'failed');
      this.#bytes -= size;
      throw error;
    } finally {
      if (parts !== null) void this.#largeBodies.end(batch.tenant.projectId, parts.numbers);
    }
  }

  async #writeParts(batch: SealedBatch): Promise<WrittenParts> {
    const parts = await this.#largeBodies.write(batch);
    if (parts === null) throw projectDeleted();
    return parts;
  }

  #refuseWhenFull(size: number): void {
    const shortage = this.#database.shortage();
    if (shortage !== undefined) throw shortage;
    if (this.#bytes + size <= this.#maxBytes) return;
    throw new RetryableError('queue_full', 'the queue is full', { retryAfterMs: FULL_RETRY_MS });
  }

  #enterLines(appended: number | KnownEntry, batch: SealedBatch, bytes: number): void {
    const seq = typeof appended === 'number' ? appended : appended.seq;
    const { items, receivedAt, tenant } = batch;
    const entry = { seq, project: tenant.projectId, items, bytes, receivedAt, attempts: 0 };
    if (typeof appended === 'number') {
      this.#cache.put(seq, batch);
      for (const line of this.#targets) line.append(entry);
      return;
    }
    if (appended.waited) this.#bytes -= bytes;
    for (const line of this.#targets) {
      if (appended.added.includes(line.number)) line.insert(entry);
    }
  }

  async lease(branch: string, max: number, maxBytes: number): Promise<QueueEntry[]> {
    const line = this.#lineOf(branch);
    for (;;) {
      await this.#catchUp(line);
      const taken = takeNext(line, max, maxBytes);
      if (taken.length === 0) return [];
      const entries = await this.#withBodies(line, taken);
      // If all of them were damaged, those behind them would wait until another entry is announced.
      if (entries.length > 0) return entries;
    }
  }

  async leaseOfIdle(branch: string, maxBytes: number): Promise<QueueEntry[]> {
    const line = this.#lineOf(branch);
    const entry = line.takeOfIdle(maxBytes);
    return entry === undefined ? [] : this.#withBodies(line, [entry]);
  }

  /** Waits for entries on disk only if the next one is not known; otherwise the line announces those that were read. */
  async #catchUp(line: BranchLine): Promise<void> {
    if (!line.isBehind) return;
    const waits = line.waitsForRead;
    const reading = this.#readAhead(line);
    if (waits) return reading;
    // A read that failed is repeated by the next lease.
    reading.catch(() => undefined);
  }

  readonly #reading = new Map<BranchLine, Promise<void>>();

  #readAhead(line: BranchLine): Promise<void> {
    let reading = this.#reading.get(line);
    if (reading === undefined) {
      reading = line
        .readAhead(PAGE, (after, limit) =>
          this.#database.read('queue.page', [line.number, after, limit]),
        )
        .finally(() => this.#reading.delete(line));
      this.#reading.set(line, reading);
    }
    return reading;
  }

  async #withBodies(line: BranchLine, taken: readonly LineEntry[]): Promise<QueueEntry[]> {
    // Looked up once: an erasure may take a batch out of the cache while the bodies of others are read.
    const cached = new Map(taken.map(({ seq }) => [seq, this.#cache.get(seq)]));
    const cold = taken.filter(({ seq }) => cached.get(seq) === undefined);
    let read = new Map<number, SealedBatch>();
    try {
      if (cold.length > 0) read = await this.#readBodies(cold.map(({ seq }) => seq));
    } catch (error) {
      for (const entry of taken) line.release(entry, this.#clock.now() + REWRITE_MS);
      throw error;
    }
    const entries: QueueEntry[] = [];
    for (const { seq, attempts } of taken) {
      const batch = read.get(seq) ?? cached.get(seq);
      // An entry that was removed during the read has no lease any more.
      if (batch !== undefined && line.leased.has(seq)) entries.push({ seq, batch, attempts });
    }
    return entries;
  }

  async #readBodies(seqs: readonly number[]): Promise<Map<number, SealedBatch>> {
    const bodies = await this.#database.read('queue.bodies', [seqs]);
    const batches = new Map<number, SealedBatch>();
    for (const [i, seq] of seqs.entries()) {
      const body = bodies[i] ?? { damage: 'it was not read' };
      if ('record' in body) {
        const batch = batchOf(body.record);
        endRequest(batch);
        batches.set(seq, batch);
      } else await this.#quarantine(seq, body.damage);
    }
    return batches;
  }

  /** Takes a damaged entry out of every branch and counts it, so that it does not block the entries behind it. */
  async #quarantine(seq: number, reason: string): Promise<void> {
    const now = this.#clock.now();
    const places = await this.#database.write('queue.quarantine', [this.#name, seq, reason, now]);
    const [first] = places;
    if (first === undefined) return;
    this.#logger.error({ queue: this.#name, seq, reason }, 'Damaged entry quarantined');
    this.#quarantined++;
    this.#free(seq, first.bytes);
    for (const { branch, items } of places) this.#lineNumbered(branch)?.remove(seq, items);
  }

  untriedSince(project?: string): number | undefined {
    return earliest(this.#targets.map((line) => line.untriedSince(project)));
  }

  onAvailable(branch: string, listener: () => void): () => void {
    return this.#lineOf(branch).onAvailable(listener);
  }

  async ack(branch: string, entries: readonly QueueEntry[], withinMs?: number): Promise<void> {
    const line = this.#lineOf(branch);
    const ended = endLeases(line, entries);
    if (ended.length === 0) return;
    const seqs = ended.map(({ seq }) => seq);
    const args = [this.#allNumbers, line.number, seqs] as const;
    const free = await this.#end(line, ended, 'queue.ack', [...args], withinMs);
    for (const { seq, bytes } of ended) if (free.includes(seq)) this.#free(seq, bytes);
  }

  async nack(branch: string, entry: QueueEntry, delayMs: number, reason: string): Promise<void> {
    const line = this.#lineOf(branch);
    const leased = line.leased.get(entry.seq);
    if (leased === undefined) return;
    const { seq } = entry;
    this.#logger.debug({ queue: this.#name, branch, seq, reason, delayMs }, 'Entry returned');
    const attempts = leased.attempts + 1;
    const due = this.#clock.now() + delayMs;
    line.release({ ...leased, attempts }, due);
    await this.#leaseEnds.write('queue.nack', [line.number, seq, attempts, due]);
  }

  async deadLetter(branch: string, entry: QueueEntry, reason: DeadLetterReason): Promise<void> {
    const line = this.#lineOf(branch);
    const [ended] = endLeases(line, [entry]);
    if (ended === undefined) return;
    const { code, message, items = ended.items } = reason;
    this.#deadLetters++;
    this.#deadLetterItems += items;
    const now = this.#clock.now();
    const { seq, bytes } = ended;
    const args = [this.#allNumbers, line.number, seq, code, message, now, items] as const;
    const isFree = await this.#end(line, [ended], 'queue.deadLetter', [...args]);
    if (isFree === true) this.#free(seq, bytes);
    if (isFree !== null) return;
    // `forget` removed the batch while the dead letter was on its way to the file.
    this.#deadLetters--;
    this.#deadLetterItems -= items;
    this.#dropped({ branch, items, reason: 'project_deleted', wasDead: false });
  }

  async #end<Name extends keyof WriteOperations>(
    line: BranchLine,
    ended: readonly LineEntry[],
    name: Name,
    args: Parameters<WriteOperations[Name]>,
    withinMs?: number,
  ): Promise<ReturnType<WriteOperations[Name]>> {
    for (const { seq } of ended) line.ending.add(seq);
    try {
      return await this.#leaseEnds.write(name, args, withinMs);
    } finally {
      for (const { seq } of ended) line.ending.delete(seq);
    }
  }

  async discard(branch: string, entry: QueueEntry, reason: DropReason): Promise<void> {
    const line = this.#lineOf(branch);
    const leased = line.leased.get(entry.seq);
    if (leased === undefined) return;
    this.#dropped({ branch, items: leased.items, reason, wasDead: false });
    await this.ack(branch, [entry]);
  }

  onDrop(listener: (drop: QueueDrop) => void): () => void {
    this.#dropListeners.add(listener);
    return () => this.#dropListeners.delete(listener);
  }

  #dropped(drop: QueueDrop): void {
    for (const listener of this.#dropListeners) listener(drop);
  }

  /** Drops the entries, leases and dead letters of batches that were removed from the file. */
  forget(removed: readonly RemovedBatch[], reason: DropReason): void {
    for (const { seq, bytes, pending, letters } of removed) {
      let waited = false;
      for (const { branch, items } of pending) {
        const line = this.#lineNumbered(branch);
        if (line === undefined) continue;
        waited = true;
        // An entry whose end is on its way to the file has left its line already.
        if (line.ending.has(seq)) continue;
        line.remove(seq, items);
        this.#dropped({ branch: line.branch, items, reason, wasDead: false });
      }
      if (waited) this.#free(seq, bytes);
      for (const { branch, items } of letters) {
        const line = this.#lineNumbered(branch);
        if (line === undefined) continue;
        this.#deadLetters--;
        this.#deadLetterItems -= items;
        this.#dropped({ branch: line.branch, items, reason, wasDead: true });
      }
    }
  }

  /** Items of a batch were erased from the file. A delivery under way still has them, and counts them. */
  shrink({ seq, isEmpty, bytes, pending, letters }: ShrunkBatch): void {
    if (isEmpty) {
      this.forget([{ seq, bytes, pending, letters }], 'erasure');
      return;
    }
    this.#cache.delete(seq);
    for (const { branch, items } of pending) {
      const line = this.#lineNumbered(branch);
      if (line === undefined || !line.shrink(seq, items)) continue;
      this.#dropped({ branch: line.branch, items, reason: 'erasure', wasDead: false });
    }
    for (const { branch, items } of letters) {
      const line = this.#lineNumbered(branch);
      if (line === undefined || items === 0) continue;
      this.#deadLetterItems -= items;
      this.#dropped({ branch: line.branch, items, reason: 'erasure', wasDead: true });
    }
  }

  #free(seq: number, bytes: number): void {
    this.#bytes -= bytes;
    this.#cache.delete(seq);
  }

  async deadLetters(filter: DeadLetterFilter = {}): Promise<DeadLetter[]> {
    const { after = 0, branch = null, limit = 100 } = filter;
    const args = [this.#name, after, branch, limit] as const;
    const letters = await this.#database.read('queue.deadLetters', [...args]);
    return letters.map(({ code, message, ...letter }) => ({
      ...letter,
      reason: { code, message },
    }));
  }

  async replay(ids: readonly number[] | 'all'): Promise<number> {
    const replayed = await this.#database.write('queue.replay', [this.#allNumbers, ids]);
    for (const { branch, wasFree, ...entry } of replayed) {
      this.#deadLetters--;
      this.#deadLetterItems -= entry.items;
      if (wasFree) this.#bytes += entry.bytes;
      this.#lineNumbered(branch)?.insert({ ...entry, attempts: 0 });
    }
    return replayed.length;
  }

  async drop(ids: readonly number[] | 'all'): Promise<number> {
    const { count, items } = await this.#database.write('queue.drop', [this.#allNumbers, ids]);
    this.#deadLetters -= count;
    this.#deadLetterItems -= items;
    return count;
  }

  stats(): QueueStats {
    const lines = [...this.#lines.values()];
    return {
      branches: lines
        .filter((line) => this.#targets.includes(line) || line.entries > 0)
        .map((line) => ({
          branch: line.branch,
          entries: line.entries,
          items: line.items,
          leased: line.leased.size,
          oldestAt: line.oldestAt(),
        })),
      bytes: this.#bytes,
      maxBytes: this.#maxBytes,
      deadLetters: this.#deadLetters,
      deadLetterItems: this.#deadLetterItems,
      quarantined: this.#quarantined,
    };
  }

  async verify(): Promise<{ entries: number; quarantined: number }> {
    let entries = 0;
    let quarantined = 0;
    let after = 0;
    for (;;) {
      const page = await this.#database.search('queue.check', [this.#name, after, PAGE]);
      for (const { seq, damage } of page.damaged) await this.#quarantine(seq, damage);
      entries += page.count;
      quarantined += page.damaged.length;
      after = page.lastSeq;
      if (page.count < PAGE) return { entries, quarantined };
    }
  }

  #lineOf(branch: string): BranchLine {
    const line = this.#lines.get(branch);
    if (line === undefined) throw new Error(`queue ${this.#name} has no branch ${branch}`);
    return line;
  }

  #lineNumbered(number: number): BranchLine | undefined {
    for (const line of this.#lines.values()) if (line.number === number) return line;
    return undefined;
  }

  close(): void {
    this.#leaseEnds.close();
    for (const line of this.#lines.values()) line.close();
  }
}

function projectDeleted(): Refusal {
  return new Refusal('unauthorized', 'The project was deleted.');
}

/** Ends the leases of the entries. An entry without a lease has ended before and is skipped. */
function endLeases(line: BranchLine, entries: readonly QueueEntry[]): LineEntry[] {
  const ended: LineEntry[] = [];
  for (const { seq } of entries) {
    const entry = line.leased.get(seq);
    if (entry === undefined) continue;
    line.remove(seq, entry.items);
    ended.push(entry);
  }
  return ended;
}

function takeNext(line: BranchLine, max: number, maxBytes: number): LineEntry[] {
  const taken: LineEntry[] = [];
  let bytes = 0;
  while (taken.length < max) {
    const next = line.peek();
    if (next === undefined || (taken.length > 0 && bytes + next.bytes > maxBytes)) break;
    bytes += next.bytes;
    line.take();
    taken.push(next);
  }
  return taken;
}
