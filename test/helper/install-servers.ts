import { givenServer, serverBinaries } from './server-binaries.ts';

/**
 * Finds or installs the servers that tests start, once, before tests run in parallel. What is missing and
 * cannot be installed is said here, in a sentence, and fails the run; where the tests are given a server,
 * those that need one of their own will say it themselves.
 */
for (const kind of ['redis', 'postgres'] as const) {
  try {
    serverBinaries(kind);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    if (givenServer(kind) === undefined) process.exitCode = 1;
  }
}
