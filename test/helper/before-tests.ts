import './install-servers.ts';
import { bundleThreads } from './thread-bundle.ts';

/** Runs once before the test files. */
await bundleThreads();
