import { progressOf } from '../store/search/status.ts';
import type { StoreCommand } from './store-work.ts';

/** How far the index of payload text is. */
export type ShownSearch = {
  readonly state: string;
  readonly payload_bytes: number | null;
  readonly progress: number;
  readonly indexed: number;
  readonly stored: number;
  readonly waiting: number;
};

export const showSearch: StoreCommand = async ({ store }): Promise<ShownSearch> => {
  const status = await store.search.status();
  const { state, payloadBytes, indexed, stored, waiting } = status;
  return {
    ...{ state, payload_bytes: payloadBytes, progress: progressOf(status) },
    ...{ indexed, stored, waiting },
  };
};
