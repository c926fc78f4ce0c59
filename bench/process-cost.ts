import { readdirSync, readFileSync } from 'node:fs';

/**
 * CPU time of all living threads of a process in microseconds, from the scheduler's own account: exact to
 * the nanosecond where utime and stime count in ticks of ten milliseconds, and free of cost for the process.
 */
export function cpuMicros(pid: number): number {
  let nanos = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const text = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8');
    nanos += Number(text.split(' ')[0]);
  }
  return nanos / 1000;
}

/** CPU time in microseconds by the names of the living threads of a process. */
export function threadMicros(pid: number): Map<string, number> {
  const micros = new Map<string, number>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const read = (file: string) => readFileSync(`/proc/${pid}/task/${thread}/${file}`, 'utf8');
    const name = read('comm').trim();
    const [nanos] = read('schedstat').split(' ');
    micros.set(name, (micros.get(name) ?? 0) + Number(nanos) / 1000);
  }
  return micros;
}

export type Memory = { readonly now: number; readonly peak: number };

/** Resident memory in bytes: now, and the most since the process began. */
export function memory(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const read = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
  return { now: read('VmRSS'), peak: read('VmHWM') };
}

/** A tick of the kernel's accounts; 100 of them are a second wherever Linux runs Node or Go. */
const TICK_MICROS = 10_000;

/**
 * CPU time of a process and all below it in microseconds, user and system, threads and child processes that ended
 * included; exact to a tick of ten milliseconds.
 */
export function treeCpuMicros(pid: number): number {
  return processTree(pid).reduce((sum, each) => sum + processTicks(each) * TICK_MICROS, 0);
}

/** Resident memory in bytes, of a process and all below it. */
export function treeMemory(pid: number): number {
  return processTree(pid).reduce((sum, each) => sum + memory(each).now, 0);
}

function processTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field is a name in parentheses, which may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // User and system time of the process, then of its child processes that ended.
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
}

export function processTree(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(processTree)];
}

/** None for a process that has ended. */
function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')
        .split(' ')
        .filter((text) => text.trim() !== '')
        .map(Number),
    );
  } catch {
    return [];
  }
}
