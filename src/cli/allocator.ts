/**
 * How glibc's allocator is set for a daemon. Left alone it raises the size from which a block is mapped by
 * itself to 32 MiB as soon as large blocks are freed, and keeps what was below: some hundred MiB after a few
 * bodies of 25 MiB, for ever. Fixed, large blocks go back to the system when they are freed. It can only
 * be told when a process starts, so the process replaces itself once: same id, same files, same terminal.
 */
const SETTINGS = {
  MALLOC_MMAP_THRESHOLD_: '1048576',
  // Fixing the first would fix this one at 128 KiB, and give back what the next request needs.
  MALLOC_TRIM_THRESHOLD_: '16777216',
  // Left alone there are up to eight arenas a core, and each keeps what its threads once needed.
  MALLOC_ARENA_MAX: '2',
};

/** Does not return where it replaces the process; does nothing where that cannot be, or was done. */
export function fixAllocator(argv: readonly string[]): void {
  const isDaemon = argv[2] === 'run';
  const isSet = Object.keys(SETTINGS).some((name) => process.env[name] !== undefined);
  if (!isDaemon || isSet || process.platform !== 'linux') return;
  process.execve?.(process.execPath, [process.execPath, ...process.execArgv, ...argv.slice(1)], {
    ...process.env,
    ...SETTINGS,
  });
}
