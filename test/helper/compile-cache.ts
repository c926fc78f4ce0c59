/**
 * Loaded by tap before each test file. The threads and the daemons that a test starts keep their compiled modules on
 * disk: reading the types out of 170 files takes longer than the rest of the start of a thread. The test process itself
 * compiles, because the coverage of a function from the cache is less exact.
 */
import { fileURLToPath } from 'node:url';

process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(
  new URL('../../.tap/compile-cache', import.meta.url),
);
