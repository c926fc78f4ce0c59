import type { IdempotencyLedger } from '../../../src/component/component.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { itemsOf } from '../../../src/model/batch.ts';
import { Refusal, RetryableError } from '../../../src/model/errors.ts';
import type { RequestContext } from '../../../src/model/request-context.ts';
import { bodyCache } from '../../../src/queue/body-cache.ts';
import type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterReason,
  DropReason,
  QueueDrop,
  QueueEntry,
  QueueOptions,
  QueueStats,
} from '../../../src/queue/queue.ts';
import type { SharedQueue } from '../../../src/queue/shared-queue.ts';
import type { Row } from '../connection/statement.ts';
import { ask } from '../connection/statement.ts';
import { Failed, grouped } from '../grouping.ts';
import type { Append, Appended } from './appends.ts';
import { groupedAppends } from './appends.ts';
import { QueueCounts } from './counts.ts';
import { HeldLeases } from './leases.ts';
import type { AnswerRow } from './ledger.ts';
import { answerRow } from './ledger.ts';
import type { QueueParts } from './parts.ts';
import type { Leased } from './rows.ts';
import { leasedOf, letterOf, oldestIn } from './rows.ts';
import * as sql from './statements.ts';
import { verifyQueue } from './verification.ts';

const CACHE_BYTES = 32 * 1024 * 1024;
const FULL_RETRY_MS = 2000;
/** After how long a note that could not be written (acknowledged, given back) is written again. */
const REWRITE_MS = 1000;

/** Ids of the branches of all queues, by queue and name. */
export type BranchIds = ReadonlyMap<string, number>;

type Take = {
  readonly from: string;
  readonly batchId: string;
  readonly branches: readonly string[];
};
/** By branch. */
type Taken = ReadonlyMap<string, QueueEntry>;
type Lease = { readonly branch: string; readonly leased: Leased };
type Ended = { readonly branch: string; readonly batchId: string };

/**
 * A queue in Postgres. Everything that must last is in the database; the memory of this process holds what
 * it leased, counts, and the newest bodies.
 */
export class PostgresQueue implements SharedQueue {
  readonly idempotency: IdempotencyLedger;
  readonly #name: string;
  readonly #parts: QueueParts;
  readonly #counts: QueueCounts;
  readonly #cache = bodyCache(CACHE_BYTES);
  /** Batch id to number in the cache. */
  readonly #cached = new Map<string, number>();
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly #dropListeners = new Set<(drop: QueueDrop) => void>();
  readonly #leases: HeldLeases;
  /** Branches in which something may be due; in the others nobody need look. */
  readonly #mayHave = new Set<string>();
  readonly #timers = new Set<() => void>();
  readonly #append: (call: Append) => Promise<Appended>;
  readonly #take: (call: Take) => Promise<Taken>;
  readonly #end: (call: Ended) => Promise<{ readonly isFree: boolean }>;
  #branches: readonly string[] = [];
  #ids: BranchIds = new Map();
  #maxBytes = 0;
  #isClosed = false;

  constructor(parts: QueueParts, options: QueueOptions, ids: BranchIds) {
    this.idempotency = parts.ledger;
    this.#name = options.name;
    this.#parts = parts;
    this.#counts = new QueueCounts(parts.database, options.name);
    this.#leases = new HeldLeases(this.#counts);
    this.#append = groupedAppends(parts, options.name, () =>
      this.#branches.map((branch) => this.#idOf(branch)),
    );
    this.#end = grouped(
      { count: 1000, weight: 1000 },
      () => 1,
      (calls) => this.#endGroup(calls),
    );
    this.#take = grouped(
      { count: 64, weight: 64 },
      () => 1,
      (calls) => this.#takeGroup(calls),
    );
    this.reconfigure(options, ids);
  }

  /** Takes up another configuration of the same queue. */
  reconfigure(options: QueueOptions, ids: BranchIds): void {
    this.#maxBytes = options.maxBytes;
    this.#branches = options.branches;
    this.#ids = ids;
    for (const branch of options.branches) this.#mayHave.add(branch);
  }

  refresh(): Promise<void> {
    return this.#counts.refresh();
  }

  async append(batch: SealedBatch, request?: RequestContext): Promise<void> {
    const answer = answerRow(batch, request?.answer, this.#parts.clock.now());
    if (itemsOf(batch) === 0) {
      if (answer !== undefined) await this.#remember(batch, answer);
      return;
    }
    const size = batch.body.byteLength;
    if (this.#counts.bytes + size > this.#maxBytes) {
      throw new RetryableError('queue_full', 'the queue is full', { retryAfterMs: FULL_RETRY_MS });
    }
    // Counted before it is written, so that appends in flight cannot exceed the bound together.
    this.#counts.changeBytes(size);
    try {
      const appended = await this.#append({ batch, answer, signal: request?.signal });
      if (appended === 'deleted') throw new Refusal('unauthorized', 'The project was deleted.');
      if (appended === 'refused') {
        throw new RetryableError(
          'quota_counters',
          'The quota counters were lost meanwhile. Try again.',
        );
      }
      if (request !== undefined) request.isUsageEntered = true;
      this.#entered(batch, appended.added, size);
    } catch (error) {
      this.#counts.changeBytes(-size);
      throw error;
    }
  }

  async #remember(batch: SealedBatch, answer: AnswerRow): Promise<void> {
    const { database, ledger } = this.#parts;
    await database.promptly(async (client) => {
      const deleted = await ask(client, database.deletedAmong([batch.tenant.projectId]));
      if (deleted.size === 0) await ledger.keep(client, [answer]);
    });
  }

  #entered(batch: SealedBatch, added: readonly Row[], size: number): void {
    // It waited already: its bytes have been counted.
    if (added.length < this.#branches.length) this.#counts.changeBytes(-size);
    const [first] = added;
    if (first !== undefined && this.#listeners.size > 0) {
      const seq = Number(first.seq);
      this.#cache.put(seq, batch);
      if (this.#cache.get(seq) !== undefined) this.#cached.set(batch.id, seq);
    }
    for (const row of added) {
      const branch = this.#nameOf(Number(row.branch));
      this.#counts.entered(branch, itemsOf(batch), batch.receivedAt);
      this.#announce(branch);
    }
  }

  async lease(branch: string, max: number, maxBytes: number): Promise<QueueEntry[]> {
    const { database, holder, clock } = this.#parts;
    const id = this.#idOf(branch);
    if (!this.#mayHave.delete(branch)) return [];
    const args = [id, max, maxBytes, clock.now(), holder.id];
    const leasing = database.query(sql.LEASE, args);
    const { rows } = await leasing.catch((error: unknown) => {
      this.#mayHave.add(branch);
      throw error;
    });
    if (rows.length > 0) this.#mayHave.add(branch);
    const leases = rows.map((row) => ({ branch, leased: leasedOf(row) }));
    return (await this.#withBodies(leases)).map(({ entry }) => entry);
  }

  async take(
    from: string,
    batchId: string,
    branches: readonly string[],
  ): Promise<ReadonlyMap<string, QueueEntry>> {
    return this.#take({ from, batchId, branches });
  }

  async #takeGroup(calls: readonly Take[]): Promise<readonly (Taken | Failed)[]> {
    const taken = new Map<string, Taken | Failed>();
    const alike = Map.groupBy(calls, ({ from, branches }) => JSON.stringify([from, branches]));
    for (const group of alike.values()) {
      const [first] = group;
      if (first === undefined) continue;
      const ids = group.map(({ batchId }) => batchId);
      try {
        for (const [id, entries] of await this.#takeAlike(first.from, ids, first.branches)) {
          taken.set(id, entries);
        }
      } catch (failure) {
        // What the others took is theirs all the same.
        for (const id of ids) taken.set(id, new Failed(failure));
      }
    }
    return calls.map(({ batchId }) => {
      const entries = taken.get(batchId) ?? new Map();
      // Who asks for the same batch twice in one group has it once.
      taken.delete(batchId);
      return entries;
    });
  }

  async #takeAlike(
    from: string,
    batchIds: readonly string[],
    branches: readonly string[],
  ): Promise<Map<string, Map<string, QueueEntry>>> {
    const { rows } = await this.#parts.database.query(sql.TAKE, [
      from,
      batchIds,
      this.#branches.map((branch) => this.#idOf(branch)),
      branches.map((branch) => this.#idOf(branch)),
      this.#parts.holder.id,
    ]);
    const leases: Lease[] = [];
    const sizes = new Map(rows.map((row) => [row.batch_id, Number(row.bytes)]));
    for (const size of sizes.values()) this.#counts.changeBytes(size);
    for (const row of rows) {
      const branch = this.#nameOf(Number(row.branch));
      const leased = leasedOf(row);
      this.#counts.entered(branch, leased.items, leased.receivedAt);
      if (row.leased === true) leases.push({ branch, leased });
      else this.#announce(branch);
    }
    const taken = new Map<string, Map<string, QueueEntry>>();
    for (const { branch, entry } of await this.#withBodies(leases)) {
      const entries = taken.get(entry.batch.id) ?? new Map<string, QueueEntry>();
      taken.set(entry.batch.id, entries.set(branch, entry));
    }
    return taken;
  }

  async waitingSince(before: number, limit: number, after = ''): Promise<string[]> {
    const ids = this.#branches.map((branch) => this.#idOf(branch));
    const { rows } = await this.#parts.database.query(sql.WAITING, [ids, before, limit, after]);
    return rows.map((row) => String(row.batch_id));
  }

  /**
   * Notes the leases, reads what is not in memory, and passes over what has no body any more. Where that
   * fails, none stays leased: nobody would work on it.
   */
  async #withBodies(
    leases: readonly Lease[],
  ): Promise<{ readonly branch: string; readonly entry: QueueEntry }[]> {
    for (const { branch, leased } of leases) this.#leases.add(branch, leased);
    try {
      const read = await this.#readBodies(leases);
      const entries: { branch: string; entry: QueueEntry }[] = [];
      for (const { branch, leased } of leases) {
        const batch = this.#fromCache(leased) ?? read.get(leased.batchId);
        if (batch === undefined) await this.#withoutBody(branch, leased);
        else {
          const entry = { seq: leased.seq, batch, attempts: leased.attempts };
          entries.push({ branch, entry });
        }
      }
      return entries;
    } catch (error) {
      const held = leases.filter(({ branch, leased }) => this.#leases.find(branch, leased.seq));
      // Not waited for: it takes as long as the database is away.
      for (const { branch, leased } of held) {
        this.#giveBack(branch, leased, REWRITE_MS).catch((failure: unknown) => {
          const { logger } = this.#parts;
          logger.debug({ error: failure, batch: leased.batchId }, 'a lease was left to expire');
        });
      }
      throw error;
    }
  }

  async #readBodies(leases: readonly Lease[]): Promise<ReadonlyMap<string, SealedBatch>> {
    const missing = leases.filter(({ leased }) => this.#fromCache(leased) === undefined);
    if (missing.length === 0) return new Map();
    const wanted = new Map(
      missing.map(({ leased: { batchId: id, projectId, receivedAt } }) => [
        id,
        { id, projectId, receivedAt },
      ]),
    );
    return this.#parts.database.read([...wanted.values()]);
  }

  #fromCache({ batchId }: Leased): SealedBatch | undefined {
    const seq = this.#cached.get(batchId);
    return seq === undefined ? undefined : this.#cache.get(seq);
  }

  /** Its project was deleted meanwhile; else it is damage, which must not stop what stands behind it. */
  async #withoutBody(branch: string, leased: Leased): Promise<void> {
    const { database, clock, logger } = this.#parts;
    const deleted = await ask(database, database.deletedAmong([leased.projectId]));
    const entry = { branch, batchId: leased.batchId };
    if (deleted.size > 0) {
      this.#dropped({ branch, items: leased.items, reason: 'project_deleted', wasDead: false });
    } else {
      const reason = 'its body is missing';
      logger.error(
        { queue: this.#name, batch: leased.batchId, reason },
        'a damaged entry was set aside',
      );
      await database.query(sql.QUARANTINE, [this.#name, leased.batchId, reason, clock.now()]);
      this.#counts.quarantined++;
    }
    this.#leases.remove(branch, leased.seq);
    await this.#endEntry(entry, leased);
  }

  onAvailable(branch: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(branch) ?? new Set();
    this.#listeners.set(branch, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#listeners.delete(branch);
    };
  }

  #announce(branch: string): void {
    this.#mayHave.add(branch);
    for (const listener of this.#listeners.get(branch) ?? []) listener();
  }

  /** Something may have come from elsewhere. */
  look(): void {
    for (const branch of this.#branches) this.#announce(branch);
  }

  async ack(branch: string, entries: readonly QueueEntry[]): Promise<void> {
    await Promise.all(
      entries.map(async ({ seq }) => {
        const leased = this.#leases.remove(branch, seq);
        if (leased === undefined) return;
        const entry = { branch, batchId: leased.batchId };
        await this.#persist(leased, () => this.#endEntry(entry, leased));
      }),
    );
  }

  async #endEntry(entry: Ended, { batchId, bytes }: Leased): Promise<void> {
    const { isFree } = await this.#end(entry);
    if (isFree) this.#free(batchId, bytes);
  }

  async #endGroup(calls: readonly Ended[]): Promise<readonly { readonly isFree: boolean }[]> {
    const free = new Set<string>();
    for (const [branch, ended] of Map.groupBy(calls, (call) => call.branch)) {
      const ids = ended.map(({ batchId }) => batchId);
      const others = [...this.#ids.values()];
      const args = [this.#idOf(branch), ids, others];
      const { rows } = await this.#parts.database.query(sql.END, args);
      for (const row of rows) {
        this.#counts.left(branch, Number(row.items), oldestIn(row));
        if (row.waits !== true) free.add(`${branch}\n${String(row.batch_id)}`);
      }
    }
    return calls.map(({ branch, batchId }) => ({ isFree: free.has(`${branch}\n${batchId}`) }));
  }

  #free(batchId: string, bytes: number): void {
    this.#counts.changeBytes(-bytes);
    const seq = this.#cached.get(batchId);
    if (seq === undefined) return;
    this.#cached.delete(batchId);
    this.#cache.delete(seq);
  }

  async nack(branch: string, entry: QueueEntry, delayMs: number, reason: string): Promise<void> {
    const leased = this.#leases.find(branch, entry.seq);
    if (leased === undefined) return;
    const about = { queue: this.#name, branch, seq: entry.seq, reason, delayMs };
    this.#parts.logger.debug(about, 'given back');
    await this.#giveBack(branch, leased, delayMs);
  }

  async #giveBack(branch: string, leased: Leased, delayMs: number): Promise<void> {
    const { database, clock, holder } = this.#parts;
    this.#leases.remove(branch, leased.seq);
    const due = delayMs <= 0 ? 0 : clock.now() + delayMs;
    const args = [this.#idOf(branch), leased.batchId, leased.attempts + 1, due, holder.id];
    await this.#persist(leased, () => database.query(sql.GIVE_BACK, args));
    if (delayMs <= 0) this.#announce(branch);
    else this.#after(due - clock.now(), () => this.#announce(branch));
  }

  async deadLetter(branch: string, entry: QueueEntry, reason: DeadLetterReason): Promise<void> {
    const leased = this.#leases.remove(branch, entry.seq);
    if (leased === undefined) return;
    const { database, clock } = this.#parts;
    const { code, message, items = leased.items } = reason;
    const text = message.replaceAll('\0', '\u2400');
    const args = [this.#idOf(branch), leased.batchId, code, text, clock.now(), items];
    const { rows } = await this.#persist(leased, () =>
      database.query(sql.BURY, [...args, [...this.#ids.values()]]),
    );
    const [row] = rows;
    // It was taken away meanwhile.
    if (row === undefined) return;
    this.#counts.left(branch, leased.items, oldestIn(row));
    this.#counts.changeDead(1, items);
    if (row.waits !== true) this.#free(leased.batchId, leased.bytes);
  }

  async discard(branch: string, entry: QueueEntry, reason: DropReason): Promise<void> {
    const leased = this.#leases.find(branch, entry.seq);
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

  async deadLetters(filter: DeadLetterFilter = {}): Promise<DeadLetter[]> {
    const args = [this.#name, filter.after ?? 0, filter.branch ?? null, filter.limit ?? 100];
    const { rows } = await this.#parts.database.query(sql.LETTERS, args);
    return rows.map(letterOf);
  }

  async replay(ids: readonly number[] | 'all'): Promise<number> {
    const args = [this.#name, ids === 'all' ? null : ids];
    const { rows } = await this.#parts.database.query(sql.REPLAY, args);
    for (const row of rows) {
      const branch = String(row.branch);
      this.#counts.changeDead(-1, -Number(row.items));
      if (row.waited !== true) this.#counts.changeBytes(Number(row.bytes));
      if (row.entered !== true) continue;
      this.#counts.entered(branch, Number(row.all_items), Number(row.received_at));
      this.#announce(branch);
    }
    return rows.length;
  }

  async drop(ids: readonly number[] | 'all'): Promise<number> {
    const args = [this.#name, ids === 'all' ? null : ids];
    const { rows } = await this.#parts.database.query(sql.DROP, args);
    for (const row of rows) this.#counts.changeDead(-1, -Number(row.items));
    return rows.length;
  }

  /** The store takes out what its projects leave, with everything else of theirs. */
  async removeProject(): Promise<void> {}

  stats(): QueueStats {
    return this.#counts.stats(this.#branches, this.#maxBytes);
  }

  verify(): Promise<{ entries: number; quarantined: number }> {
    const { database, clock } = this.#parts;
    return verifyQueue(database, this.#name, clock.now());
  }

  /** An entry was taken out of the tables. */
  forget(branchId: number, items: number, reason: DropReason, wasDead: boolean): void {
    for (const [branch, id] of this.#ids) {
      if (id !== branchId) continue;
      if (wasDead) this.#counts.changeDead(-1, -items);
      else this.#counts.left(branch, items, undefined);
      this.#dropped({ branch, items, reason, wasDead });
    }
  }

  /** Tries until it succeeds: a crash before only means that the entry is delivered again. */
  #persist<T>(leased: Leased, write: () => Promise<T>): Promise<T> {
    return this.#leases.untilWritten(leased, async () => {
      for (;;) {
        try {
          return await write();
        } catch (error) {
          if (this.#isClosed || !(error instanceof RetryableError)) throw error;
          await new Promise<void>((resolve) => this.#after(REWRITE_MS, resolve));
          if (this.#isClosed) throw error;
        }
      }
    });
  }

  /** Whether this process knows of a lease, or is about to end it. */
  holds(branchId: number, seq: number): boolean {
    for (const [branch, id] of this.#ids) if (id === branchId) return this.#leases.has(branch, seq);
    return false;
  }

  #after(ms: number, callback: () => void): void {
    const cancel = this.#parts.clock.after(ms, () => {
      this.#timers.delete(cancel);
      callback();
    });
    this.#timers.add(cancel);
  }

  #idOf(branch: string): number {
    const id = this.#ids.get(branch);
    if (id === undefined) throw new Error(`queue ${this.#name} has no branch ${branch}`);
    return id;
  }

  #nameOf(branchId: number): string {
    for (const [branch, id] of this.#ids) if (id === branchId) return branch;
    throw new Error(`queue ${this.#name} has no branch with the number ${branchId}`);
  }

  close(): void {
    this.#isClosed = true;
    this.#listeners.clear();
    for (const cancel of this.#timers) cancel();
  }
}
