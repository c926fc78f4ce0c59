#!/usr/bin/env node
// An old Node runs this file too, so what it needs comes only after the check.
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
  const { enableCompileCache } = await import('node:module');
  const { fixAllocator } = await import('./cli/allocator.ts');
  fixAllocator(process.argv);
  // The second start takes half as long. Coverage is exact only for what was compiled anew.
  if (!process.env['NODE_V8_COVERAGE']) enableCompileCache();
  const { holdYoungGeneration } = await import('./cli/heap.ts');
  holdYoungGeneration();
  const { runCli } = await import('./cli/program.ts');
  const { processTerminal } = await import('./cli/terminal.ts');
  process.exit(await runCli(process.argv.slice(2), processTerminal()));
}

export {};
