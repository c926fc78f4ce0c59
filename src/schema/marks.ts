import { z } from 'zod';
import type { Capability } from '../component/capability.ts';

/** Properties of a field that its JSON Schema lacks, for the checks of src/config and the tables of fields. */
export type Marks = {
  /** Never printed. */
  readonly secret?: boolean;
  /** The value is the id of an extension that offers this. */
  readonly capability?: Capability<unknown>;
  /** The value is an address where something listens, over HTTP or gRPC. */
  readonly listens?: 'http' | 'grpc';
  /** The value is the path of something that one component owns: two that own the same kind cannot have one path. */
  readonly owns?: 'file' | 'queues' | 'store';
  /** The form of a value in tables of fields: `duration`. */
  readonly form?: string;
  /** The page that documents the fields of this section; tables of fields link to it. */
  readonly page?: string;
};

export const MARKS = z.registry<Marks>();

/** A copy of the schema with these marks; it inherits others, and so do schemas that are derived from it. */
export function mark<S extends z.ZodType>(schema: S, marks: Marks): S {
  const copy = schema.clone(schema.def, { parent: true });
  MARKS.add(copy, marks);
  return copy;
}
