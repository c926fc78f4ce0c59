/**
 * The thread that owns a database connection. One message is one group of calls:
 *
 *   calls ──▶ BEGIN ─▶ each call ─▶ COMMIT (synced) ──▶ results
 *                          │ an error: ROLLBACK, then each call again in a transaction of its own,
 *                          ▼ so that only the failing call is rejected
 */
import { existsSync, rmSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { dataErrorIn } from '../model/errors.ts';
import { scheduleCollection } from '../thread/idle-memory.ts';
import { failpoint } from './failpoint.ts';
import { movedOf } from './file-identity.ts';
import { returnPages, TRUNCATE_LOG, truncateLog } from './maintenance.ts';
import type { Connection, Opened } from './opening.ts';
import { openConnection } from './opening.ts';
import type { Call, Failure, OperationModule, ThreadData, ThreadMessage } from './operation.ts';
import { AttachedFileError } from './operation.ts';
import { isOutOfRoom } from './reserve.ts';
import {
  errcodeOf,
  isDamage,
  isFull,
  isRefusedWrite,
  isSyncFailure,
  isUnreadable,
  primaryCode,
  SQLITE_FULL,
  SQLITE_IOERR,
} from './result-code.ts';

const FULL: Failure = { message: 'database or disk is full', errcode: SQLITE_FULL };
/** The longest that calls of one group may take to find what cannot be read: a disk tries for seconds, and no other group is written then. */
const UNREADABLE_MS = 2000;

type Outcome = { results: unknown[]; failures: (Failure | undefined)[] | undefined };

const data = workerData as ThreadData;
let reserveUsed = false;
/** From a full disk until a new reserve exists: calls that need room fail, the others may free space. */
let isDraining = false;
/** Set after a failed sync, or when the files were moved: this connection writes no more. */
let broken: Failure | undefined;
/** The path that does not lead to the open file any more. */
let moved: string | undefined;

await serve();

async function serve(): Promise<void> {
  const port = parentPort;
  if (port === null) throw new Error('thread.ts runs in a worker thread only');
  let opened: Opened;
  try {
    opened = openWithReserve((await import(data.operations)) as OperationModule);
  } catch (error) {
    port.postMessage({ type: 'unusable', failure: failureOf(error) } satisfies ThreadMessage);
    return;
  }
  const { connection, opening } = opened;
  port.on('message', (calls: readonly Call[] | 'close') => {
    if (calls === 'close') {
      close(connection);
      port.postMessage({ type: 'closed' } satisfies ThreadMessage);
      port.close();
      return;
    }
    reserveUsed = false;
    const outcome =
      data.access === 'write' ? runGroup(connection, calls) : readGroup(connection, calls);
    const unsynced = moved === undefined ? broken?.message : undefined;
    const answer: ThreadMessage = { type: 'done', ...outcome, reserveUsed, moved, unsynced };
    // This thread uses a result no more, so its bytes move instead of being copied.
    port.postMessage(answer, data.access === 'read' ? ownedBuffers(outcome.results) : []);
    for (const call of calls) freeBytes(call);
    scheduleCollection();
  });
  port.postMessage({ type: 'ready', opening } satisfies ThreadMessage);
}

/** On a full disk SQLite has no room for the log, without which no file opens. */
function openWithReserve(module: OperationModule): Opened {
  try {
    return openConnection(module, data);
  } catch (error) {
    if (data.access === 'read' || !hasReserve() || !isFull(failureOf(error).errcode)) throw error;
  }
  releaseReserve();
  const { connection, opening } = openConnection(module, data);
  return { connection, opening: { ...opening, reserveUsed } };
}

function runGroup(connection: Connection, calls: readonly Call[]): Outcome {
  if (broken !== undefined) return allFailed(calls, broken);
  if (isDraining && hasReserve()) isDraining = false;
  if (isDraining) return oneByOne(connection, calls, true);
  try {
    return { results: transaction(connection, calls), failures: undefined };
  } catch (error) {
    if (broken !== undefined) return allFailed(calls, broken);
    const failure = failureOf(error);
    if (isFull(failure.errcode)) {
      releaseReserve();
      // After a start the log begins again only behind a checkpoint.
      checkpoint(connection, 'RESTART');
      return oneByOne(connection, calls, true);
    }
    if (isOfDisk(failure) || calls.length === 1) return allFailed(calls, failure);
    return oneByOne(connection, calls, false);
  }
}

function transaction(connection: Connection, calls: readonly Call[]): unknown[] {
  connection.begin.run();
  try {
    failpoint('before_append');
    const results = new Array<unknown>(calls.length);
    for (let i = 0; i < calls.length; i++) results[i] = run(connection, calls[i] as Call);
    connection.groupEnd?.beforeCommit();
    failpoint('after_append');
    connection.commit.run();
    failpoint('after_commit');
    refuseMoved(connection);
    return results.includes(TRUNCATE_LOG) ? withLogTruncated(connection, results) : results;
  } catch (error) {
    if (isSyncFailure(errcodeOf(error))) broken = failureOf(error);
    if (connection.db.isTransaction) connection.db.exec('ROLLBACK');
    connection.groupEnd?.rolledBack();
    throw error;
  }
}

/** A commit into files that were removed or replaced is lost with this process, so it is never reported as written. */
function refuseMoved({ files }: Connection): void {
  moved = movedOf(files);
  if (moved === undefined) return;
  broken = { message: `${moved} was removed or replaced`, errcode: SQLITE_IOERR };
  throw new Error(broken.message);
}

/** After the commit: truncates the log, and answers the calls that asked for it with whether it is empty. */
function withLogTruncated(connection: Connection, results: readonly unknown[]): unknown[] {
  let isEmpty = false;
  try {
    isEmpty = truncateLog(connection.db);
  } catch (error) {
    if (isSyncFailure(errcodeOf(error))) broken = failureOf(error);
  }
  return results.map((result) => (result === TRUNCATE_LOG ? isEmpty : result));
}

function run(connection: Connection, call: Call): unknown {
  const [name, ...args] = call;
  const operation = connection.operations.get(name);
  if (operation === undefined) throw new Error(`unknown operation ${name}`);
  return operation(...args);
}

function hasReserve(): boolean {
  return data.reserve !== undefined && existsSync(data.reserve);
}

/** Deletes the reserve of a full disk, because SQLite needs room in its log even to delete. */
function releaseReserve(): void {
  if (data.reserve === undefined) return;
  rmSync(data.reserve, { force: true });
  reserveUsed = true;
  isDraining = true;
}

/** Runs each call in a transaction of its own: on a full disk only those that need no space, and then gives freed space back. */
function oneByOne(connection: Connection, calls: readonly Call[], isFullDisk: boolean): Outcome {
  const results = new Array<unknown>(calls.length);
  const failures = new Array<Failure | undefined>(calls.length);
  let needsRoom = isFullDisk;
  let fault: Failure | undefined;
  let unreadableMs = 0;
  for (const [i, call] of calls.entries()) {
    failures[i] = broken ?? fault;
    if (needsRoom && takesRoom(connection, call)) failures[i] ??= FULL;
    if (failures[i] !== undefined) continue;
    const begun = performance.now();
    try {
      results[i] = transaction(connection, [call])[0];
    } catch (error) {
      const failure = broken ?? failureOf(error);
      failures[i] = failure;
      if (isUnreadable(failure.errcode) || isDamage(failure.errcode)) {
        unreadableMs += performance.now() - begun;
      }
      if (isFull(failure.errcode)) {
        if (!isDraining) releaseReserve();
        needsRoom = true;
      } else if (isOfDisk(failure) || unreadableMs > UNREADABLE_MS) fault = failure;
    }
  }
  if (needsRoom) shrink(connection);
  return { results, failures };
}

/** On a disk that other programs fill, the bytes of the log are the only room that a transaction has. */
function takesRoom({ growing }: Connection, [name]: Call): boolean {
  if (name !== TRUNCATE_LOG) return growing.has(name);
  const { bavail, bsize } = statfsSync(dirname(data.file));
  return bavail * bsize < data.reserveBytes;
}

function shrink(connection: Connection): void {
  try {
    returnPages(connection.db);
  } catch (error) {
    if (isSyncFailure(errcodeOf(error))) broken = failureOf(error);
  }
  // The log keeps its size, as `takesRoom` says.
  checkpoint(connection, 'RESTART');
}

/** Moves the log into the file, where freed pages are reused. It may lack room: the next checkpoint tries again. */
function checkpoint(connection: Connection, mode: 'RESTART' | 'TRUNCATE'): void {
  try {
    connection.db.exec(`PRAGMA wal_checkpoint(${mode})`);
  } catch (error) {
    if (isSyncFailure(errcodeOf(error))) broken = failureOf(error);
  }
}

/** Whether any other call would fail too. A part of the file that cannot be read fails only the calls that need it. */
function isOfDisk({ errcode }: Failure): boolean {
  return primaryCode(errcode) === SQLITE_IOERR && !isUnreadable(errcode);
}

/** Each call of a reading thread has a snapshot of its own, and holds it no longer than it runs. */
function readGroup(connection: Connection, calls: readonly Call[]): Outcome {
  const results = new Array<unknown>(calls.length);
  let failures: (Failure | undefined)[] | undefined;
  for (const [i, call] of calls.entries()) {
    try {
      connection.begin.run();
      results[i] = run(connection, call);
    } catch (error) {
      failures ??= new Array<Failure | undefined>(calls.length);
      failures[i] = failureOf(error);
    } finally {
      if (connection.db.isTransaction) connection.db.exec('ROLLBACK');
    }
  }
  return { results, failures };
}

function allFailed(calls: readonly Call[], failure: Failure): Outcome {
  return { results: new Array<unknown>(calls.length), failures: calls.map(() => failure) };
}

function failureOf(error: unknown): Failure {
  if (error instanceof AttachedFileError) {
    const { message, file, isDamaged } = error;
    return { message, errcode: undefined, attached: { file, isDamaged } };
  }
  const errcode = errcodeOf(error);
  if (data.reserve !== undefined && isRefusedWrite(errcode) && isOutOfRoom(data.reserve)) {
    return FULL;
  }
  return {
    message: error instanceof Error ? error.message : String(error),
    errcode,
    dataError: dataErrorIn(error)?.code,
  };
}

/** The buffers of the bytes in a result that a message can move. */
function ownedBuffers(results: readonly unknown[]): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>();
  const visit = (value: unknown): void => {
    if (ArrayBuffer.isView(value)) {
      const { buffer } = value;
      if (buffer instanceof ArrayBuffer && buffer.byteLength === value.byteLength)
        buffers.add(buffer);
    } else if (Array.isArray(value)) {
      for (const part of value) visit(part);
    } else if (typeof value === 'object' && value !== null) {
      for (const part of Object.values(value)) visit(part);
    }
  };
  visit(results);
  return [...buffers];
}

/**
 * Frees the bytes of the arguments, which are this thread's own copy, at once instead of at V8's next collection.
 * Calls of one group may share them, as two queues of this file do that get the same body.
 */
function freeBytes(call: Call): void {
  for (const argument of call) {
    if (!Array.isArray(argument)) continue;
    for (const part of argument) {
      if (!(part instanceof Uint8Array) || !(part.buffer instanceof ArrayBuffer)) continue;
      if (!part.buffer.detached) part.buffer.transfer(0);
    }
  }
}

function close(connection: Connection): void {
  const isInPlace = broken === undefined && movedOf(connection.files) === undefined;
  if (data.access === 'write' && isInPlace) checkpoint(connection, 'TRUNCATE');
  connection.db.close();
}
