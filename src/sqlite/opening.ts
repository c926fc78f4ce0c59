import { copyFileSync, existsSync, statSync } from 'node:fs';
import type { StatementSync } from 'node:sqlite';
import { DatabaseSync } from 'node:sqlite';
import { DamagedDataError } from '../model/errors.ts';
import type { FileIdentities } from './file-identity.ts';
import { identitiesOf } from './file-identity.ts';
import { logDamageIn } from './log-damage.ts';
import {
  PROBE,
  probeOperation,
  READ_PROBE,
  readProbeOperation,
  SHRINK,
  shrinkOperation,
  TRUNCATE_LOG,
} from './maintenance.ts';
import type { MigratedFile } from './migrate.ts';
import { mendVersion, migrateFile, refuseNewer } from './migrate.ts';
import type {
  GroupEnd,
  Opening,
  OperationModule,
  OperationTable,
  ThreadData,
} from './operation.ts';
import { errcodeOf, isDamage } from './result-code.ts';
import { cell, finds, prepareWide } from './rows.ts';
import type { Salvaged } from './salvage.ts';
import { finishSalvage, REMEDY, removeUnfinished, salvage, stamp } from './salvage.ts';

const PAGE_BYTES = 8192;
/** SQLite's number of the mode. */
const INCREMENTAL = 2;
/** KiB of pages that a connection keeps in memory. */
const CACHE_KIB = 16_384;
/**
 * Pages in the log that start a checkpoint: a page that several transactions change is written to the file once. On a full disk the
 * reserve must have room for the pages of the log, because only a whole checkpoint lets the log begin again.
 */
const CHECKPOINT_PAGES = { least: 1000, most: 4000 } as const;

/** The main thread's types have checked the arguments against the operation of the name. */
type Operation = (...args: readonly unknown[]) => unknown;

export type Connection = {
  readonly db: DatabaseSync;
  readonly begin: StatementSync;
  readonly commit: StatementSync;
  readonly operations: ReadonlyMap<string, Operation>;
  readonly groupEnd: GroupEnd | undefined;
  readonly growing: ReadonlySet<string>;
  /** The files that hold commits: the database and its log. */
  readonly files: FileIdentities;
};

export type Opened = { readonly connection: Connection; readonly opening: Opening };

type FileData = Pick<ThreadData, 'file' | 'access' | 'filled' | 'reserveBytes' | 'maxPages'>;

const UNCHANGED: Opening = {
  ...{ corrupt: undefined, migrated: undefined, mended: undefined, log: undefined },
  reserveUsed: false,
};

/**
 * Opens the file of a database thread:
 *
 *   log scanned ─▶ version, essential rows ─▶ settings, migrations ─▶ operations prepared
 *                          │ damage                    │ damage
 *                          └────────▶ salvage ◀────────┘ which refuses if essential rows are missing
 *
 * Throws `NewerDataError` and `DamagedDataError`; the file is unchanged then.
 */
export function openConnection(module: OperationModule, data: FileData): Opened {
  if (data.access === 'read') {
    return { connection: connect(module, data).connection, opening: UNCHANGED };
  }
  removeUnfinished(data.file);
  const finished = finishSalvage(data.file);
  const damage = logDamageIn(`${data.file}-wal`, PAGE_BYTES);
  const log = damage && { ...damage, kept: keepLog(data.file) };
  try {
    inspect(module, data, log !== undefined);
    return openedWith(connect(module, data), finished, log);
  } catch (error) {
    if (!isDamage(errcodeOf(error))) throw error;
  }
  const { kept } = salvage({
    file: data.file,
    create: (file, version) => createFile(module, file, version, data),
    essential: module.essential ?? [],
    derived: module.derived,
    repairs: module.repairs,
  });
  return openedWith(connect(module, data), kept, log);
}

/** Copies every readable row of the file into a new one that takes its place, also if essential rows are missing. */
export function salvageFile(module: OperationModule, file: string): Salvaged {
  finishSalvage(file);
  const create = (fresh: string, version: number) =>
    createFile(module, fresh, version, WITHOUT_RESERVE);
  const { derived, repairs } = module;
  return salvage({ file, create, essential: [], derived, repairs });
}

/** Whether the file has a row in the first of its essential tables. */
export function isFilled({ essential = [] }: OperationModule, db: DatabaseSync): boolean {
  const [first] = essential;
  if (first === undefined) return true;
  const hasTable = finds(db, 'SELECT 1 FROM sqlite_schema WHERE name = ?')(first);
  return hasTable && finds(db, `SELECT 1 FROM ${first} LIMIT 1`)();
}

/** Refuses, before anything writes, a file that has lost what it held. */
function inspect(module: OperationModule, data: FileData, isLogDamaged: boolean): void {
  const { file, filled } = data;
  if (module.essential === undefined) return;
  const isEmpty = sizeOf(file) === 0;
  // SQLite makes the file's first page before the log, and deletes the log of an empty file.
  const wasFilled = existsSync(filled) || isLogDamaged || (isEmpty && sizeOf(`${file}-wal`) > 0);
  if (!wasFilled) return;
  if (isEmpty) throw new DamagedDataError(`${file} is empty or missing. ${REMEDY}`);
  const db = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  try {
    refuseNewer(db, file, module.migrations);
    if (isFilled(module, db)) return;
    throw new DamagedDataError(`${file} has lost its ${module.essential.join(', ')}. ${REMEDY}`);
  } finally {
    db.close();
  }
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Copies the damaged log, because the next commits overwrite it. Undefined if the disk has no room for it. */
function keepLog(file: string): string | undefined {
  const kept = `${file}-wal.corrupt-${stamp()}`;
  try {
    copyFileSync(`${file}-wal`, kept);
    return kept;
  } catch {
    return undefined;
  }
}

type Connected = {
  readonly connection: Connection;
  readonly migrated: MigratedFile | undefined;
  readonly mended: MigratedFile | undefined;
};

function openedWith(
  { connection, migrated, mended }: Connected,
  corrupt: string | undefined,
  log: Opening['log'],
): Opened {
  return { connection, opening: { corrupt, migrated, mended, log, reserveUsed: false } };
}

function connect(module: OperationModule, data: FileData): Connected {
  const { file } = data;
  const isWriting = data.access === 'write';
  const db = new DatabaseSync(file, { readOnly: !isWriting, timeout: 5000 });
  try {
    refuseNewer(db, file, module.migrations);
    const mended = isWriting ? mendVersion(db) : undefined;
    if (isWriting) prepareFile(db, data);
    db.exec(`PRAGMA cache_size = -${module.cacheKib ?? CACHE_KIB}`);
    const migrated = isWriting ? migrateFile(db, module.migrations) : undefined;
    const operations = isWriting
      ? { ...module.writeOperations(db), ...ownOperations(db) }
      : {
          ...module.readOperations(db),
          [READ_PROBE]: readProbeOperation(db, module.essential ?? []),
        };
    const connection = {
      db,
      begin: prepareWide(db, isWriting ? 'BEGIN IMMEDIATE' : 'BEGIN'),
      commit: prepareWide(db, 'COMMIT'),
      operations: new Map(Object.entries(operations as Record<string, Operation>)),
      groupEnd: isWriting ? module.groupEnd?.(db) : undefined,
      growing: new Set(module.growing),
      files: identitiesOf([file, `${file}-wal`]),
    };
    return { connection, migrated, mended };
  } catch (error) {
    db.close();
    throw error;
  }
}

type FileSettings = Pick<ThreadData, 'reserveBytes' | 'maxPages'>;
const WITHOUT_RESERVE: FileSettings = { reserveBytes: 0, maxPages: undefined };

/** The settings of a file that only a writing connection may make. */
function prepareFile(db: DatabaseSync, { reserveBytes, maxPages }: FileSettings): void {
  db.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
  // Lets a file shrink after a backlog; the cost for an append is not measurable. SQLite writes the setting even if the file has it, and a
  // full disk has no room for that.
  if (cell<number>(db, 'PRAGMA auto_vacuum')() !== INCREMENTAL) {
    db.exec(`PRAGMA auto_vacuum = ${INCREMENTAL}`);
  }
  db.exec('PRAGMA journal_mode = WAL');
  db.exec('PRAGMA synchronous = FULL');
  const { least, most } = CHECKPOINT_PAGES;
  const reserved = Math.floor(reserveBytes / PAGE_BYTES);
  db.exec(`PRAGMA wal_autocheckpoint = ${Math.max(least, Math.min(most, reserved))}`);
  if (maxPages !== undefined) db.exec(`PRAGMA max_page_count = ${maxPages}`);
}

/** Creates a file with the tables of a version. */
function createFile(
  { migrations }: OperationModule,
  file: string,
  version: number,
  settings: FileSettings,
): void {
  const db = new DatabaseSync(file);
  try {
    prepareFile(db, settings);
    migrateFile(db, migrations, version);
  } finally {
    db.close();
  }
}

function ownOperations(db: DatabaseSync): OperationTable {
  return {
    [SHRINK]: shrinkOperation(db),
    [TRUNCATE_LOG]: () => TRUNCATE_LOG,
    [PROBE]: probeOperation(db),
  };
}
