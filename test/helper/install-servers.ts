import { npmClients } from '../clients/install.ts';
import { removeLeftData } from './postgres-server.ts';
import { givenServer, serverBinaries } from './server-binaries.ts';

/**
 * Finds or installs the servers and the browser that tests start, and the clients of docs/clients, once, before tests
 * run in parallel. A missing server that cannot be installed fails the run with a message. If a variable names a
 * server, only the tests that need their own server fail.
 */
for (const kind of ['redis', 'postgres', 'chromium'] as const) {
  try {
    serverBinaries(kind);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    if (givenServer(kind) === undefined) process.exitCode = 1;
  }
}

removeLeftData();
try {
  await npmClients();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
