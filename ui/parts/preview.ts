/**
 * The first words of an input or output for a list. `preview` is the beginning of its JSON as text, and may be cut
 * anywhere. Chat messages give the text of the last message that is there; other JSON its first text; the rest itself.
 */
export function firstWords(preview: string | null | undefined): string {
  if (preview === null || preview === undefined) return '';
  const text = preview.trim();
  if (!/^["{[]/.test(text)) return text;
  const found = texts(text);
  const contents = found.filter(({ name }) => CONTENT.has(name ?? ''));
  const chosen = contents.at(-1) ?? found.find(({ name }) => !LABELS.has(name ?? ''));
  return chosen?.text.trim() || text;
}

type Named = { readonly name: string | undefined; readonly text: string };

/** Names of members that hold the text of a message. */
const CONTENT = new Set(['content', 'text', 'output_text', 'answer', 'completion']);
/** Names of members that say what the text beside them is. */
const LABELS = new Set(['role', 'type', 'id', 'name', 'model', 'object', 'finish_reason']);

/** The texts of a JSON document, with the name of the member that each is the value of. */
function texts(json: string): Named[] {
  const found: Named[] = [];
  let name: string | undefined;
  for (const [, raw = '', colon] of json.matchAll(STRING)) {
    const text = unescaped(raw);
    if (colon === undefined) {
      found.push({ name, text });
      continue;
    }
    name = text;
  }
  return found;
}

/** A string, which may miss its end, and the colon of a member's name. */
const STRING = /"((?:[^"\\]|\\[\s\S])*)(?:"(\s*:)?|\\?$)/g;

function unescaped(raw: string): string {
  try {
    return JSON.parse(`"${raw.replace(/\\(u[\da-f]{0,3})?$/i, '')}"`);
  } catch {
    return raw;
  }
}
