/**
 * Settings of glibc's allocator for a daemon. By default the allocator raises its threshold for mapping a
 * block to 32 MiB as soon as large blocks are freed, and keeps smaller blocks: some hundred MiB after a few
 * bodies of 25 MiB, indefinitely. With a fixed threshold, large blocks go back to the system when they are
 * freed. The settings are read at process start only, so the process replaces itself once, with the same id,
 * files and terminal.
 */
const SETTINGS = {
  MALLOC_MMAP_THRESHOLD_: '1048576',
  // Setting the first alone fixes this one at 128 KiB, which returns memory that the next request needs.
  MALLOC_TRIM_THRESHOLD_: '16777216',
  // The default is eight arenas a core, and each keeps the peak memory of its threads.
  MALLOC_ARENA_MAX: '2',
};

/** Replaces the process and does not return. Returns when the settings are in place or cannot be set. */
export function fixAllocator(argv: readonly string[]): void {
  const isDaemon = argv[2] === 'run';
  const isSet = Object.keys(SETTINGS).some((name) => process.env[name] !== undefined);
  if (!isDaemon || isSet || process.platform !== 'linux') return;
  process.execve?.(process.execPath, [process.execPath, ...process.execArgv, ...argv.slice(1)], {
    ...process.env,
    ...SETTINGS,
  });
}
