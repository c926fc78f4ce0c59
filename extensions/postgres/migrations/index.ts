import type { Migration } from '../../../src/postgres/migrate.ts';
import { batches } from './0001-batches.ts';
import { queues } from './0002-queues.ts';
import { traces } from './0004-traces.ts';

/** In the order they are applied. */
export const MIGRATIONS: readonly Migration[] = [batches, queues, traces];
