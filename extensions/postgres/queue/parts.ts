import type { Clock, Logger } from '../../../src/component/component.ts';
import type { StoreDatabase } from '../database.ts';
import type { Holder } from './holder.ts';
import type { PostgresLedger } from './ledger.ts';

/** What all queues of a store share. */
export type QueueParts = {
  readonly database: StoreDatabase;
  readonly holder: Holder;
  readonly ledger: PostgresLedger;
  readonly clock: Clock;
  readonly logger: Logger;
};
