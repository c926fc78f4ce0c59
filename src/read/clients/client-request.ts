import type { Permission } from '../../model/batch.ts';
import type { StoreReading } from '../stored-request.ts';

/**
 * A request of another service's clients about data in a store. It has paths and answers of that service, and is served on ingestion
 * listeners only. Its query is not checked, because clients send more parameters than are read.
 */
export type ClientRequest = {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly paths: readonly string[];
  /** A key with any of them may send the request. */
  readonly permissions: readonly Permission[];
  readonly work: (reading: StoreReading) => Promise<void>;
};
