import { existsSync, readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';

/**
 * A span in a form that does not depend on its encoder: with its resource, its scope and all its fields.
 * Members at their defaults are left out, numbers are text, attributes keep their order.
 */
export type CanonicalSpan = {
  /** `traceId:spanId`. */
  readonly id: string;
  readonly content: unknown;
};

type Fields = { readonly [key: string]: unknown };

/** The spans of an export request in OTLP's JSON form. */
export function canonicalSpans(request: unknown): CanonicalSpan[] {
  return list(fields(request).resourceSpans).flatMap((each) => {
    const { resource, schemaUrl: resourceSchema, scopeSpans } = fields(each);
    return list(scopeSpans).flatMap((group) => {
      const { scope, schemaUrl, spans } = fields(group);
      return list(spans).map((span) => {
        const { traceId, spanId } = fields(span);
        return {
          id: `${String(traceId)}:${String(spanId)}`,
          content: plain({ resource, resourceSchema, scope, schemaUrl, span }),
        };
      });
    });
  });
}

/** The spans of a file that a Collector's `file` exporter writes; its last line may be incomplete. */
export function spansOfFile(path: string): CanonicalSpan[] {
  if (!existsSync(path)) return [];
  const text = readFileSync(path, 'utf8');
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  return lines.filter((line) => line !== '').flatMap((line) => canonicalSpans(JSON.parse(line)));
}

/** Throws with the first difference, unless both have the same spans, each once. */
export function assertSameSpans(
  actual: readonly CanonicalSpan[],
  expected: readonly CanonicalSpan[],
): void {
  const found = new Map<string, unknown>();
  for (const { id, content } of actual) {
    if (found.has(id)) throw new Error(`${id} arrived more than once`);
    found.set(id, content);
  }
  for (const { id, content } of expected) {
    if (!found.has(id)) throw new Error(`${id} did not arrive`);
    if (!isDeepStrictEqual(found.get(id), content)) {
      const shown = (value: unknown) => JSON.stringify(value, null, 1);
      throw new Error(`${id} changed: ${shown(found.get(id))}\nwas ${shown(content)}`);
    }
    found.delete(id);
  }
  const [more] = found.keys();
  if (more !== undefined) throw new Error(`${more} was never sent`);
}

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return value;
  const result: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    if (key === 'value') result[key] = anyValue(fields(member));
    else if (!isDefault(member)) {
      const kept = plain(member);
      if (!isDefault(kept)) result[key] = kept;
    }
  }
  return result;
}

/** An attribute's value keeps a member that is empty or zero. */
function anyValue(value: Fields): unknown {
  const [[kind, content] = ['', undefined]] = Object.entries(value);
  switch (kind) {
    case '':
      return {};
    case 'doubleValue':
      return { [kind]: Object.is(Number(content), -0) ? '-0' : String(Number(content)) };
    case 'arrayValue':
      return { [kind]: list(fields(content).values).map((each) => anyValue(fields(each))) };
    case 'kvlistValue':
      return { [kind]: list(fields(content).values).map(plain) };
    default:
      return { [kind]: typeof content === 'boolean' ? content : String(content ?? '') };
  }
}

function isDefault(value: unknown): boolean {
  if (value === undefined || value === null || value === '' || value === 0 || value === '0') {
    return true;
  }
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
