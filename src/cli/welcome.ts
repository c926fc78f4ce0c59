import { ADMIN_API } from '../control/admin-api.ts';
import type { Service } from '../engine/service.ts';
import type { Shown } from '../supervisor/messages.ts';
import { BOOTSTRAP } from '../tenancy/bootstrap.ts';
import { commandForKey, type PlacedKey, projectText } from './first-key.ts';

const NATIVE = 'POST /api/v1/observations/batch';

type WelcomeFacts = {
  /** Of new stores. */
  readonly keys: readonly PlacedKey[];
  /** Signs in to the web UI; undefined if stdout is not a terminal, which would keep it. */
  readonly link: string | undefined;
  /** The address of the metrics page. */
  readonly metrics: string | undefined;
  readonly version: string;
  readonly workers?: number;
};

/** The text that a start prints: the endpoints, a link to the web UI, and on the first start the key and requests to try. */
export function welcome(
  { endpoints, managed, hasStore }: Shown,
  { keys, link, metrics, version, workers = 1 }: WelcomeFacts,
): string {
  const many = workers === 1 ? '' : ` with ${workers} workers`;
  const lines = [`tracectl ${version} is running${many}.`, ''];
  for (const { url, routes } of endpoints) {
    const received = routes.filter((route) => !route.startsWith('GET '));
    lines.push(`  ${url}`, ...received.map((route) => `    ${route}`));
  }
  if (metrics !== undefined)
    lines.push(`  ${metrics.includes('://') ? metrics : `http://${metrics}`}  (metrics)`);
  for (const { url, tokenFile } of managed) {
    const token = tokenFile === undefined ? 'token: as configured' : `token: ${tokenFile}`;
    // Prints the path, not the token: only users who may read the file get the token.
    lines.push(`  ${url}  (web UI and management API; ${token})`);
  }
  if (managed.length > 0) lines.push(...uiLines(link));
  const url = endpoints.find(({ routes }) => routes.includes(NATIVE))?.url;
  for (const key of keys) lines.push('', ...keyLines(key));
  const [key] = keys;
  if (key === undefined && hasStore) {
    lines.push('', 'Manage keys: tracectl keys list|create|revoke, with the same --config.');
  } else if (key !== undefined && key.store === undefined && url !== undefined) {
    // With several stores, the endpoint may take keys of another one.
    lines.push(...firstSteps(reachable(url), key));
  }
  return `${lines.join('\n')}\n`;
}

function keyLines(key: PlacedKey): string[] {
  const start = key.isRecovered ? 'An earlier start' : 'First start:';
  const created = `${start} created the project ${projectText(key)} and`;
  switch (key.place) {
    case 'output':
      return [`${created} this key, which is not shown again:`, '', `  ${key.token}`];
    case 'file':
      return [`${created} a key, in this file that only this user can read:`, '', `  ${key.file}`];
    case 'unsaved':
      return [
        `${created} a key that could not be saved: ${key.reason}.`,
        `Create another one: ${commandForKey(key)}`,
      ];
  }
}

function uiLines(link: string | undefined): string[] {
  if (link === undefined)
    return ['', 'Open the web UI: tracectl ui prints a link, with the same --config.'];
  return [
    '',
    'Open the web UI. This link signs in once, within 10 minutes; tracectl ui prints another one:',
    '',
    `  ${reachable(link)}`,
  ];
}

/** The facts of a running service that the welcome text shows. */
export function shownOf(service: Pick<Service, 'endpoints' | 'offers'>): Shown {
  const stores = service.offers(BOOTSTRAP);
  return {
    endpoints: service.endpoints(),
    managed: service
      .offers(ADMIN_API)
      .flatMap(({ offer: { url, tokenFile } }) => (url === undefined ? [] : [{ url, tokenFile }])),
    firsts: stores.flatMap(({ id, offer }) =>
      offer.first === undefined ? [] : [{ ...offer.first, store: id }],
    ),
    hasStore: stores.length > 0,
  };
}

/** Replaces a wildcard address by the loopback address, which reaches the same listener. */
export function reachable(url: string): string {
  return url.replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1');
}

/** The latency of the first event. */
const LATENCY_MS = 850;

function firstSteps(url: string, placed: PlacedKey): string[] {
  const key = keyInShell(placed);
  const now = Date.now();
  const event = {
    id: 'hello-1',
    trace_id: 'hello',
    operation: 'finish',
    kind: 'llm',
    status: 'success',
    name: 'first call',
    start_time: new Date(now - LATENCY_MS).toISOString(),
    end_time: new Date(now).toISOString(),
    inputs: { prompt: 'Hi' },
    outputs: { text: 'Hello!' },
  };
  const body = JSON.stringify({ events: [event] });
  const header = `"x-api-key: ${key}"`;
  return [
    '',
    'Send a first event:',
    '',
    `  curl -s ${url}/api/v1/observations/batch -H ${header} -H 'content-type: application/json' -d '${body}'`,
    '',
    'Read it back:',
    '',
    `  curl -s '${url}/api/v1/traces/hello?payloads=true&wait=5s' -H ${header}`,
  ];
}

/** The key as a word of a POSIX shell. The value of a file stays out of the printed text. */
function keyInShell(key: PlacedKey): string {
  switch (key.place) {
    case 'output':
      return key.token;
    case 'file':
      return `$(cat '${key.file.replaceAll("'", `'\\''`)}')`;
    case 'unsaved':
      return '<key>';
  }
}
