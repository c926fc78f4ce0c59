import { z } from 'zod';
import type { Capability } from '../component/capability.ts';
import { mark } from './marks.ts';

/**
 * Pieces that component schemas share. Each parses the written form (`200ms`, `25MiB`) into the value that code
 * uses (milliseconds, bytes). Its default is in the written form. `.default()` takes the parsed form.
 */

/** A listening address, `host:port`. */
export type Endpoint = { readonly host: string; readonly port: number };

/**
 * `127.0.0.1:4318`, `localhost:4318`, `[::1]:4318`, or `:4318` for every interface; undefined for any other form.
 * With port 0 the system chooses the port.
 */
export function parseEndpoint(text: string): Endpoint | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^\s:/[\]]*)):(\d{1,5})$/.exec(text);
  if (match === null) return undefined;
  const port = Number(match[3]);
  if (port > 65_535) return undefined;
  return { host: match[1] ?? (match[2] || '::'), port };
}

/**
 * `127.0.0.1:4318+10` as `127.0.0.1:4328`; any other text unchanged. An offset that is empty, as a variable may be,
 * counts as 0. Port 0 stays, because the system chooses it.
 */
function withPortOffset(text: string): string {
  const match = /^(.*:)(\d{1,5})\+(\d{0,5})$/.exec(text);
  if (match === null) return text;
  const port = Number(match[2]);
  return `${match[1]}${port === 0 ? 0 : port + Number(match[3])}`;
}

const NANOSECONDS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};

/** Milliseconds of a duration in Go's form (`300ms`, `1.5h`, `2h45m`, `0`); undefined for any other form. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  if (!/^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)) {
    total += Number(amount) * (NANOSECONDS[unit ?? ''] ?? 0);
  }
  const milliseconds = total / 1e6;
  return Number.isFinite(milliseconds) ? milliseconds : undefined;
}

const BYTES: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};

/** Bytes of `25MiB`, `1.5 GB`, `1kB` or `4096`; undefined for any other form. */
export function parseByteSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?) ?([A-Za-z]*)$/.exec(text);
  const factor = BYTES[match?.[2]?.toLowerCase() ?? '?'];
  if (match === null || factor === undefined) return undefined;
  const bytes = Math.round(Number(match[1]) * factor);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

const endpointPiece = mark(
  z
    .string()
    .overwrite(withPortOffset)
    .refine((text) => parseEndpoint(text) !== undefined, {
      error: 'expected host:port, such as 127.0.0.1:4318 or [::1]:4318',
    })
    .meta({ examples: ['127.0.0.1:4318'] }),
  { listens: 'http', form: 'host:port' },
);

/** A `host:port`, or `host:port+offset`, to listen on, as a `host:port` that `parseEndpoint` reads. */
export function endpoint(): typeof endpointPiece;
export function endpoint(byDefault: string): z.ZodPrefault<typeof endpointPiece>;
export function endpoint(byDefault?: string) {
  return byDefault === undefined ? endpointPiece : endpointPiece.prefault(byDefault);
}

const durationText = z
  .union([z.string(), z.number()], { error: 'expected a duration, such as 200ms, 30s or 1h30m' })
  .meta({ examples: ['200ms', '1h30m'] });
const durationPiece = mark(durationText, { form: 'duration' }).transform((value, context) => {
  if (value === 0) return 0;
  const milliseconds = typeof value === 'string' ? parseDuration(value) : undefined;
  if (milliseconds !== undefined) return milliseconds;
  context.addIssue({
    code: 'custom',
    message:
      typeof value === 'number'
        ? 'a duration needs a unit, such as 200ms, 30s or 1h30m'
        : 'expected a duration, such as 200ms, 30s or 1h30m',
  });
  return z.NEVER;
});

/** A duration in Go's form (`300ms`, `1.5h`, `2h45m`, `0s`, plain 0), in milliseconds. */
export function duration(): typeof durationPiece;
export function duration(byDefault: string): z.ZodPrefault<typeof durationPiece>;
export function duration(byDefault?: string) {
  return byDefault === undefined ? durationPiece : durationPiece.prefault(byDefault);
}

const byteSizeText = z
  .union([z.string(), z.number()], { error: 'expected a size, such as 25MiB, 10GiB or 4096' })
  .meta({ examples: ['25MiB', 4096] });
const byteSizePiece = mark(byteSizeText, { form: 'size' }).transform((value, context) => {
  const bytes = parseByteSize(String(value));
  if (bytes !== undefined) return bytes;
  context.addIssue({
    code: 'custom',
    message: 'expected a size, such as 25MiB, 10GiB or 4096 (bytes)',
  });
  return z.NEVER;
});

/** A size (`25MiB`, `10GB`, plain bytes), in bytes. */
export function byteSize(): typeof byteSizePiece;
export function byteSize(byDefault: string | number): z.ZodPrefault<typeof byteSizePiece>;
export function byteSize(byDefault?: string | number) {
  return byDefault === undefined ? byteSizePiece : byteSizePiece.prefault(byDefault);
}

const secretPiece = mark(z.string().meta({ writeOnly: true }), { secret: true });

/** A text that is never printed: `print-config` and messages show `[REDACTED]`. */
export function secret() {
  return secretPiece;
}

/** The id of an extension that offers the capability. */
export function ref(capability: Capability<unknown>) {
  const id = z.string({ error: `expected the id of an extension that offers ${capability.name}` });
  return mark(id, { capability, form: 'extension id' });
}
