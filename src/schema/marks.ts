import { z } from 'zod';
import type { Capability } from '../component/capability.ts';

/** What a field means to the checks of src/config, which its JSON Schema cannot say. */
export type Marks = {
  /** Never printed. */
  readonly secret?: boolean;
  /** The value is the id of an extension that offers this. */
  readonly capability?: Capability<unknown>;
  /** The value is an address where something listens, over HTTP or gRPC. */
  readonly listens?: 'http' | 'grpc';
};

/** `schema.register(MARKS, …)` marks a schema; the mark remains in schemas that are derived from it. */
export const MARKS = z.registry<Marks>();
