#!/usr/bin/env node
// An older Node loads this file too, so the imports come after the check.
const NEEDED = 26;

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  console.error(
    `tracectl needs Node ${NEEDED} or newer; this is Node ${process.versions.node} (${process.execPath}).\n` +
      `Install it from https://nodejs.org (or "nvm install ${NEEDED}"), or run "npx -p node@${NEEDED} -p tracectl tracectl".`,
  );
  process.exitCode = 1;
} else {
  const { endWhileLoading } = await import('./cli/first-process.ts');
  endWhileLoading((status) => process.exit(status));
  const { createThreadEnd, endFirstProcess } = await import('./cli/thread-end.ts');
  const endThreads = createThreadEnd();
  const { enableCompileCache } = await import('node:module');
  const { fixMemory } = await import('./cli/process-memory.ts');
  fixMemory();
  // Halves the time of later starts. Coverage is exact only for code that was compiled in the same process.
  if (!process.env['NODE_V8_COVERAGE']) enableCompileCache();
  if (process.argv[2] === 'run') {
    const { tuneHeap } = await import('./cli/heap.ts');
    tuneHeap();
  }
  const { runCli } = await import('./cli/program.ts');
  const { processTerminal } = await import('./cli/terminal.ts');
  const terminal = processTerminal();
  const status = await terminal.end(await runCli(process.argv.slice(2), terminal));
  // An exit waits for every thread. A store survives the kill as it survives a crash.
  if (!(await endThreads())) {
    endFirstProcess(status);
    process.kill(process.pid, 'SIGKILL');
  }
  process.exit(status);
}

export {};
