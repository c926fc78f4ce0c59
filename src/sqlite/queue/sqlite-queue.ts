import type { Clock, IdempotencyLedger, Logger } from '../../component/component.ts';
import type { SealedBatch } from '../../model/batch.ts';
import { Refusal, RetryableError } from '../../model/errors.ts';
import type { RequestContext } from '../../model/request-context.ts';
import { type BodyCache, bodyCache } from '../../queue/body-cache.ts';
import type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterReason,
  DropReason,
  DurableQueue,
  QueueDrop,
  QueueEntry,
  QueueOptions,
  QueueStats,
} from '../../queue/queue.ts';
import type { BatchRecord } from '../../queue/record.ts';
import { batchOf, recordOf } from '../../queue/record.ts';
import type { Database } from '../database.ts';
import type { Waiting } from './branch-line.ts';
import { BranchLine } from './branch-line.ts';
import { answerRecord } from './idempotency.ts';
import type { LargeBodies } from './large-bodies.ts';
import type { DeadLetterRow, PendingRow, QueueState, ReplayedRow } from './operations.ts';
import type { WrittenParts } from './part-operations.ts';
import type { RemovedBatch } from './removal-operations.ts';
import type { UsageLedger } from './usage-ledger.ts';

/** Null: the project was deleted. */
type Appended = number | readonly [seq: number, added: readonly number[], waited: boolean] | null;
type BodyRow = readonly [record: BatchRecord | null, damage: string | null];
type QuarantinedRow = readonly [branch: number, items: number, bytes: number];
type CheckedPage = readonly [count: number, last: number, damaged: readonly [number, string][]];

/** What an append weighs beside its body. */
const ENTRY_WEIGHT = 512;
const PAGE = 1024;
const NO_BYTES = new Uint8Array(0);
const CACHE_BYTES = 32 * 1024 * 1024;
const FULL_RETRY_MS = 2000;
/** After how long a note that could not be written (acknowledged, given back) is written again. */
const REWRITE_MS = 1000;

export type QueueParts = {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly idempotency: IdempotencyLedger;
  readonly usage: UsageLedger;
  readonly largeBodies: LargeBodies;
  /** The queues of a file are one place: what is removed goes from all of them. */
  readonly removeProject: (projectId: string) => Promise<void>;
};

/** A queue in a database file. What is leased, and what waits next, is in memory; all else on disk. */
export class SqliteQueue implements DurableQueue {
  readonly idempotency: IdempotencyLedger;
  readonly removeProject: (projectId: string) => Promise<void>;
  readonly #name: string;
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #usage: UsageLedger;
  readonly #largeBodies: LargeBodies;
  readonly #dropListeners = new Set<(drop: QueueDrop) => void>();
  readonly #cache: BodyCache;
  readonly #lines = new Map<string, BranchLine>();
  /** The lines that new entries wait in. */
  #targets: readonly BranchLine[] = [];
  #targetNumbers: readonly number[] = [];
  /** Numbers of all branches, those that are no longer configured too. */
  #allNumbers: readonly number[] = [];
  #maxBytes = 0;
  #bytes: number;
  #deadLetters: number;
  #deadLetterItems: number;
  #quarantined: number;
  #isClosed = false;

  constructor(parts: QueueParts, options: QueueOptions, state: QueueState) {
    this.idempotency = parts.idempotency;
    this.removeProject = parts.removeProject;
    this.#name = options.name;
    this.#database = parts.database;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#usage = parts.usage;
    this.#largeBodies = parts.largeBodies;
    this.#bytes = state.bytes;
    this.#deadLetters = state.deadLetters;
    this.#deadLetterItems = state.deadLetterItems;
    this.#quarantined = state.quarantined;
    this.#cache = bodyCache(options.cacheBytes ?? CACHE_BYTES);
    this.reconfigure(options, state);
  }

  /** Takes up another configuration of the same queue. */
  reconfigure(options: QueueOptions, state: QueueState): void {
    this.#maxBytes = options.maxBytes;
    for (const [branch, number, entries, items] of state.branches) {
      if (this.#lines.has(branch)) continue;
      const start = { branch, number, entries, items, lastSeq: state.lastSeq };
      this.#lines.set(branch, new BranchLine(start, this.#clock));
      if (entries === 0 || options.branches.includes(branch)) continue;
      const about = { queue: this.#name, branch, entries };
      this.#logger.warn(about, 'entries wait for an exporter that is not configured');
    }
    const lines = [...this.#lines.values()];
    this.#targets = lines.filter((line) => options.branches.includes(line.branch));
    this.#targetNumbers = this.#targets.map((line) => line.number);
    this.#allNumbers = lines.map((line) => line.number);
  }

  async append(batch: SealedBatch, request?: RequestContext): Promise<void> {
    const answer = answerRecord(batch, request?.answer, this.#clock.now());
    if (batch.items === 0) {
      if (answer !== null) await this.#database.write('queue.remember', [answer]);
      return;
    }
    const size = batch.body.byteLength;
    this.#refuseWhenFull(size);
    const usageAt = this.#usage.entering(batch);
    // Counted before it is written, so that appends in flight cannot exceed the bound together.
    this.#bytes += size;
    let parts: WrittenParts | null = null;
    try {
      if (this.#largeBodies.isLarge(batch)) parts = await this.#writeParts(batch);
      const record = parts === null ? recordOf(batch) : recordOf(batch, NO_BYTES);
      const args = [this.#targetNumbers, answer, record, usageAt, size, parts];
      const options = { weight: record[14].byteLength + ENTRY_WEIGHT };
      const written = (await this.#database.write('queue.append', args, options)) as Appended;
      if (written === null) throw projectDeleted();
      this.#usage.entered(batch.id, typeof written === 'number' ? 'written' : 'known');
      this.#enterLines(written, batch, size);
    } catch (error) {
      this.#usage.entered(batch.id, 'failed');
      this.#bytes -= size;
      throw error;
    } finally {
      if (parts !== null) void this.#largeBodies.end(batch.tenant.projectId, parts[0]);
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

  #enterLines(written: Exclude<Appended, null>, batch: SealedBatch, bytes: number): void {
    const { items } = batch;
    const entry = { items, bytes, receivedAt: batch.receivedAt, attempts: 0 };
    if (typeof written === 'number') {
      this.#cache.put(written, batch);
      for (const line of this.#targets) line.append({ seq: written, ...entry });
      return;
    }
    const [seq, added, waited] = written;
    if (waited) this.#bytes -= bytes;
    for (const line of this.#targets) {
      if (added.includes(line.number)) line.insert({ seq, ...entry });
    }
  }

  async lease(branch: string, max: number, maxBytes: number): Promise<QueueEntry[]> {
    const line = this.#lineOf(branch);
    if (line.isBehind && line.peek() === undefined) await this.#readAhead(line);
    const taken: Waiting[] = [];
    let bytes = 0;
    while (taken.length < max) {
      const next = line.peek();
      if (next === undefined || (taken.length > 0 && bytes + next.bytes > maxBytes)) break;
      bytes += next.bytes;
      line.take();
      taken.push(next);
    }
    return taken.length === 0 ? [] : this.#withBodies(line, taken);
  }

  readonly #reading = new Map<BranchLine, Promise<void>>();

  #readAhead(line: BranchLine): Promise<void> {
    let reading = this.#reading.get(line);
    if (reading === undefined) {
      reading = line
        .readAhead(PAGE, async (after, limit) => {
          const rows = await this.#database.read('queue.page', [line.number, after, limit]);
          return rows as PendingRow[];
        })
        .finally(() => this.#reading.delete(line));
      this.#reading.set(line, reading);
    }
    return reading;
  }

  async #withBodies(line: BranchLine, taken: readonly Waiting[]): Promise<QueueEntry[]> {
    const cold = taken.filter(({ seq }) => this.#cache.get(seq) === undefined);
    let read = new Map<number, SealedBatch>();
    try {
      if (cold.length > 0) read = await this.#readBodies(cold.map(({ seq }) => seq));
    } catch (error) {
      for (const entry of taken) line.giveBack(entry, this.#clock.now() + REWRITE_MS);
      throw error;
    }
    const entries: QueueEntry[] = [];
    for (const { seq, attempts } of taken) {
      const batch = read.get(seq) ?? this.#cache.get(seq);
      if (batch !== undefined) entries.push({ seq, batch, attempts });
    }
    return entries;
  }

  async #readBodies(seqs: readonly number[]): Promise<Map<number, SealedBatch>> {
    const bodies = (await this.#database.read('queue.bodies', [seqs])) as BodyRow[];
    const batches = new Map<number, SealedBatch>();
    for (const [i, seq] of seqs.entries()) {
      const [record, damage] = bodies[i] ?? [null, 'it was not read'];
      if (record !== null) batches.set(seq, batchOf(record));
      else await this.#quarantine(seq, damage ?? '');
    }
    return batches;
  }

  /** Damage must not stop what stands behind it: the entry leaves every branch, and is counted. */
  async #quarantine(seq: number, reason: string): Promise<void> {
    const args = [this.#name, seq, reason, this.#clock.now()];
    const rows = (await this.#database.write('queue.quarantine', args)) as QuarantinedRow[];
    if (rows[0] === undefined) return;
    this.#logger.error({ queue: this.#name, seq, reason }, 'a damaged entry was set aside');
    this.#quarantined++;
    this.#free(seq, rows[0][2]);
    for (const [number, items] of rows) this.#lineNumbered(number)?.remove(seq, items);
  }

  onAvailable(branch: string, listener: () => void): () => void {
    return this.#lineOf(branch).onAvailable(listener);
  }

  async ack(branch: string, entries: readonly QueueEntry[]): Promise<void> {
    const line = this.#lineOf(branch);
    const ended = endLeases(line, entries);
    if (ended.length === 0) return;
    const args = [this.#allNumbers, line.number, ended.map(({ seq }) => seq)];
    const free = (await this.#end(line, ended, 'queue.ack', args)) as number[];
    for (const { seq, bytes } of ended) if (free.includes(seq)) this.#free(seq, bytes);
  }

  async nack(branch: string, entry: QueueEntry, delayMs: number, reason: string): Promise<void> {
    const line = this.#lineOf(branch);
    const leased = line.leased.get(entry.seq);
    if (leased === undefined) return;
    const { seq } = entry;
    this.#logger.debug({ queue: this.#name, branch, seq, reason, delayMs }, 'given back');
    const attempts = leased.attempts + 1;
    const due = this.#clock.now() + delayMs;
    line.giveBack({ ...leased, attempts }, due);
    await this.#persist('queue.nack', [line.number, seq, attempts, due]);
  }

  async deadLetter(branch: string, entry: QueueEntry, reason: DeadLetterReason): Promise<void> {
    const line = this.#lineOf(branch);
    const [ended] = endLeases(line, [entry]);
    if (ended === undefined) return;
    const { code, message, items = ended.items } = reason;
    this.#deadLetters++;
    this.#deadLetterItems += items;
    const now = this.#clock.now();
    const args = [this.#allNumbers, line.number, ended.seq, code, message, now, items];
    const isFree = await this.#end(line, [ended], 'queue.deadLetter', args);
    if (isFree === true) this.#free(ended.seq, ended.bytes);
    if (isFree !== null) return;
    // Its batch was taken away meanwhile, see `forget`.
    this.#deadLetters--;
    this.#deadLetterItems -= items;
    this.#dropped({ branch, items, reason: 'project_deleted', wasDead: false });
  }

  async #end(
    line: BranchLine,
    ended: readonly Waiting[],
    name: string,
    args: readonly unknown[],
  ): Promise<unknown> {
    for (const { seq } of ended) line.ending.add(seq);
    try {
      return await this.#persist(name, args);
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

  /** Batches are gone from the file: what waited, was leased or dead of them is forgotten here. */
  forget(removed: readonly RemovedBatch[], reason: DropReason): void {
    for (const [seq, bytes, pending, letters] of removed) {
      let waited = false;
      for (const [number, items] of pending) {
        const line = this.#lineNumbered(number);
        if (line === undefined) continue;
        waited = true;
        // An entry whose end is being written has left its line already.
        if (line.ending.has(seq)) continue;
        line.remove(seq, items);
        this.#dropped({ branch: line.branch, items, reason, wasDead: false });
      }
      if (waited) this.#free(seq, bytes);
      for (const [number, items] of letters) {
        const line = this.#lineNumbered(number);
        if (line === undefined) continue;
        this.#deadLetters--;
        this.#deadLetterItems -= items;
        this.#dropped({ branch: line.branch, items, reason, wasDead: true });
      }
    }
  }

  #free(seq: number, bytes: number): void {
    this.#bytes -= bytes;
    this.#cache.delete(seq);
  }

  /**
   * Writes what became of an entry, with the next group of whoever writes next. It is tried until it
   * succeeds: a crash before only means that the entry is delivered again.
   */
  async #persist(name: string, args: readonly unknown[]): Promise<unknown> {
    for (;;) {
      try {
        return await this.#database.write(name, args, { lazy: true });
      } catch (error) {
        if (this.#isClosed || !(error instanceof RetryableError)) throw error;
        this.#logger.warn({ queue: this.#name, error }, 'what became of entries is not noted yet');
        await new Promise<void>((resolve) => this.#clock.after(REWRITE_MS, resolve));
        if (this.#isClosed) throw error;
      }
    }
  }

  async deadLetters(filter: DeadLetterFilter = {}): Promise<DeadLetter[]> {
    const args = [this.#name, filter.after ?? 0, filter.branch ?? null, filter.limit ?? 100];
    const rows = (await this.#database.read('queue.deadLetters', args)) as DeadLetterRow[];
    return rows.map(letterOf);
  }

  async replay(ids: readonly number[] | 'all'): Promise<number> {
    const args = [this.#allNumbers, ids];
    const rows = (await this.#database.write('queue.replay', args)) as [ReplayedRow, boolean][];
    for (const [[number, seq, items, bytes, receivedAt], wasFree] of rows) {
      this.#deadLetters--;
      this.#deadLetterItems -= items;
      if (wasFree) this.#bytes += bytes;
      this.#lineNumbered(number)?.insert({ seq, items, bytes, receivedAt, attempts: 0 });
    }
    return rows.length;
  }

  async drop(ids: readonly number[] | 'all'): Promise<number> {
    const args = [this.#allNumbers, ids];
    const [count, items] = (await this.#database.write('queue.drop', args)) as [number, number];
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
      const args = [this.#name, after, PAGE];
      const checked = (await this.#database.search('queue.check', args)) as CheckedPage;
      const [count, last, damaged] = checked;
      for (const [seq, reason] of damaged) await this.#quarantine(seq, reason);
      entries += count;
      quarantined += damaged.length;
      after = last;
      if (count < PAGE) return { entries, quarantined };
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
    this.#isClosed = true;
    for (const line of this.#lines.values()) line.close();
  }
}

function projectDeleted(): Refusal {
  return new Refusal('unauthorized', 'The project was deleted.');
}

/** Only what is leased can end: an entry that ended before is passed over. */
function endLeases(line: BranchLine, entries: readonly QueueEntry[]): Waiting[] {
  const ended: Waiting[] = [];
  for (const { seq } of entries) {
    const entry = line.leased.get(seq);
    if (entry === undefined) continue;
    line.remove(seq, entry.items);
    ended.push(entry);
  }
  return ended;
}

function letterOf(row: DeadLetterRow): DeadLetter {
  const [id, branch, batchId, projectId, items, bytes, code, message, failedAt] = row;
  return { id, branch, batchId, projectId, items, bytes, reason: { code, message }, failedAt };
}
