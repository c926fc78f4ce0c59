import type { Clock, IdempotencyLedger, Logger } from '../../../src/component/component.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { itemsOf } from '../../../src/model/batch.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { RequestContext } from '../../../src/model/request-context.ts';
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
import { MISSING_BODY } from '../../../src/queue/record.ts';
import type { SharedQueue } from '../../../src/queue/shared-queue.ts';
import { ask, row, rows, rowsIn } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import type { ShrunkEntry } from '../erasing/cleaning.ts';
import { Failed, grouped } from '../grouping.ts';
import { toStoredText } from '../tenancy/stored-text.ts';
import type { Append, Appended, EnteredRow } from './appends.ts';
import { enteredOf, groupedAppends } from './appends.ts';
import { LeasedBodies } from './bodies.ts';
import { QueueCounts } from './counts.ts';
import type { Holder } from './holder.ts';
import type { AnswerToKeep, PostgresIdempotency } from './idempotency.ts';
import { keptAnswer } from './idempotency.ts';
import type { Leased, LeasedRow } from './leases.ts';
import { HeldLeases, leasedOf, leaseOf } from './leases.ts';
import { verifyQueue } from './maintenance.ts';
import * as sql from './statements.ts';

const FULL_RETRY_MS = 2000;
/** After how long a failed statement about a delivery's outcome is repeated. */
const REWRITE_MS = 1000;

/** A timer of this process ends at most this much before a due time of the database. */
const EARLY_MS = 20;

/** The parts that all queues of a store share. */
export type PostgresQueueParts = {
  readonly database: StoreDatabase;
  readonly holder: Holder;
  readonly idempotency: PostgresIdempotency;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds after which a group of calls is abandoned. */
  readonly groupTimeout: number;
};

/** Ids of the branches of a queue, by name. */
export type BranchIds = ReadonlyMap<string, number>;

type Take = {
  readonly from: string;
  readonly batchId: string;
  readonly branches: readonly string[];
};
/** By branch. */
type Taken = ReadonlyMap<string, QueueEntry>;
type Lease = { readonly branch: string; readonly leased: Leased };
/** `term`: that of the lease when its outcome was known. */
type Ended = { readonly branch: string; readonly batchId: string; readonly term: number };

/**
 * A queue in Postgres. The database has all durable state; this process remembers its leases, counts, and the bodies
 * of the newest batches.
 */
export class PostgresQueue implements SharedQueue {
  readonly isShared = true;
  readonly idempotency: IdempotencyLedger;
  readonly #name: string;
  readonly #parts: PostgresQueueParts;
  readonly #counts: QueueCounts;
  readonly #bodies: LeasedBodies;
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly #dropListeners = new Set<(drop: QueueDrop) => void>();
  readonly #leases: HeldLeases;
  /** Branches that may have a due entry; a lease in another one needs no query. */
  readonly #mayBeDue = new Set<string>();
  readonly #timers = new Set<() => void>();
  readonly #append: (call: Append) => Promise<Appended>;
  readonly #take: (call: Take) => Promise<Taken>;
  readonly #end: (call: Ended) => Promise<{ readonly isLast: boolean }>;
  #branches: readonly string[] = [];
  #ids: BranchIds = new Map();
  #maxBytes = 0;
  #isClosed = false;

  constructor(parts: PostgresQueueParts, options: QueueOptions, ids: BranchIds) {
    this.idempotency = parts.idempotency;
    this.#name = options.name;
    this.#parts = parts;
    this.#counts = new QueueCounts(parts.database, options.name);
    this.#bodies = new LeasedBodies(parts.database);
    this.#leases = new HeldLeases(this.#counts);
    parts.holder.onLost(() => this.#leases.lose());
    const branchIds = () => this.#branches.map((branch) => this.#idOf(branch));
    const { clock, logger, groupTimeout: ms } = parts;
    const bound = (work: string) => ({ name: `${work} in ${options.name}`, ms, clock, logger });
    this.#append = groupedAppends({
      ...{ ...parts, queue: options.name, branchIds },
      bound: bound('append'),
    });
    this.#end = grouped(
      { count: 1000, weight: 1000, bound: bound('acknowledge') },
      () => 1,
      (calls, abandoned) => this.#endGroup(calls, abandoned),
    );
    this.#take = grouped(
      { count: 64, weight: 64, bound: bound('take') },
      () => 1,
      (calls, abandoned) => this.#takeGroup(calls, abandoned),
    );
    this.reconfigure(options, ids);
  }

  /** Takes up another configuration of the same queue. */
  reconfigure(options: QueueOptions, ids: BranchIds): void {
    this.#maxBytes = options.maxBytes;
    this.#branches = options.branches;
    this.#ids = ids;
    for (const branch of options.branches) this.#mayBeDue.add(branch);
  }

  refresh(): Promise<void> {
    return this.#counts.refresh();
  }

  async append(batch: SealedBatch, request?: RequestContext): Promise<void> {
    const answer = keptAnswer(batch, request?.answer);
    if (itemsOf(batch) === 0) {
      if (answer !== undefined) await this.#keepAnswer(answer);
      return;
    }
    const size = batch.body.byteLength;
    if (this.#counts.bytes + size > this.#maxBytes) {
      throw new RetryableError('queue_full', 'the queue is full', { retryAfterMs: FULL_RETRY_MS });
    }
    // Counted before the write, so that appends in flight cannot exceed the bound together.
    this.#counts.changeBytes(size);
    try {
      const appended = await this.#append({ batch, answer, signal: request?.signal });
      const entered = enteredOf(appended);
      if (request !== undefined) request.isUsageEntered = true;
      this.#entered(batch, entered, size);
    } catch (error) {
      this.#counts.changeBytes(-size);
      throw error;
    }
  }

  async #keepAnswer(answer: AnswerToKeep): Promise<void> {
    const { database, idempotency } = this.#parts;
    await database.transactionWithDeadline(async (client) => {
      const deleted = await ask(client, database.lockForAccept([answer.projectId]));
      if (deleted.size === 0) await idempotency.keep(client, [answer]);
    });
  }

  #entered(batch: SealedBatch, entered: readonly EnteredRow[], size: number): void {
    // A branch had the batch already, so its bytes count already.
    if (entered.length < this.#branches.length) this.#counts.changeBytes(-size);
    const [first] = entered;
    if (first !== undefined && this.#listeners.size > 0) this.#bodies.keep(first.seq, batch);
    for (const entry of entered) {
      const branch = this.#nameOf(entry.branch);
      this.#counts.entered(branch, itemsOf(batch), batch.receivedAt);
      this.#announce(branch);
    }
  }

  async lease(branch: string, max: number, maxBytes: number): Promise<QueueEntry[]> {
    const { database, holder } = this.#parts;
    const id = this.#idOf(branch);
    if (!this.#mayBeDue.delete(branch)) return [];
    const values = [id, max, maxBytes, holder.id];
    const leasing = this.#inTerm(() => rows<LeasedRow>(database, sql.LEASE, values));
    const leased = await leasing.catch((error: unknown) => {
      this.#mayBeDue.add(branch);
      throw error;
    });
    if (leased.length > 0) this.#mayBeDue.add(branch);
    const leases = leased.map((entry) => ({ branch, leased: leasedOf(entry) }));
    return (await this.#withBodies(leases)).map(({ entry }) => entry);
  }

  /**
   * Makes leases that this process can rely on. If they were lost before the answer arrived, it rejects; the search for
   * orphans releases what is left of them.
   */
  async #inTerm<T>(lease: () => Promise<T>): Promise<T> {
    const { holder } = this.#parts;
    await holder.confirm();
    const term = holder.term();
    const answer = await lease();
    if (holder.term() === term) return answer;
    throw new RetryableError('storage_failed', 'the leases of this process were lost');
  }

  async isHeld(branch: string, entry: QueueEntry): Promise<boolean> {
    await this.#parts.holder.confirm();
    return this.#leases.find(branch, leaseOf(entry)) !== undefined;
  }

  async take(
    from: string,
    batchId: string,
    branches: readonly string[],
  ): Promise<ReadonlyMap<string, QueueEntry>> {
    return this.#take({ from, batchId, branches });
  }

  async #takeGroup(
    calls: readonly Take[],
    abandoned: AbortSignal,
  ): Promise<readonly (Taken | Failed)[]> {
    const nameOf = ({ from, branches }: Take): string => JSON.stringify([from, branches]);
    /** By part of the group and batch: two parts may name one batch, and each has leases of its own. */
    const taken = new Map<string, Map<string, Taken>>();
    const failures = new Map<string, Failed>();
    // No caller works on what the group took before.
    abandoned.addEventListener('abort', () => {
      for (const entries of [...taken.values()].flatMap((found) => [...found.values()])) {
        for (const [branch, entry] of entries) {
          const leased = this.#leases.find(branch, leaseOf(entry));
          if (leased !== undefined) this.#giveBack(branch, leased, 0);
        }
      }
    });
    for (const [name, part] of Map.groupBy(calls, nameOf)) {
      const [first] = part;
      if (first === undefined) continue;
      const ids = part.map(({ batchId }) => batchId);
      try {
        taken.set(name, await this.#takeAlike(first.from, ids, first.branches, abandoned));
      } catch (failure) {
        // Other parts of the group keep what they took.
        failures.set(name, new Failed(failure));
      }
    }
    return calls.map((call) => {
      const found = taken.get(nameOf(call));
      const entries = found?.get(call.batchId) ?? new Map();
      // Of several calls for the same batch in one part the first gets it.
      found?.delete(call.batchId);
      return failures.get(nameOf(call)) ?? entries;
    });
  }

  async #takeAlike(
    from: string,
    batchIds: readonly string[],
    branches: readonly string[],
    abandoned: AbortSignal,
  ): Promise<Map<string, Taken>> {
    const { database, holder } = this.#parts;
    const values = [
      from,
      batchIds,
      this.#branches.map((branch) => this.#idOf(branch)),
      branches.map((branch) => this.#idOf(branch)),
      holder.id,
    ];
    const moved = await this.#inTerm(() => rows<sql.TakenRow>(database, sql.TAKE, values));
    // No caller works on these leases. As this process does not know them, the search for orphans releases them.
    abandoned.throwIfAborted();
    const leases: Lease[] = [];
    const sizes = new Map(moved.map(({ batch_id, bytes }) => [batch_id, bytes]));
    for (const size of sizes.values()) this.#counts.changeBytes(size);
    for (const entry of moved) {
      const branch = this.#nameOf(entry.branch);
      const leased = leasedOf(entry);
      this.#counts.entered(branch, leased.items, leased.receivedAt);
      if (entry.leased) leases.push({ branch, leased });
      else this.#announce(branch);
    }
    const taken = new Map<string, Map<string, QueueEntry>>();
    for (const { branch, entry } of await this.#withBodies(leases, abandoned)) {
      const entries = taken.get(entry.batch.id) ?? new Map<string, QueueEntry>();
      taken.set(entry.batch.id, entries.set(branch, entry));
    }
    return taken;
  }

  async waitingFor(ms: number, limit: number, after = ''): Promise<string[]> {
    const ids = this.#branches.map((branch) => this.#idOf(branch));
    const values = [ids, ms, limit, after];
    const waiting = await rows<{ batch_id: string }>(this.#parts.database, sql.WAITING, values);
    return waiting.map(({ batch_id }) => batch_id);
  }

  async oldestIn(from: string): Promise<number | undefined> {
    const found = await row<{ oldest: number }>(this.#parts.database, sql.OLDEST, [from]);
    return found?.oldest;
  }

  /**
   * Notes the leases and reads their batches. Entries whose body is missing end here. If reading fails or was
   * abandoned, all leases are released: no caller works on them.
   */
  async #withBodies(
    leases: readonly Lease[],
    abandoned?: AbortSignal,
  ): Promise<{ readonly branch: string; readonly entry: QueueEntry }[]> {
    for (const { branch, leased } of leases) this.#leases.add(branch, leased);
    try {
      const read = await this.#bodies.read(leases.map(({ leased }) => leased.batchId));
      const entries: { branch: string; entry: QueueEntry }[] = [];
      for (const { branch, leased } of leases) {
        const batch = read.get(leased.batchId);
        if (batch === undefined) await this.#endWithoutBody(branch, leased);
        else {
          const { seq, attempts } = leased;
          entries.push({ branch, entry: { seq, batch, attempts } });
        }
      }
      abandoned?.throwIfAborted();
      return entries;
    } catch (error) {
      const held = leases.filter(({ branch, leased }) => this.#leases.find(branch, leased));
      for (const { branch, leased } of held) this.#giveBack(branch, leased, REWRITE_MS);
      throw error;
    }
  }

  /** Does not wait: the release is repeated as long as the database is away. */
  #giveBack(branch: string, leased: Leased, delayMs: number): void {
    this.#release(branch, leased, delayMs).catch((failure: unknown) => {
      const fields = { err: failure, batch: leased.batchId };
      this.#parts.logger.debug(fields, 'Lease could not be released; it expires');
    });
  }

  /** The project was deleted; or the data is damaged, and the entry must not block the entries behind it. */
  async #endWithoutBody(branch: string, leased: Leased): Promise<void> {
    const { database, clock, logger, holder } = this.#parts;
    const entry = { branch, batchId: leased.batchId, term: holder.term() };
    const deleted = await database.deletedProjects([leased.projectId]);
    if (deleted.size > 0) {
      this.#reportDrop({ branch, items: leased.items, reason: 'project_deleted', wasDead: false });
    } else {
      logger.error(
        { queue: this.#name, batch: leased.batchId, reason: MISSING_BODY },
        'Damaged entry quarantined',
      );
      const values = [this.#name, leased.batchId, MISSING_BODY, clock.now()];
      await database.query(sql.QUARANTINE, values);
      this.#counts.quarantined++;
    }
    this.#leases.remove(branch, leased);
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
    this.#mayBeDue.add(branch);
    for (const listener of this.#listeners.get(branch) ?? []) listener();
  }

  /** Makes delivery look for entries that other processes appended or released. */
  look(): void {
    for (const branch of this.#branches) this.#announce(branch);
  }

  async ack(branch: string, entries: readonly QueueEntry[]): Promise<void> {
    await Promise.all(
      entries.map(async (acknowledged) => {
        const leased = this.#leases.remove(branch, leaseOf(acknowledged));
        if (leased === undefined) return;
        const entry = { branch, batchId: leased.batchId, term: this.#parts.holder.term() };
        await this.#persist(leased, () => this.#endEntry(entry, leased));
      }),
    );
  }

  async #endEntry(entry: Ended, { batchId, bytes }: Leased): Promise<void> {
    const { isLast } = await this.#end(entry);
    if (isLast) this.#batchLeft(batchId, bytes);
  }

  async #endGroup(
    calls: readonly Ended[],
    abandoned: AbortSignal,
  ): Promise<readonly { readonly isLast: boolean }[]> {
    const last = new Set<string>();
    const allBranches = [...this.#ids.values()];
    const { database, holder } = this.#parts;
    const term = holder.term();
    const inTerm = calls.filter((call) => call.term === term);
    for (const [branch, ended] of Map.groupBy(inTerm, (call) => call.branch)) {
      const ids = ended.map(({ batchId }) => batchId);
      const values = [this.#idOf(branch), ids, allBranches, holder.id];
      const result = await database.queryIf(() => holder.term() === term, sql.END, values);
      const found = rowsIn<sql.EndedRow>(result);
      // The next refresh of the counts sees that the entries ended.
      abandoned.throwIfAborted();
      for (const entry of found) {
        this.#counts.left(branch, entry.items, entry.oldest ?? undefined);
        if (!entry.waits) last.add(`${branch}\n${entry.batch_id}`);
      }
    }
    return calls.map(({ branch, batchId }) => ({ isLast: last.has(`${branch}\n${batchId}`) }));
  }

  /** No branch holds the batch any more. */
  #batchLeft(batchId: string, bytes: number): void {
    this.#counts.changeBytes(-bytes);
    this.#bodies.forget(batchId);
  }

  async nack(branch: string, entry: QueueEntry, delayMs: number, reason: string): Promise<void> {
    const leased = this.#leases.find(branch, leaseOf(entry));
    if (leased === undefined) return;
    const about = { queue: this.#name, branch, seq: entry.seq, reason, delayMs };
    this.#parts.logger.debug(about, 'Entry released');
    await this.#release(branch, leased, delayMs);
  }

  async #release(branch: string, leased: Leased, delayMs: number): Promise<void> {
    const { database, holder } = this.#parts;
    this.#leases.remove(branch, leased);
    const delay = Math.max(0, Math.ceil(delayMs));
    const values = [this.#idOf(branch), leased.batchId, leased.attempts + 1, delay, holder.id];
    await this.#persist(leased, () => database.query(sql.RELEASE, values));
    if (delay === 0) this.#announce(branch);
    else {
      // Twice, because the timer may end a little before the clock of the database says so.
      for (const ms of [delay, delay + EARLY_MS]) this.#after(ms, () => this.#announce(branch));
    }
  }

  async deadLetter(branch: string, entry: QueueEntry, reason: DeadLetterReason): Promise<void> {
    const leased = this.#leases.remove(branch, leaseOf(entry));
    if (leased === undefined) return;
    const { database, clock, holder } = this.#parts;
    const { code, message, items = leased.items } = reason;
    // Postgres rejects NUL in text.
    const text = message.replaceAll('\0', '\u2400');
    const values = [
      ...[this.#idOf(branch), leased.batchId, code, text],
      ...[clock.now(), items, [...this.#ids.values()], holder.id],
    ];
    const term = holder.term();
    const result = await this.#persist(leased, () =>
      database.queryIf(() => holder.term() === term, sql.DEAD_LETTER, values),
    );
    const [ended] = rowsIn<sql.DeadLetteredRow>(result);
    // Housekeeping removed the entry with its project, or the lease was lost.
    if (ended === undefined) return;
    this.#counts.left(branch, leased.items, ended.oldest ?? undefined);
    this.#counts.changeDead(1, items);
    if (!ended.waits) this.#batchLeft(leased.batchId, leased.bytes);
  }

  async discard(branch: string, entry: QueueEntry, reason: DropReason): Promise<void> {
    const leased = this.#leases.find(branch, leaseOf(entry));
    if (leased === undefined) return;
    this.#reportDrop({ branch, items: leased.items, reason, wasDead: false });
    await this.ack(branch, [entry]);
  }

  onDrop(listener: (drop: QueueDrop) => void): () => void {
    this.#dropListeners.add(listener);
    return () => this.#dropListeners.delete(listener);
  }

  #reportDrop(drop: QueueDrop): void {
    for (const listener of this.#dropListeners) listener(drop);
  }

  async deadLetters(filter: DeadLetterFilter = {}): Promise<DeadLetter[]> {
    const branch = filter.branch === undefined ? null : toStoredText(filter.branch);
    const values = [this.#name, filter.after ?? 0, branch, filter.limit ?? 100];
    const found = await rows<sql.StoredDeadLetter>(this.#parts.database, sql.DEAD_LETTERS, values);
    return found.map(deadLetterOf);
  }

  async replay(ids: readonly number[] | 'all'): Promise<number> {
    const values = [this.#name, ids === 'all' ? null : ids];
    const replayed = await rows<sql.ReplayedEntry>(this.#parts.database, sql.REPLAY, values);
    for (const letter of replayed) {
      this.#counts.changeDead(-1, -letter.items);
      if (!letter.waited) this.#counts.changeBytes(letter.bytes);
      if (!letter.entered || letter.all_items === null) continue;
      this.#counts.entered(letter.branch, letter.all_items, letter.received_at);
      this.#announce(letter.branch);
    }
    return replayed.length;
  }

  async drop(ids: readonly number[] | 'all'): Promise<number> {
    const values = [this.#name, ids === 'all' ? null : ids];
    const dropped = await rows<{ items: number }>(this.#parts.database, sql.DROP, values);
    for (const { items } of dropped) this.#counts.changeDead(-1, -items);
    return dropped.length;
  }

  /** Nothing to do: housekeeping removes entries of deleted projects together with their other data. */
  async removeProject(): Promise<void> {}

  stats(): QueueStats {
    return this.#counts.stats(this.#branches, this.#maxBytes);
  }

  verify(): Promise<{ entries: number; quarantined: number }> {
    const { database, clock } = this.#parts;
    return verifyQueue(database, this.#name, clock.now());
  }

  /** Housekeeping removed an entry or a dead letter, maybe of another queue. */
  dropped(branchId: number, items: number, reason: DropReason, wasDead: boolean): void {
    for (const [branch, id] of this.#ids) {
      if (id !== branchId) continue;
      if (wasDead) this.#counts.changeDead(-1, -items);
      else this.#counts.left(branch, items, undefined);
      this.#reportDrop({ branch, items, reason, wasDead });
    }
  }

  /** An erasure cut items out of a batch; the counts of the branches follow with the next refresh. */
  shrunk(batchId: string, entries: readonly ShrunkEntry[]): void {
    this.#bodies.forget(batchId);
    for (const { branch: id, items, wasDead, isGone } of entries) {
      if (isGone) this.dropped(id, items, 'erasure', wasDead);
      for (const [branch, own] of isGone ? [] : this.#ids) {
        if (own !== id || items === 0) continue;
        this.#reportDrop({ branch, items, reason: 'erasure', wasDead });
      }
    }
  }

  /** Repeats a write until it succeeds. If the process dies first, the entry is delivered again. */
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

  /** Whether this process holds a lease, or is about to end it. */
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
    throw new Error(`queue ${this.#name} has no branch with the id ${branchId}`);
  }

  close(): void {
    this.#isClosed = true;
    this.#listeners.clear();
    for (const cancel of this.#timers) cancel();
  }
}

function deadLetterOf(row: sql.StoredDeadLetter): DeadLetter {
  const { id, branch, items, bytes, code, message } = row;
  return {
    ...{ id, branch, items, bytes },
    batchId: row.batch_id,
    projectId: row.project,
    reason: { code, message },
    failedAt: row.failed_at,
  };
}
