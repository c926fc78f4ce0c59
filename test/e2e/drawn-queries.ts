import {
  type Draw,
  ENVIRONMENTS,
  HOUR_MS,
  iso,
  KINDS,
  MODELS,
  NAMES,
  PROVIDERS,
  RELEASES,
  SESSIONS,
  STATUSES,
  TAGS,
  TOOLS,
  USERS,
} from './drawn-values.ts';

const TEXTS: readonly (readonly [field: string, values: readonly string[]])[] = [
  ['name', NAMES],
  ['name', NAMES],
  ['session', SESSIONS],
  ['user', USERS],
  ['environment', ENVIRONMENTS],
  ['release', RELEASES],
  ['tag', TAGS],
  ['span', NAMES],
  ['model', MODELS],
  ['model', MODELS],
  ['provider', PROVIDERS],
  ['error', ['TimeoutError', 'KeyError', 'ValueError', 'E2']],
  ['tool', TOOLS],
  ['prompt', NAMES],
  ['custom.env', ['x', 'y', 'X', '1', 'true', 'a b', 'q'.repeat(300)]],
  ['custom.Env', ['x', 'y', '1']],
  ['custom."k 1"', ['x', 'y', 'true']],
  ['custom."é"', ['x', 'y', 'a b']],
];

const NUMBERS: readonly (readonly [field: string, values: readonly string[]])[] = [
  ['latency', ['0ms', '1ms', '500ms', '2s', '10s', '1m', '1h']],
  ['ttft', ['0ms', '1s']],
  ['cost', ['0', '0.000001', '0.001', '0.01', '0.5', '100']],
  ['tokens', ['0', '1', '10', '1k', '5k', '1m']],
  ['input_tokens', ['0', '1', '10', '1k', '1m']],
  ['output_tokens', ['0', '1', '10', '1k']],
  ['observations', ['1', '2', '3', '5']],
  ['score.q', ['0', '0.5', '1']],
];

const WORDS = [
  ...['chat', 'CHAT', 'plan', 'trip', 'été', 'a"b', '%', '_', '\\', '検', '検索', 'x*y', 'gpt'],
  ...['boom', 'no key', 'team', '😀'],
];
/** Payloads have them, and no other text. */
const PAYLOAD_WORDS = [
  ...['refund', 'REFUND please', 'hello world', 'world hello', 'two', 'question', 'xxxx', 'role'],
];

const PRESENT = [
  ...['error', 'session', 'user', 'cost', 'tokens', 'model', 'latency', 'custom', 'custom.env'],
  ...['tag', 'tool', 'start', 'name', 'environment', 'ttft', 'score', 'score.q'],
];

/** Up to three terms. `ids` are of stored traces, and the drawn starts are before `now`. */
export function drawnQuery(draw: Draw, ids: readonly string[], now: number): string {
  const starts = [
    ...['now-1h', 'now-3h', 'now-1d'],
    ...[`${iso(now - 2 * HOUR_MS).slice(0, 16)}Z`, iso(now - 30 * HOUR_MS).slice(0, 10)],
  ];
  const makers = [
    ...TEXTS.map(
      ([field, values]) =>
        () =>
          `${field}:${drawnTexts(draw, values)}`,
    ),
    ...NUMBERS.map(
      ([field, values]) =>
        () =>
          `${field}:${drawnRange(draw, values)}`,
    ),
    () => `start:${drawnRange(draw, starts)}`,
    () => `status:${draw.one(STATUSES)}`,
    () => `state:${draw.one(['running', 'finished', 'error', 'interrupted'])}`,
    () => `source:${draw.one(['native', 'runs', 'otlp'])}`,
    () => `kind:${draw.one(KINDS)}`,
    () => `score.v:${draw.one(['good', 'bad', 'true'])}`,
    () => `id:${quoted(draw.one(ids))}`,
    ...draw.times(3, () => () => `has:${draw.one(PRESENT)}`),
    ...draw.times(2, () => () => quoted(draw.one(WORDS))),
    ...draw.times(4, () => () => quoted(draw.one(PAYLOAD_WORDS))),
  ];
  const term = () => `${draw.chance(20) ? '-' : ''}${draw.one(makers)()}`;
  return draw.times(draw.below(4), term).join(' ');
}

const quoted = (text: string): string =>
  `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;

/** A value, the beginning of one, or two such texts. */
function drawnTexts(draw: Draw, values: readonly string[]): string {
  const one = () => {
    const value = draw.one(values) || 'x';
    return draw.chance(20) ? `${quoted(value.slice(0, 1 + draw.below(3)))}*` : quoted(value);
  };
  return draw.chance(25) ? `${one()},${one()}` : one();
}

function drawnRange(draw: Draw, values: readonly string[]): string {
  const bound = draw.one(values);
  const sign = draw.maybe(['>', '>=', '<', '<=', '']);
  return sign === '' ? `${values[0]}..${bound}` : `${sign}${bound}`;
}
