import type { Exchange } from '../http/exchange.ts';
import { Refusal } from '../model/errors.ts';
import type { Store } from '../store/store.ts';
import type { PayloadReader } from './payloads.ts';
import type { PayloadSubject, Reader } from './project-reads.ts';
import type { Read, Reads } from './reads.ts';

/** An admitted reading request. */
export type AdmittedRead = Reader & {
  readonly exchange: Exchange;
  readonly query: URLSearchParams;
  readonly read: Read;
};

/** A reading request with a store. */
export type StoreReading = AdmittedRead & {
  readonly store: Store;
  readonly reads: Reads;
  /** For the bytes of the batches that the request reads. `of` is what the audit log of the reader names. */
  readonly payloads: (of: PayloadSubject) => Promise<PayloadReader>;
};

/** A request about a project's data in a store. */
export type StoredRequest = {
  /** GET by default. A POST needs the permission `ingest:write`. */
  readonly method?: 'POST';
  /** Relative to `/api/v1` or to a project. */
  readonly path: string;
  /** The parameters of the query; others are refused. */
  readonly parameters: readonly string[];
  readonly work: (reading: StoreReading) => Promise<void>;
};

/** Refuses a request for data that the project does not have. */
export function unknown(what: string): Refusal {
  return new Refusal('not_found', `There is no such ${what}.`);
}
