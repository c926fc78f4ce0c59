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
  const { holdYoungGeneration } = await import('./cli/heap.ts');
  holdYoungGeneration();
  const { runCli } = await import('./cli/program.ts');
  const { processTerminal } = await import('./cli/terminal.ts');
  process.exit(await runCli(process.argv.slice(2), processTerminal()));
}

export {};
