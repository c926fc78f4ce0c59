/** The reason why the system refuses a file. */
export function fileRefusal(error: unknown): string {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
      return 'its directory does not exist';
    case 'ENOTDIR':
      return 'its directory is a file';
    case 'EACCES':
      return 'permission denied';
    case 'EISDIR':
      return 'it is a directory';
    case 'ENOSPC':
    case 'EDQUOT':
      return 'no space is left on the disk';
    default:
      return error instanceof Error ? error.message : String(error);
  }
}
