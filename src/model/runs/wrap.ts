import { checkJson } from '../json/scan.ts';

/** Levels of nesting that `wrapRun` adds; the depth limit of the scan has to include them. */
export const WRAPPED_LEVELS = 2;

/**
 * A single run as a batch of one: `{"post":[…]}` for a creation, `{"patch":[…]}` for an update. The id of an
 * update is the one in the URL path, which overrides the body. Throws `invalid_json` unless the body is exactly
 * one JSON value, because the added bytes could complete an incomplete one.
 */
export function wrapRun(body: Buffer, pathId?: string): Buffer {
  checkJson(body);
  if (pathId === undefined) return Buffer.concat([Buffer.from('{"post":['), body, END]);
  return Buffer.concat([Buffer.from('{"patch":['), ...withId(body, pathId), END]);
}

const END = Buffer.from(']}');

/** The last value of a repeated key counts, so the path's id is added behind all members. */
function withId(body: Buffer, id: string): Buffer[] {
  const last = lastVisible(body, body.length);
  if (body[last] !== 0x7d) return [body];
  const isEmpty = body[lastVisible(body, last)] === 0x7b;
  const json = JSON.stringify(id);
  const members = `${isEmpty ? '' : ','}"id":${json},"observation_id":${json}}`;
  return [body.subarray(0, last), Buffer.from(members)];
}

/** The position of the last byte before `end` that is not white space. */
export function lastVisible(body: Buffer, end: number): number {
  let at = end - 1;
  while (at >= 0 && isSpace(body[at])) at--;
  return at;
}

/** White space of JSON: no other control character may be around a value. */
export function isSpace(byte = 0): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
