import { hash } from 'node:crypto';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The id itself if it is a UUID, else a UUID (version 8) that is made of its hash: LangSmith's clients reject any other form of
 * an id, and projects, spans and scores have ids of other forms.
 */
export function uuidOf(id: string): string {
  if (UUID.test(id)) return id;
  const hex = hash('sha256', id);
  const variant = ((Number.parseInt(hex[16] ?? '0', 16) & 3) | 8).toString(16);
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`];
  return [...parts, `${variant}${hex.slice(17, 20)}`, hex.slice(20, 32)].join('-');
}
