import { ADMIN_API } from '../control/admin-api.ts';
import type { Service } from '../engine/service.ts';
import type { Shown } from '../supervisor/messages.ts';
import { BOOTSTRAP } from '../tenancy/bootstrap.ts';

const NATIVE = 'POST /api/v1/observations/batch';

/** What a start prints: where it listens, and on the first one the key and something to try. */
export function welcome(
  { endpoints, managed, first }: Shown,
  metrics: string | undefined,
  version: string,
  workers = 1,
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
    // The token itself is for those who may read its file.
    lines.push(`  ${url}  (management API; ${token})`);
  }
  const url = endpoints.find(({ routes }) => routes.includes(NATIVE))?.url;
  if (first === undefined) {
    lines.push('', 'Keys: tracectl keys list, create or revoke, with the same --config.');
  } else {
    const { project, token } = first;
    lines.push(
      '',
      `First start: here are a project, ${project.name} (${project.id}), and a key, shown this once:`,
      '',
      `  ${token}`,
      ...(url === undefined ? [] : firstSteps(reachable(url), token)),
    );
  }
  return `${lines.join('\n')}\n`;
}

/** What is to be printed of a service that runs. */
export function shownOf(service: Pick<Service, 'endpoints' | 'offers'>): Shown {
  return {
    endpoints: service.endpoints(),
    managed: service
      .offers(ADMIN_API)
      .flatMap(({ offer: { url, tokenFile } }) => (url === undefined ? [] : [{ url, tokenFile }])),
    first: service.offers(BOOTSTRAP).find(({ offer }) => offer.first !== undefined)?.offer.first,
  };
}

/** A listener on every interface is reached on this one. */
function reachable(url: string): string {
  return url.replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1');
}

function firstSteps(url: string, token: string): string[] {
  const event = {
    id: 'hello-1',
    trace_id: 'hello',
    operation: 'finish',
    kind: 'llm',
    status: 'success',
    name: 'first call',
    inputs: { prompt: 'Hi' },
    outputs: { text: 'Hello!' },
  };
  const body = JSON.stringify({ events: [event] });
  return [
    '',
    'Send a first event:',
    '',
    `  curl -s ${url}/api/v1/observations/batch -H 'x-api-key: ${token}' -H 'content-type: application/json' -d '${body}'`,
    '',
    'Read it back:',
    '',
    `  curl -s '${url}/api/v1/traces/hello?payloads=true' -H 'x-api-key: ${token}'`,
  ];
}
