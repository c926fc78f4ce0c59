/**
 * Loaded first in each test process: sources come without their types from `.tap/stripped`, and the first process that needs one puts
 * it there. Half of the modules of a test file are those of every other one, and removing their types takes a third of the CPU of a
 * small test file. Spaces replace the types, so each position stays, and with it the coverage.
 *
 * This module is JavaScript, because a process that removes no types does not load the compiler that does so.
 */
import { hash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { registerHooks, stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';

const DIRECTORY = fileURLToPath(new URL('../../.tap/stripped/', import.meta.url));

registerHooks({
  load(url, context, nextLoad) {
    // The mocks of tap add a query to an address.
    if (context.format !== 'module-typescript' || !url.endsWith('.ts')) {
      return nextLoad(url, context);
    }
    const source = withoutTypes(readFileSync(fileURLToPath(url), 'utf8'));
    return { format: 'module', source, shortCircuit: true };
  },
});

/** @param {string} source */
function withoutTypes(source) {
  // Another release of Node may write other text.
  const file = `${DIRECTORY}${hash('sha256', process.version + source)}.js`;
  try {
    return readFileSync(file, 'utf8');
  } catch {
    const stripped = stripTypeScriptTypes(source);
    mkdirSync(DIRECTORY, { recursive: true });
    // Other processes see the whole text or none.
    writeFileSync(`${file}.${process.pid}`, stripped);
    renameSync(`${file}.${process.pid}`, file);
    return stripped;
  }
}
