import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { eventually, send } from '../test/e2e/client.ts';
import { type DaemonOptions, prepareDaemon, total } from '../test/e2e/daemon.ts';

/** A server under load: its process, its port, its key, and how to know that it has nothing left to do. */
export type Server = {
  readonly pid: number;
  readonly port: number;
  readonly key: string;
  /** Resolves when nothing that was accepted still waits to be stored. */
  idle(): Promise<void>;
  stop(): Promise<void>;
};

const FLOOR = fileURLToPath(new URL('./floor.ts', import.meta.url));

export async function startFloor(mode: 'otlp' | 'native' | 'store'): Promise<Server> {
  const child = spawn(process.execPath, [FLOOR, mode], { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await firstLine(child);
  const base = `http://127.0.0.1:${port}`;
  return {
    pid: child.pid ?? 0,
    port: Number(port),
    key: 'ws_floor',
    idle: async () => {
      await eventually(
        () => send(base, { path: '/' }),
        (answer) => answer.body.toString() === '0',
        'an empty backlog',
        60_000,
      );
    },
    stop: () => ended(child),
  };
}

export async function startTracectl(options: DaemonOptions): Promise<Server> {
  const daemon = await prepareDaemon(options);
  await daemon.start();
  return {
    pid: daemon.pid(),
    port: Number(new URL(daemon.base).port),
    key: daemon.key,
    idle: async () => {
      await eventually(
        () => daemon.metrics(),
        (samples) => total(samples, 'tracectl_queue_entries') === 0,
        'an empty queue',
        120_000,
      );
    },
    stop: () => daemon.remove(),
  };
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the floor server ended with ${code}`)));
    child.stdout?.once('data', (text: Buffer) => resolve(text.toString().trim()));
  });
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.removeAllListeners('exit');
    child.once('exit', () => resolve());
    child.kill('SIGTERM');
  });
}
