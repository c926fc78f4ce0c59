import { MAX_YOUNG_FLAG, YOUNG_FLAGS } from './heap.ts';

/**
 * Settings of glibc's allocator for a daemon. By default the allocator raises its threshold for mapping a
 * block to 32 MiB as soon as large blocks are freed, and keeps smaller blocks: some hundred MiB after a few
 * bodies of 25 MiB, indefinitely. With a fixed threshold, large blocks go back to the system when they are
 * freed.
 */
const ALLOCATOR = {
  MALLOC_MMAP_THRESHOLD_: '1048576',
  // Setting the first alone fixes this one at 128 KiB, which returns memory that the next request needs.
  MALLOC_TRIM_THRESHOLD_: '16777216',
  // The default is eight arenas a core, and each keeps the peak memory of its threads.
  MALLOC_ARENA_MAX: '2',
};

type Started = {
  readonly argv: readonly string[];
  readonly execArgv: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly platform: NodeJS.Platform;
};

export type Restart = { readonly execArgv: readonly string[]; readonly env: NodeJS.ProcessEnv };

/**
 * How a daemon has to be started for its settings of memory, which are read at the start of a process only: those of the allocator and the
 * limit of V8's young generation. Undefined for other commands and for a process that has them. Settings of the user stay.
 */
export function restartWith({ argv, execArgv, env, platform }: Started): Restart | undefined {
  if (argv[2] !== 'run') return undefined;
  const hasAllocator =
    platform !== 'linux' || Object.keys(ALLOCATOR).some((name) => env[name] !== undefined);
  const hasYoung = hasFlag(execArgv) || hasFlag(env['NODE_OPTIONS']?.split(' ') ?? []);
  if (hasAllocator && hasYoung) return undefined;
  return {
    execArgv: hasYoung ? execArgv : [...execArgv, ...YOUNG_FLAGS],
    env: hasAllocator ? env : { ...env, ...ALLOCATOR },
  };
}

function hasFlag(options: readonly string[]): boolean {
  const [name = ''] = MAX_YOUNG_FLAG.split('=');
  return options.some((option) => option.split('=')[0]?.replaceAll('_', '-') === name);
}

/**
 * Replaces the process once, with the same id, files and terminal, and does not return. Returns when the settings are in place or cannot be
 * set.
 */
export function fixMemory(): void {
  const restart = restartWith(process);
  if (restart === undefined) return;
  const { execArgv, env } = restart;
  process.execve?.(
    process.execPath,
    [process.execPath, ...execArgv, ...process.argv.slice(1)],
    env,
  );
}
