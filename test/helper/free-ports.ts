import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Ports below the range of outgoing connections, in bands that one test process has at a time. */
const FIRST_PORT = 20_000;
const BANDS = 120;
const BAND_PORTS = 100;

/** Ports of this process's bands that are not given out: the port of a killed daemon looks free. */
const left: number[] = [];

/**
 * Returns free ports that no other test process uses, so no process and no outgoing connection takes a port before the start of
 * its server, or while the server is killed.
 */
export async function freePorts(count: number): Promise<number[]> {
  const found: number[] = [];
  while (found.length < count) {
    const port = left.pop();
    if (port === undefined) left.push(...claimBand());
    else if (await isFree(port)) found.push(port);
  }
  return found;
}

/** The ports of a band that no running process has. The file of a band names the process that has it. */
function claimBand(): number[] {
  for (let step = 0; step < BANDS; step += 1) {
    const band = (process.pid + step) % BANDS;
    const file = join(tmpdir(), `tracectl-ports-${band}`);
    if (!claims(file)) continue;
    process.once('exit', () => rmSync(file, { force: true }));
    return Array.from({ length: BAND_PORTS }, (_, port) => FIRST_PORT + band * BAND_PORTS + port);
  }
  throw new Error('every band of ports belongs to a running test');
}

function claims(file: string): boolean {
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    if (isOfRunningProcess(file)) return false;
    rmSync(file, { force: true });
    return false;
  }
}

function isOfRunningProcess(file: string): boolean {
  try {
    process.kill(Number(readFileSync(file, 'utf8')), 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}
