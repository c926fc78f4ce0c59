import { z } from 'zod';
import { progressOf } from '../store/search/status.ts';
import { readArguments } from './protocol.ts';
import type { StoreCommand } from './store-work.ts';
import { projectFor } from './store-work.ts';

/** How far the index of payload text is. */
export type ShownSearch = {
  readonly state: string;
  readonly payload_bytes: number | null;
  readonly progress: number;
  readonly indexed: number;
  readonly stored: number;
  readonly waiting: number;
};

const showArguments = z.strictObject({ project: z.string().optional() });

/** The index is of the whole store: a project that the caller names has to exist, and has the same answer. */
export const showSearch: StoreCommand = async ({ store }, args): Promise<ShownSearch> => {
  const { project } = readArguments(showArguments, args);
  if (project !== undefined) await projectFor(store, project);
  const status = await store.search.status();
  const { state, payloadBytes, indexed, stored, waiting } = status;
  return {
    ...{ state, payload_bytes: payloadBytes, progress: progressOf(status) },
    ...{ indexed, stored, waiting },
  };
};
