import { withCustomFieldsText } from './custom-fields.ts';
import type { Beginnings } from './format-module.ts';
import type { Observation, Payload, PayloadField } from './observation.ts';
import { PAYLOAD_FIELDS } from './observation.ts';
import { dividesPair } from './surrogates.ts';

/** Characters (UTF-16 code units) of a preview. */
export const PREVIEW_CHARACTERS = 200;

/** Characters of JSON that are looked at. Most previews need few of them; escapes and white space take more. */
export const MOST_SCANNED = PREVIEW_CHARACTERS * 60;
const SCANNED = [PREVIEW_CHARACTERS * 1.25, PREVIEW_CHARACTERS * 5, MOST_SCANNED] as const;

const PREVIEWED = ['inputs', 'outputs'] as const satisfies readonly PayloadField[];
/** The bits of `payloadMask`. */
const PREVIEWED_MASK = PREVIEWED.reduce(
  (mask, field) => mask | (1 << PAYLOAD_FIELDS.indexOf(field)),
  0,
);

/** An observation without a parent: lists show the previews of root observations. */
export function hasPreviews({ parentId, payloadMask }: Observation): boolean {
  return parentId === null && (payloadMask & PREVIEWED_MASK) !== 0;
}

/** Adds the previews of an observation that has some; `payload` reads the fields that have no beginning. */
export function withPreviews(
  observation: Observation,
  beginnings: Beginnings,
  payload: (fields: readonly PayloadField[]) => Payload,
): Observation {
  const { payloadMask, details, customFieldsText } = observation;
  const unread = PREVIEWED.filter(
    (field) =>
      beginnings[field] === undefined && (payloadMask & (1 << PAYLOAD_FIELDS.indexOf(field))) !== 0,
  );
  const { inputs, outputs } = unread.length === 0 ? NO_PAYLOAD : payload(unread);
  const inputPreview = previewOfText(beginnings.inputs) ?? previewOf(inputs);
  const outputPreview = previewOfText(beginnings.outputs) ?? previewOf(outputs);
  if (inputPreview === undefined && outputPreview === undefined) return observation;
  const previewed = {
    ...observation,
    details: {
      ...details,
      ...(inputPreview === undefined ? {} : { inputPreview }),
      ...(outputPreview === undefined ? {} : { outputPreview }),
    },
  };
  return customFieldsText === undefined
    ? previewed
    : withCustomFieldsText(previewed, customFieldsText);
}

const NO_PAYLOAD: Payload = {};

/** White space that is not one space already: a replacement costs more than the search. */
const WHITE_SPACE = / \s+|[^\S ]\s*/g;

/**
 * The beginning of a payload field as text, from its JSON: of a text its characters, of any other value its JSON. Undefined for an
 * absent field, null and an empty text.
 */
export function previewOf(json: string | undefined): string | undefined {
  if (json === undefined || json === 'null') return undefined;
  if (!json.startsWith('"')) return previewOfText(json);
  return firstLine(json.length, (scanned) => beginningOfText(json, scanned));
}

/** The same for characters, of which those behind `MOST_SCANNED` do not matter. */
function previewOfText(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  return firstLine(text.length, (scanned) => text.slice(0, scanned));
}

function firstLine(length: number, beginning: (scanned: number) => string): string | undefined {
  let line = '';
  for (const scanned of SCANNED) {
    line = beginning(scanned).replaceAll(WHITE_SPACE, ' ').trim();
    if (line.length > PREVIEW_CHARACTERS || length <= scanned) break;
  }
  return line === '' ? undefined : cutAt(line, PREVIEW_CHARACTERS);
}

const CUT_ESCAPE = /(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)$/;

/** The characters of a JSON text, which begins with a quote. */
function beginningOfText(json: string, scanned: number): string {
  const part = json.slice(1, 1 + scanned);
  const end = endOfText(part);
  if (end !== -1) return JSON.parse(`"${part.slice(0, end)}"`) as string;
  const cut = CUT_ESCAPE.exec(part)?.[1]?.length ?? 0;
  return JSON.parse(`"${part.slice(0, part.length - cut)}"`) as string;
}

/** The index of the quote that ends the text; -1 if the text goes on. */
function endOfText(part: string): number {
  for (let at = part.indexOf('"'); at !== -1; at = part.indexOf('"', at + 1)) {
    let first = at;
    while (part[first - 1] === '\\') first--;
    if ((at - first) % 2 === 0) return at;
  }
  return -1;
}

/** Cuts a text without dividing a pair of surrogates. */
export function cutAt(text: string, characters: number): string {
  if (text.length <= characters) return text;
  return text.slice(0, dividesPair(text, characters) ? characters - 1 : characters);
}
