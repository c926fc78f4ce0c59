import { syncBuiltinESMExports } from 'node:module';
import workerThreads, { type MessagePort } from 'node:worker_threads';

/** A thread that runs the modules of other threads, one after the other: see `reused-threads.ts`. */

/** A module that finds the port as its `parentPort` and the data as its `workerData`. */
export type Hosted = {
  readonly module: string;
  readonly data: unknown;
  readonly port: MessagePort;
};

let runs = 0;

const { parentPort } = workerThreads;

parentPort?.on('message', async ({ module, data, port }: Hosted) => {
  // The last step of the module.
  port.on('close', () => parentPort.postMessage('free'));
  Object.assign(workerThreads, { parentPort: port, workerData: data });
  syncBuiltinESMExports();
  // Each run evaluates the module again, and not those that it imports.
  await import(`${module}?${++runs}`);
});
