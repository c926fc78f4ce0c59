import { z } from 'zod';
import { TRAILERS } from '../read/export/answer.ts';
import { readLocally } from '../read/local.ts';
import { ControlError, readArguments } from './protocol.ts';
import { projectFor, type StoreCommand, type StoreWork } from './store-work.ts';

export const EXPORT_COMMANDS = { 'export.part': exportPart } as const satisfies Record<
  string,
  StoreCommand
>;

/** A part of an export. */
export type ExportPart = {
  /** The id of the project. */
  readonly project: string;
  readonly text: string;
  readonly rows: number;
  /** The value of `after` behind the last row; null at the end of the export. */
  readonly next: string | null;
};

const partArguments = z.strictObject({
  project: z.string().optional(),
  /** The query of `GET /export`. */
  query: z.string().max(16_384),
});

async function exportPart({ store, reads, by }: StoreWork, args: unknown): Promise<ExportPart> {
  const { project, query } = readArguments(partArguments, args);
  const { id, organizationId } = await projectFor(store, project);
  const tenant = {
    ...{ organizationId, projectId: id, keyId: by.actor },
    permissions: ['traces:read'],
  } as const;
  const answer = await readLocally(reads, { tenant, store }, `/export?${query}`);
  const { status, body, trailers } = answer;
  if (status !== 200) {
    const { code, message } = JSON.parse(body) as { code: string; message: string };
    throw new ControlError(code, message);
  }
  const next = trailers[TRAILERS.next] ?? null;
  return { project: id, text: body, rows: Number(trailers[TRAILERS.rows]), next };
}
