/** SQLite's primary result codes that decide how a thread goes on, and the extended codes of failed reads and syncs. */
const SQLITE_BUSY = 5;
const SQLITE_READONLY = 8;
export const SQLITE_IOERR = 10;
export const SQLITE_FULL = 13;
const SQLITE_CORRUPT = 11;
const SQLITE_CANTOPEN = 14;
const SQLITE_TOOBIG = 18;
const SQLITE_CONSTRAINT = 19;
const SQLITE_NOTADB = 26;
const IOERR_READ = 266;
const IOERR_SHORT_READ = 522;
const IOERR_WRITE = 778;
const IOERR_FSYNC = 1034;
const IOERR_DIR_FSYNC = 1290;
const IOERR_SHMSIZE = 4874;

export function primaryCode(errcode: number | undefined): number | undefined {
  return errcode === undefined ? undefined : errcode & 0xff;
}

/** No room in the file system, or for the shared memory file beside the database. */
export function isFull(errcode: number | undefined): boolean {
  return primaryCode(errcode) === SQLITE_FULL || errcode === IOERR_SHMSIZE;
}

/** Only the file system knows why: SQLite reports a reached quota as any other failed write. */
export function isRefusedWrite(errcode: number | undefined): boolean {
  return errcode === IOERR_WRITE;
}

/** Another connection has the lock. */
export function isBusy(errcode: number | undefined): boolean {
  return primaryCode(errcode) === SQLITE_BUSY;
}

/** The file system refuses the write for another reason than a lack of room, such as a failing disk. */
export function isUnwritable(errcode: number | undefined): boolean {
  const code = primaryCode(errcode);
  if (code === SQLITE_IOERR) return !isFull(errcode) && !isUnreadable(errcode);
  return code === SQLITE_READONLY || code === SQLITE_CANTOPEN;
}

/** The file system cannot read a part of the file. */
export function isUnreadable(errcode: number | undefined): boolean {
  return errcode === IOERR_READ || errcode === IOERR_SHORT_READ;
}

/** The file's content is not what SQLite wrote. */
export function isDamage(errcode: number | undefined): boolean {
  const code = primaryCode(errcode);
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

/** A row that SQLite will refuse again: it breaks a constraint, or a value is too large. */
export function isRefusedRow(errcode: number | undefined): boolean {
  const code = primaryCode(errcode);
  return code === SQLITE_CONSTRAINT || code === SQLITE_TOOBIG;
}

/** After a failed sync the kernel may have dropped the pages, so the connection cannot be trusted any more. */
export function isSyncFailure(errcode: number | undefined): boolean {
  return errcode === IOERR_FSYNC || errcode === IOERR_DIR_FSYNC;
}

/** The extended result code of an error of node:sqlite. */
export function errcodeOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('errcode' in error)) return undefined;
  return typeof error.errcode === 'number' ? error.errcode : undefined;
}
