import type { SealedBatch } from '../../model/batch.ts';
import type { AuditRow, Numbered } from '../../tenancy/rows.ts';
import type { Key } from '../rows/observation-row.ts';
import type { BlockRow } from './blocks.ts';
import type { BatchItem } from './items.ts';
import type { NamedValues } from './named.ts';

/** A row of `erasures`. */
export type ErasureRow = {
  readonly id: string;
  readonly project: string;
  readonly traces: number;
  readonly observations: number;
  readonly bytes: number;
  /** An `ErasureRecord` as JSON. */
  readonly record: string;
};

export type ErasureCounts = Pick<ErasureRow, 'traces' | 'observations' | 'bytes'>;

/** The erasure that a step works for. */
export type ErasureScope = {
  readonly id: string;
  readonly project: string;
  /** Milliseconds since the epoch: traces whose first event was received later stay. */
  readonly until: number;
  /** The values that the query names, if it asks for nothing else. */
  readonly named: NamedValues | null;
  /** Nothing is changed, except the worklists. */
  readonly isDryRun: boolean;
};

/** Work in steps: what lies between two `yield`s is bounded. */
export type Stepping<Result> = AsyncGenerator<undefined, Result, undefined>;

export type CleanedBatches = {
  /** Items that were cut out, and their bytes without compression. */
  readonly items: number;
  readonly bytes: number;
  /** Damaged batches. */
  readonly unreadable: number;
};

export type ErasedPart = {
  readonly items: readonly BatchItem[];
  /** The hashes of attachments that only these items of the batch have, in hex. */
  readonly contents: readonly string[];
};

/** The tables of a store that erasures use. An operation that is repeated after a crash changes nothing. */
export type ErasingTables = {
  add(row: ErasureRow, change: AuditRow, blocks: readonly BlockRow[]): Promise<void>;
  /** Those that have not ended. */
  blocks(now: number): Promise<readonly BlockRow[]>;
  get(project: string, id: string): Promise<ErasureRow | undefined>;
  /** Newest first, below the number `before`. */
  list(project: string, before: number, limit: number): Promise<readonly Numbered<ErasureRow>[]>;
  /** Those that run, oldest first. */
  open(): Promise<readonly ErasureRow[]>;
  save(id: string, record: string): Promise<void>;
  /** Ends the erasure. `counts` replace those of the row. */
  end(id: string, record: string, counts: ErasureCounts, change: AuditRow | null): Promise<void>;

  /** Whether a batch of the project is on its way: it waits in a queue of the store and has no rows yet, or its expired traces are being removed. */
  hasUnstored(scope: ErasureScope): Promise<boolean>;
  /** Lists traces with their batches; resolves with the number of those that exist, and of their observations. */
  addTraces(scope: ErasureScope, keys: readonly Key[]): Stepping<Omit<ErasureCounts, 'bytes'>>;
  /** Lists the batches that wait in queues or are dead letters. */
  addWaiting(scope: ErasureScope): Stepping<void>;
  /** For batches in other places than the tables: their items, those that are to be erased, and the rest. */
  itemsOf(batch: SealedBatch): Promise<readonly BatchItem[]>;
  belonging(scope: ErasureScope, items: readonly BatchItem[]): Promise<readonly BatchItem[]>;
  without(batch: SealedBatch, positions: ReadonlySet<number>): Promise<SealedBatch>;
  /** Counts items that are about to be erased, releases their attachments, and keeps deliveries that are under way from storing them. */
  noteErased(scope: ErasureScope, batch: SealedBatch, erased: ErasedPart): Promise<void>;
  /** Cuts the items of listed traces out of the listed batches. */
  clean(scope: ErasureScope): Stepping<CleanedBatches>;
  /** Removes the listed traces; resolves with whether all are gone. False if a trace has got events of further batches. */
  removeTraces(scope: ErasureScope): Stepping<boolean>;
  /** The keys of the listed traces in their order, behind a key. */
  keys(id: string, after: Key | null): Promise<readonly Key[]>;
  /** Removes the listed batches that nothing refers to any more. */
  removeBatches(scope: ErasureScope): Stepping<void>;
  /** Removes the erased ids from the answers that are kept for repeated requests. */
  cleanAnswers(scope: ErasureScope): Stepping<void>;
  /** Removes what removals left in the files: parts of bodies, logs, dead rows. */
  sweep(scope: ErasureScope): Stepping<void>;
  /** Empties the worklists of the erasure. */
  forget(id: string): Stepping<void>;
  /** Where a copy may be that the store cannot remove. */
  readonly copies: readonly string[];
};
