import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from './errors.ts';

/** The built files of the web UI, in memory: they are few and small, and a lookup by name leaves no path to traverse. */
export type Pages = {
  readonly index: PageFile | undefined;
  /** By the name below `/assets/`. */
  readonly assets: ReadonlyMap<string, PageFile>;
};

type PageFile = {
  readonly type: string;
  /** By content encoding; the plain file is `identity`. */
  readonly bodies: ReadonlyMap<string, Buffer>;
};

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
/** Beside each file, as ui/vite.config.ts writes them; the first that the client accepts is sent. */
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const;

/** The paths that answer the index; the script of the page shows the view. */
const PAGE_PATHS = [
  ...['/', '/start', '/traces', '/traces/:id', '/sessions', '/sessions/:id'],
  ...['/users', '/users/:id', '/dashboard', '/rejected', '/pipelines'],
  ...['/settings', '/settings/:page'],
];

/** Scripts, styles and requests only of this origin, nothing inline, and no frames. */
const POLICY = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:"],
  ...["font-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ');
const HEADERS = {
  'content-security-policy': POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;
/** The names of assets have a hash of their content. */
const IMMUTABLE = 'public, max-age=31536000, immutable';
const NOT_BUILT = 'The web UI is not built. Run: npm run build:ui, and restart tracectl.\n';

/** Where the build puts the files: the same directory from the sources and from the build of the daemon. */
export function builtPages(): string {
  const isSource = import.meta.url.endsWith('.ts');
  return fileURLToPath(new URL(isSource ? '../../dist/ui' : '../../ui', import.meta.url));
}

/** Reads the files of a directory once. A missing directory gives no files. */
export async function readPages(directory: string): Promise<Pages> {
  const assets = new Map<string, PageFile>();
  for (const name of await namesIn(join(directory, 'assets'))) {
    const file = await readPage(join(directory, 'assets', name));
    if (file !== undefined) assets.set(name, file);
  }
  return { index: await readPage(join(directory, 'index.html')), assets };
}

async function namesIn(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Undefined for a file that is missing, or of a type that no page uses. */
async function readPage(path: string): Promise<PageFile | undefined> {
  const type = TYPES[extname(path)];
  const plain = type === undefined ? undefined : await readIfThere(path);
  if (type === undefined || plain === undefined) return undefined;
  const bodies = new Map<string, Buffer>();
  for (const [encoding, suffix] of ENCODINGS) {
    const body = await readIfThere(path + suffix);
    if (body !== undefined) bodies.set(encoding, body);
  }
  return { type, bodies: bodies.set('identity', plain) };
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A path of a page for an id, whatever the id is. */
const PAGE_OF_ID = /^\/(?:traces|sessions|users)\/[^/?]+(?:\?|$)/;

/**
 * Sends the page if the path is one for an id that no route takes: it has a broken escape, or is too long. The script of the page says so.
 * Returns false for other paths.
 */
export function sendUnknownPage(
  { index }: Pages,
  request: FastifyRequest,
  reply: FastifyReply,
): boolean {
  if (index === undefined || request.method !== 'GET' || !PAGE_OF_ID.test(request.url)) {
    return false;
  }
  reply.code(404).headers(HEADERS).header('cache-control', 'no-store');
  send(index, request, reply);
  return true;
}

/** Serves the pages without a credential: they hold no data, and sign in themselves. */
export function servePages(app: FastifyInstance, { index, assets }: Pages): void {
  for (const path of PAGE_PATHS) {
    app.get(path, async (request, reply) => {
      reply.headers(HEADERS).header('cache-control', 'no-store');
      if (index !== undefined) return send(index, request, reply);
      return reply.code(503).type('text/plain; charset=utf-8').send(NOT_BUILT);
    });
  }
  app.get<{ Params: { name: string } }>('/assets/:name', async (request, reply) => {
    const file = assets.get(request.params.name);
    if (file === undefined) throw new ApiError('not_found', 'The file does not exist.');
    reply.headers(HEADERS).header('cache-control', IMMUTABLE);
    return send(file, request, reply);
  });
}

function send(
  { type, bodies }: PageFile,
  { headers }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const accepted = acceptedEncodings(headers['accept-encoding'] ?? '');
  reply.type(type).header('vary', 'accept-encoding');
  for (const [encoding, body] of bodies) {
    if (encoding === 'identity') return reply.send(body);
    if (accepted.has(encoding)) return reply.header('content-encoding', encoding).send(body);
  }
  return reply;
}

function acceptedEncodings(header: string): ReadonlySet<string> {
  const named = header.toLowerCase().split(',');
  const accepted = named.filter((each) => !/;\s*q=0(?:\.0*)?\s*$/.test(each));
  return new Set(accepted.map((each) => each.split(';', 1)[0]?.trim() ?? ''));
}
