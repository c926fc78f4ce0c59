/** SQLite's primary result codes that decide what happens next, and the two of a failed sync. */
export const SQLITE_IOERR = 10;
export const SQLITE_CORRUPT = 11;
export const SQLITE_FULL = 13;
export const SQLITE_NOTADB = 26;
const IOERR_FSYNC = 1034;
const IOERR_DIR_FSYNC = 1290;
const IOERR_SHMSIZE = 4874;

export function primaryCode(errcode: number | undefined): number | undefined {
  return errcode === undefined ? undefined : errcode & 0xff;
}

/** No room: in the file system, or for the shared memory file beside the database. */
export function isFull(errcode: number | undefined): boolean {
  return primaryCode(errcode) === SQLITE_FULL || errcode === IOERR_SHMSIZE;
}

/** The file is not what SQLite wrote. */
export function isDamage(errcode: number | undefined): boolean {
  const code = primaryCode(errcode);
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

/** After a failed sync the kernel may have dropped the pages: nothing on this handle can be trusted. */
export function isSyncFailure(errcode: number | undefined): boolean {
  return errcode === IOERR_FSYNC || errcode === IOERR_DIR_FSYNC;
}

/** The extended result code of an error of node:sqlite. */
export function errcodeOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('errcode' in error)) return undefined;
  return typeof error.errcode === 'number' ? error.errcode : undefined;
}
