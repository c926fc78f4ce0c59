import './install-servers.ts';
import { bundleDaemon } from './daemon-bundle.ts';
import { bundleThreads } from './thread-bundle.ts';

/** Runs once before the test files. */
await bundleThreads();
await bundleDaemon();
