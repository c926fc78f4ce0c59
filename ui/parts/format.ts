/** Values as text. Every function takes what an answer has, null included, and returns `–` for nothing. */
export const NOTHING = '–';

/** `950 µs`, `12 ms`, `1.24 s`, `3 min 5 s`, `2 h 4 min`, `3 d 2 h`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NOTHING;
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms > 0 && ms < 0.9995) return `${Math.round(ms * 1000)} µs`;
  if (ms < 999.5) return `${ms < 9.995 ? trimmed(ms, 2) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 59.995) return `${seconds < 9.995 ? seconds.toFixed(2) : seconds.toFixed(1)} s`;
  return inUnits(Math.round(seconds));
}

function inUnits(seconds: number): string {
  const UNITS = [
    { name: 'd', size: 86_400 },
    { name: 'h', size: 3_600 },
    { name: 'min', size: 60 },
    { name: 's', size: 1 },
  ];
  const first = UNITS.findIndex(({ size }) => seconds >= size);
  const [large, small] = UNITS.slice(first, first + 2);
  if (large === undefined) return '0 s';
  const count = Math.floor(seconds / large.size);
  const rest = small === undefined ? 0 : Math.floor((seconds % large.size) / small.size);
  const head = `${grouped(count)} ${large.name}`;
  return small === undefined || rest === 0 ? head : `${head} ${rest} ${small.name}`;
}

/** `50 s`, `1 min 59 s`, `2 h`: the time until something happens, in whole seconds, at least one. */
export function timeLeft(ms: number): string {
  return inUnits(Math.max(1, Math.ceil(ms / 1000)));
}

const COUNT_UNITS = ['k', 'M', 'G', 'T', 'P', 'E'] as const;

/** `1,234`; from 100,000 on `123k`, `1.2M`, `3.4G`; from 10^21 on `1e21`. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  if (value < 100_000) return grouped(value);
  let scaled = value / 1e3;
  for (const unit of COUNT_UNITS) {
    // 999.6k is 1M.
    if (scaled < 999.5) return `${scaled < 99.95 ? trimmed(scaled, 1) : Math.round(scaled)}${unit}`;
    scaled /= 1e3;
  }
  return value.toExponential(0).replace('+', '');
}

/** `1,234,567` */
export function grouped(value: number): string {
  return value.toLocaleString('en-US');
}

/** US dollars: two places, and as many as two digits need below a cent. */
export function cost(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  if (value === 0) return '$0';
  if (value < 0.000_001) return '<$0.000001';
  if (value >= 0.1) return `$${value.toLocaleString('en-US', TWO_PLACES)}`;
  return `$${Number(value.toPrecision(2)).toLocaleString('en-US', { maximumFractionDigits: 7 })}`;
}

/** An amount that `cost` rounds, in full. */
export function exactCost(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  return `$${value.toLocaleString('en-US', { maximumSignificantDigits: 12 })}`;
}

const TWO_PLACES = { minimumFractionDigits: 2, maximumFractionDigits: 2 };

/** `512 B`, `1.5 KiB`, `4 MiB`. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  if (value < 1024) return `${value} B`;
  const UNITS = ['KiB', 'MiB', 'GiB', 'TiB'];
  let scaled = value / 1024;
  let unit = 0;
  while (scaled >= 1023.95 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${scaled < 99.95 ? trimmed(scaled, 1) : Math.round(scaled)} ${UNITS[unit]}`;
}

/** `12 s ago`, `5 min ago`, `in 3 h`; from a week on the date. `now` is in milliseconds. */
export function relative(time: string | null | undefined, now: number): string {
  const at = Date.parse(time ?? '');
  if (Number.isNaN(at)) return NOTHING;
  const seconds = (now - at) / 1000;
  const past = Math.abs(seconds);
  if (past < 1) return 'now';
  if (past >= 7 * 86_400) return dateOf(new Date(at));
  const text = coarse(past);
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** `2026-11-20`, in UTC as every time of the pages. */
function dateOf(at: Date): string {
  const parts = [at.getUTCFullYear(), at.getUTCMonth() + 1, at.getUTCDate()];
  const [year, month, day] = parts.map(String);
  return `${year?.padStart(4, '0')}-${month?.padStart(2, '0')}-${day?.padStart(2, '0')}`;
}

function coarse(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** A time with its milliseconds, in UTC and in the zone of the browser, which it names. */
export function exact(time: string | null | undefined): string {
  const at = new Date(time ?? '');
  if (Number.isNaN(at.getTime())) return NOTHING;
  const options = { dateStyle: 'medium', timeStyle: 'long' } as const;
  return `${at.toISOString()} (${at.toLocaleString(undefined, options)})`;
}

function trimmed(value: number, places: number): string {
  return String(Number(value.toFixed(places)));
}
