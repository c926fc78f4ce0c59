import { checkJson } from '../json/scan.ts';

/** Levels of nesting that `wrapRun` puts around a run: scan a wrapped body with `maxDepth` plus these. */
export const WRAPPED_LEVELS = 2;

/**
 * A run as the batch of one that it is stored as: `{"post":[…]}` for a creation, `{"patch":[…]}` for an
 * update, whose id is that of the path, whatever the body says. Throws `invalid_json` where the body is
 * not one JSON value: bytes around it could otherwise make a document of something that is none.
 */
export function wrapRun(body: Buffer, pathId?: string): Buffer {
  checkJson(body);
  if (pathId === undefined) return Buffer.concat([Buffer.from('{"post":['), body, END]);
  return Buffer.concat([Buffer.from('{"patch":['), ...withId(body, pathId), END]);
}

const END = Buffer.from(']}');

/** The last of several equal keys counts, so the path's id is added behind all others. */
function withId(body: Buffer, id: string): Buffer[] {
  const last = lastVisible(body, body.length);
  if (body[last] !== 0x7d) return [body];
  const isEmpty = body[lastVisible(body, last)] === 0x7b;
  const json = JSON.stringify(id);
  const members = `${isEmpty ? '' : ','}"id":${json},"observation_id":${json}}`;
  return [body.subarray(0, last), Buffer.from(members)];
}

/** The last byte before `end` that is no white space. */
function lastVisible(body: Buffer, end: number): number {
  let at = end - 1;
  while (at >= 0 && (body[at] ?? 0) <= 0x20) at--;
  return at;
}
