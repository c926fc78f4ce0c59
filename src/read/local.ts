import type { IncomingMessage } from 'node:http';
import { duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import { systemClock } from '../component/clock.ts';
import type { RequestHead } from '../component/component.ts';
import { refusalHeaders } from '../http/exchange.ts';
import { compilePath, decodeParams, matchPath, parseTarget } from '../http/routes.ts';
import { Refusal } from '../model/errors.ts';
import type { ProjectReads, Reader } from './project-reads.ts';

const { createServer, get } = process.getBuiltinModule('node:http');

/** The answer to a reading request: JSON of the data, or `{"code","message"}`. */
export type LocalAnswer = {
  readonly status: number;
  readonly body: string;
  readonly trailers: Readonly<Record<string, string | undefined>>;
};

/** Commands read no event streams. */
const JSON_ONLY = new Map([['accept', ['application/json']]]);

/**
 * Runs a reading request of this process, over HTTP on a pair of streams in memory: commands get the bytes that a
 * client of a listener gets. `target` is relative to the project: `/traces?limit=10`.
 */
export async function readLocally(
  reads: ProjectReads,
  { tenant, store }: Pick<Reader, 'tenant' | 'store'>,
  target: string,
): Promise<LocalAnswer> {
  const { path, query } = parseTarget(target) ?? { path: '', query: '' };
  const found = find(reads, path);
  if (found === undefined) return refused(new Refusal('not_found', 'The path does not exist.'));
  const [here, there] = duplexPair();
  const renderRefusal: Reader['renderRefusal'] = (refusal) => ({
    ...{ contentType: 'application/json', headers: refusalHeaders(refusal) },
    ...refused(refusal),
  });
  const server = createServer((request, response) => {
    const head: RequestHead = {
      ...{ transport: 'http' as const, method: 'GET', path, headers: JSON_ONLY },
      ...{ remoteAddress: '', receivedAt: systemClock.now(), declaredBytes: 0 },
    };
    const exchange = {
      ...{ head, params: found.params, query, request, response, expectsContinue: false },
      ...{ stopping: () => false, clock: systemClock, bodyRate: { bytesPerSecond: 0, period: 1 } },
    };
    const reader = { tenant, store, scoreEditors: [], renderRefusal };
    found.route.handle(exchange, reader).catch(() => there.destroy());
  });
  server.emit('connection', there);
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      get({ createConnection: () => here, path: target, host: 'local' }, resolve).once(
        'error',
        reject,
      );
    });
    const body = await text(answer);
    return { status: answer.statusCode ?? 0, body, trailers: answer.trailers };
  } finally {
    here.destroy();
    there.destroy();
  }
}

type Found = {
  readonly route: ProjectReads['routes'][number];
  readonly params: Readonly<Record<string, string>>;
};

function find({ routes }: ProjectReads, path: string): Found | undefined {
  const segments = path.split('/');
  for (const route of routes) {
    if (route.method !== 'GET') continue;
    const encoded = matchPath(compilePath(route.path), path, segments);
    const params = encoded && decodeParams(encoded);
    if (params !== undefined) return { route, params };
  }
  return undefined;
}

function refused({ status, code, message }: Refusal): LocalAnswer {
  return { status, body: JSON.stringify({ code, message }), trailers: {} };
}
