import { withCustomFieldsText } from './custom-fields.ts';
import type { Observation, Payload, PayloadField } from './observation.ts';
import { PAYLOAD_FIELDS } from './observation.ts';
import { dividesPair } from './surrogates.ts';

/** Characters (UTF-16 code units) of a preview. */
export const PREVIEW_CHARACTERS = 200;

/** Characters of JSON that are looked at. Most previews need few of them; escapes and white space take more. */
const SCANNED = [PREVIEW_CHARACTERS * 2, PREVIEW_CHARACTERS * 60] as const;

const PREVIEWED = ['inputs', 'outputs'] as const satisfies readonly PayloadField[];
/** The bits of `payloadMask`. */
const PREVIEWED_MASK = PREVIEWED.reduce(
  (mask, field) => mask | (1 << PAYLOAD_FIELDS.indexOf(field)),
  0,
);

/** Adds the previews of an observation without a parent: lists show those of root observations. */
export function withPreviews(
  observation: Observation,
  payload: (fields: readonly PayloadField[]) => Payload,
): Observation {
  const { parentId, payloadMask, details, customFieldsText } = observation;
  if (parentId !== null || (payloadMask & PREVIEWED_MASK) === 0) return observation;
  const { inputs, outputs } = payload(PREVIEWED);
  const [inputPreview, outputPreview] = [previewOf(inputs), previewOf(outputs)];
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

/** White space that is not one space already: a replacement costs more than the search. */
const WHITE_SPACE = / \s+|[^\S ]\s*/g;

/**
 * The beginning of a payload field as text, from its JSON: of a text its characters, of any other value its JSON. Undefined for an
 * absent field, null and an empty text.
 */
export function previewOf(json: string | undefined): string | undefined {
  if (json === undefined || json === 'null') return undefined;
  let line = '';
  for (const scanned of SCANNED) {
    const text = json.startsWith('"') ? beginningOfText(json, scanned) : json.slice(0, scanned);
    line = text.replaceAll(WHITE_SPACE, ' ').trim();
    if (line.length > PREVIEW_CHARACTERS || json.length <= scanned) break;
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
