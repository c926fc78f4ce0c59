import type { AttributeRule } from '../attributes.ts';
import { attributeKey, IGNORED_KEY } from '../attributes.ts';
import { nanosOfUsd } from '../details.ts';
import type { IgnoredReason } from '../ignored.ts';
import type { LogAttribute, LogValue } from '../log-events.ts';
import { WITHHELD } from '../log-events.ts';
import { countOf } from './facts.ts';
import type { OtlpKeyValue, OtlpValue } from './span.ts';
import { scalarOf } from './value.ts';

/** The attributes of a log event on their way into a span. */
export class EventAttributes {
  readonly #sent: ReadonlyMap<string, OtlpValue>;
  readonly #used = new Set<string>();
  readonly #made = new Map<string, OtlpValue>();
  readonly #ignored: [path: string, reason: IgnoredReason][] = [];

  constructor(sent: ReadonlyMap<string, OtlpValue>) {
    this.#sent = sent;
  }

  has(key: string): boolean {
    return this.#sent.has(key);
  }

  /** A scalar as text; undefined without one. */
  text(key: string): string | undefined {
    const scalar = scalarOf(this.#sent.get(key));
    return scalar === undefined ? undefined : String(scalar);
  }

  /** A value in its form; undefined without one. A malformed value is noted. */
  read(key: string, as: LogValue): OtlpValue | undefined {
    const sent = this.#sent.get(key);
    if (sent === undefined) return undefined;
    const value = FORMS[as].read(sent);
    if (value === undefined) this.ignore(key, FORMS[as].reason);
    return value;
  }

  ignore(key: string, reason: IgnoredReason): void {
    this.#ignored.push([`attributes.${key}`, reason]);
  }

  /** Makes an attribute of the first sound one that gives it. */
  map({ to, from, as }: LogAttribute): void {
    for (const key of from) {
      const value = this.read(key, as);
      if (value === undefined) continue;
      this.#used.add(key);
      if (as === 'content' && WITHHELD.has(value.stringValue ?? '')) continue;
      this.#made.set(to, value);
      return;
    }
  }

  made(key: string): OtlpValue | undefined {
    return this.#made.get(key);
  }

  set(key: string, value: OtlpValue): void {
    this.#made.set(key, value);
  }

  /**
   * The attributes of the span. Those that became another one are left out, and those that the conventions would read as another
   * field get the prefix of their source.
   */
  list(prefix: string): OtlpKeyValue[] {
    const list: OtlpKeyValue[] = [];
    for (const [key, value] of this.#sent) {
      if (this.#used.has(key) || this.#made.has(key)) continue;
      list.push({ key: isTaken(key) ? prefix + key : key, value });
    }
    for (const [key, value] of this.#made) list.push({ key, value });
    if (this.#ignored.length > 0) {
      list.push({ key: IGNORED_KEY, value: { stringValue: JSON.stringify(this.#ignored) } });
    }
    return list;
  }
}

type Form = {
  readonly reason: IgnoredReason;
  read(sent: OtlpValue): OtlpValue | undefined;
};

const FORMS: Readonly<Record<LogValue, Form>> = {
  content: { reason: 'text', read: (sent) => sent },
  text: {
    reason: 'text',
    read(sent) {
      const scalar = scalarOf(sent);
      return scalar === undefined ? undefined : { stringValue: String(scalar) };
    },
  },
  count: {
    reason: 'count',
    read(sent) {
      const count = countOf(scalarOf(sent));
      return count === undefined ? undefined : { intValue: String(count) };
    },
  },
  amount: {
    reason: 'amount',
    read: (sent) => (nanosOfUsd(scalarOf(sent)) === undefined ? undefined : sent),
  },
  duration: {
    reason: 'duration',
    read(sent) {
      const ms = finiteNumber(scalarOf(sent));
      return ms === undefined || ms < 0 ? undefined : { doubleValue: ms };
    },
  },
};

/** Clients send numbers as numbers and as decimal digits. */
export function finiteNumber(scalar: unknown): number | undefined {
  if (typeof scalar === 'string' ? scalar.trim() === '' : typeof scalar === 'boolean') {
    return undefined;
  }
  const number = Number(scalar);
  return Number.isFinite(number) ? number : undefined;
}

/** The conventions read the attribute as a field that no event has by that name, such as `model` or `prompt`. */
function isTaken(key: string): boolean {
  return attributeKey(key).rules.some(({ role }) => !KEPT.has(role));
}

const KEPT: ReadonlySet<AttributeRule['role']> = new Set([
  'session',
  'user',
  'message',
  'type',
  'stacktrace',
  'detail',
  'tags',
  'custom_fields',
]);
