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

export type Memory = { readonly now: number; readonly peak: number };

/** Resident memory in bytes: now, and the most since the process began. */
export function memory(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const read = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
  return { now: read('VmRSS'), peak: read('VmHWM') };
}
