import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import type { Test } from 'tap';
import { type Generator, generate } from '../fixtures/bad-inputs/generators.ts';
import { type Answer, eventually, json, record, send, sendRaw } from './client.ts';
import { type Daemon, type DaemonOptions, prepareDaemon, startDaemon, total } from './daemon.ts';
import { hold } from './expectations.ts';

type Case = {
  readonly id: string;
  readonly area: string;
  readonly description: string;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly bodyText?: string;
    readonly bodyBase64?: string;
    readonly generator?: Generator;
  };
  readonly expect: {
    readonly status: readonly number[];
    readonly holds: readonly string[];
    readonly effects: { readonly acceptedDelta: number; readonly rejected: number } | null;
  };
};

const MIB = 1024 * 1024;
const LARGE = MIB;
const ACCEPTED = 'tracectl_receiver_accepted_items_total';
const STORED = 'tracectl_exporter_sent_items_total';
const SLOW_HEADERS = 'http-036';
/** The cases and the control send some bytes more than once, and expect that each request counts. */
const COUNTS_EACH = { service: { repeated_requests: { enabled: false } } };
const only = process.env.BAD_INPUTS_ONLY;

const { cases } = JSON.parse(
  readFileSync(new URL('../fixtures/bad-inputs/cases.json', import.meta.url), 'utf8'),
) as { cases: Case[] };

export type Shape = {
  readonly daemon?: DaemonOptions;
  /** The exporter that stores observations. */
  readonly exporter: string;
  /** Selects the cases; all cases if undefined. */
  readonly isWanted?: (one: Case) => boolean;
};

/** Sends every case of cases.json, and checks its answer, the stored data, and that the daemon keeps serving. */
export async function holdWhateverArrives(t: Test, shape: Shape): Promise<void> {
  const wanted = cases.filter((one) => isWanted(one, shape));
  const { daemon, variables, projectId } = await warmDaemon(t, shape.daemon);
  const exhausted = await exhaustedDaemons(t, wanted, variables);
  const control = new Control(daemon);
  const pid = daemon.pid();
  const baseline = daemon.rss();

  const slow = wanted.find(({ id }) => id === SLOW_HEADERS);
  const slowAnswers = slow === undefined ? [] : slowClients(daemon, slow, variables);

  for (const one of wanted) {
    if (one.id === SLOW_HEADERS) continue;
    await t.test(`${one.id}: ${one.description}`, async (t) => {
      const target = (await exhausted.of(one)) ?? daemon;
      const before = total(await target.metrics(), ACCEPTED);
      const fill = (text: string) => substitute(text, variables);
      const sent = bodyOf(one, fill);
      const during = (sent?.length ?? 0) >= LARGE ? control.beside() : undefined;
      const { answer, closed } = await ask(target, one, sent, fill);
      const controls = (await during?.()) ?? 0;

      const shown = answer.body.toString('utf8').slice(0, 400);
      t.ok(one.expect.status.includes(answer.status), `status ${answer.status} ${shown}`);
      const token = one.request.headers.authorization ?? one.request.headers['x-api-key'];
      for (const word of one.expect.holds) {
        const seen = {
          daemon: target,
          projectId,
          answer,
          sent,
          closed,
          token: token && fill(token),
        };
        const problem = await hold(word, seen).then(
          () => undefined,
          (error: unknown) => `${String(error)}; ${answer.status} ${shown}`,
        );
        t.equal(problem, undefined, word);
      }
      if (answer.status >= 400) noSecret(t, shown, variables);

      const after = total(await target.metrics(), ACCEPTED);
      if (one.expect.effects !== null) {
        t.equal(after - before - controls, one.expect.effects.acceptedDelta, 'accepted items');
      }
      await control.once();
      t.equal(daemon.pid(), pid);
      t.ok(daemon.running(), 'the process lives');
    });
  }

  if (slow !== undefined)
    await t.test('answers 408 to clients that trickle their headers', async (t) => {
      for (const answer of await Promise.all(slowAnswers)) {
        t.equal(answer.status, 408);
        t.ok(answer.closed, 'the connection is closed');
      }
    });

  const { exporter } = shape;
  await t.test('stores every accepted item, and counts it once', async (t) => {
    const samples = await eventually(
      () => daemon.metrics(),
      (now) => total(now, STORED, { exporter }) >= total(now, ACCEPTED),
      'the last stored item',
    );
    t.equal(total(samples, STORED, { exporter }), total(samples, ACCEPTED));
    t.equal(total(samples, 'tracectl_dead_letter_items'), 0, 'nothing is set aside');
  });

  await t.test('releases its memory', async (t) => {
    const rss = await eventually(
      async () => daemon.rss(),
      (now) => now < baseline + 128 * MIB,
      'the memory from before',
      20_000,
    );
    t.ok(rss > 0);
    t.equal(control.failures.join('\n'), '', 'a control event was 202 within a second');
  });

  await t.test('no log line and no metric contains a key or a secret', async (t) => {
    const metrics = (await send(daemon.metricsBase, { path: '/metrics' })).body.toString('utf8');
    noSecret(t, daemon.stdout() + daemon.stderr() + metrics, variables);
  });
}

function isWanted(one: Case, shape: Shape): boolean {
  if (only !== undefined && one.id !== SLOW_HEADERS && !new RegExp(only).test(one.id)) return false;
  return shape.isWanted?.(one) ?? true;
}

/** Daemons with tiny limits, by the name of the key in the cases. */
async function exhaustedDaemons(
  t: Test,
  wanted: readonly Case[],
  variables: Map<string, string>,
): Promise<{ of(one: Case): Promise<Daemon | undefined> }> {
  const limits = {
    KEY_MONTHLY_EXHAUSTED: { monthly_events: 1 },
    KEY_HOURLY_EXHAUSTED: { hourly_bytes: 1 },
  };
  const daemons = new Map<string, Daemon>();
  for (const [name, quotas] of Object.entries(limits)) {
    if (!wanted.some(({ request }) => JSON.stringify(request).includes(name))) continue;
    const daemon = await startDaemon(t, { config: { ...COUNTS_EACH, processors: { quotas } } });
    daemons.set(name, daemon);
    variables.set(name, daemon.key);
  }
  return {
    async of({ request }) {
      const text = JSON.stringify(request);
      const name = [...daemons.keys()].find((known) => text.includes(`\${${known}}`));
      const daemon = daemons.get(name ?? '');
      // Fills the limit right before the request, because the hour may end at any time.
      if (daemon !== undefined) await useUp(daemon);
      return daemon;
    },
  };
}

async function useUp(daemon: Daemon): Promise<void> {
  const body =
    '{"events":[{"id":"x","trace_id":"x","operation":"start","kind":"span","status":"ok","inputs":1}]}';
  const headers = { 'content-type': 'application/json' };
  const call = { method: 'POST', path: '/api/v1/observations/batch', headers, body };
  for (let i = 0; i < 3; i++) if ((await daemon.call(call)).status !== 202) return;
  throw new Error('the limit is never reached');
}

/** Starts the daemon twice, so that the printed first key is not in the searched output. */
async function warmDaemon(
  t: Test,
  options?: DaemonOptions,
): Promise<{
  daemon: Daemon;
  variables: Map<string, string>;
  projectId: string;
}> {
  const config = { ...COUNTS_EACH, ...options?.config };
  const daemon = await startDaemon(t, { ...options, config });
  const key = daemon.key;
  await daemon.end('SIGTERM');
  await daemon.start();
  const { project } = record(json(await daemon.call({ path: '/api/v1/me' })));
  const projectId = String(record(project).id);
  const other = await daemon.createKey();
  const reader = await daemon.createKey('--permission', 'traces:read');
  const revoked = await daemon.createKey();
  await daemon.cli('keys', 'revoke', revoked.id);
  const deleted = await keyOfDeletedProject(daemon);
  const flipped = key.endsWith('a') ? 'b' : 'a';
  const variables = new Map([
    ['KEY', key],
    ['KEY_B', other.token],
    ['KEY_NO_INGEST', reader.token],
    ['KEY_REVOKED', revoked.token],
    ['KEY_DELETED_PROJECT', deleted],
    ['KEY_UNKNOWN', await keyOfAnotherDaemon(t)],
    ['KEY_BADCRC', key.slice(0, -1) + flipped],
    ['KEY_UPPER', key.toUpperCase()],
    ['KEY_SHA256_HEX', createHash('sha256').update(key).digest('hex')],
    ['PROJECT_A', projectId],
    ['PROJECT_B', 'proj_00000000000000000000000000'],
  ]);
  for (let i = 0; i < 50; i++) await new Control(daemon).once();
  return { daemon, variables, projectId };
}

async function keyOfDeletedProject(daemon: Daemon): Promise<string> {
  const created = await daemon.cli('projects', 'create', 'short-lived', '--json');
  const id = String(record(JSON.parse(created.stdout)).id);
  const { token } = await daemon.createKey('--project', id);
  const removed = await daemon.cli('projects', 'delete', id, '--yes');
  if (removed.code !== 0) throw new Error(`projects delete: ${removed.stderr}`);
  return token;
}

/** A well-formed key with a valid checksum that this daemon has not issued. */
async function keyOfAnotherDaemon(t: Test): Promise<string> {
  const other = await prepareDaemon();
  t.teardown(() => other.remove());
  await other.start();
  await other.end('SIGTERM');
  return other.key;
}

async function ask(
  daemon: Daemon,
  { request }: Case,
  sent: Buffer | undefined,
  fill: (text: string) => string,
): Promise<{ answer: Answer; closed: boolean }> {
  if (request.generator?.name === 'rawHttp') {
    const started = performance.now();
    const raw = await sendRaw(daemon.base, rawBytes(request.generator, fill), 5_000, true);
    const ms = performance.now() - started;
    const body = Buffer.from(raw.text);
    return { answer: { status: raw.status ?? 0, headers: {}, body, ms }, closed: raw.closed };
  }
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, fill(value)]),
  );
  const call = { method: request.method, path: request.path, headers, body: sent };
  return { answer: await send(daemon.base, call), closed: false };
}

/** Makes the ids of a case unique, so that observations of two cases never merge. */
function bodyOf({ id, request }: Case, fill: (text: string) => string): Buffer | undefined {
  if (request.bodyText !== undefined) {
    const trace = createHash('md5').update(id).digest('hex');
    const body = fill(request.bodyText)
      .replaceAll('"bt-1"', `"bt-${id}"`)
      .replaceAll('"00000000000000000000000000000001"', `"${trace}"`);
    return Buffer.from(body);
  }
  if (request.bodyBase64 !== undefined) return Buffer.from(request.bodyBase64, 'base64');
  if (request.generator === undefined || request.generator.name === 'rawHttp') return undefined;
  return generate(request.generator);
}

function rawBytes(generator: Generator, fill: (text: string) => string): Buffer {
  return Buffer.from(fill(String(generator.args?.text)), 'latin1');
}

function substitute(text: string, variables: ReadonlyMap<string, string>): string {
  return text.replaceAll(/\$\{([A-Z0-9_]+)\}/g, (whole, name: string) => {
    const value = variables.get(name);
    if (value === undefined) throw new Error(`cases.json uses ${whole}, which has no value`);
    return value;
  });
}

function noSecret(t: Test, text: string, variables: ReadonlyMap<string, string>): void {
  for (const name of ['KEY', 'KEY_B', 'KEY_NO_INGEST', 'KEY_REVOKED']) {
    t.notOk(text.includes(variables.get(name) ?? 'missing'), `${name} is not in it`);
  }
  t.notOk(/S3CR3T|SECRETVAL/.test(text), 'no secret value is in it');
}

/** Opens many connections, each of which sends a part of its headers. */
function slowClients(daemon: Daemon, one: Case, variables: ReadonlyMap<string, string>) {
  const { generator } = one.request;
  if (generator === undefined) throw new Error(`${one.id} has no generator`);
  const bytes = rawBytes(generator, (text) => substitute(text, variables));
  return Array.from({ length: 100 }, () => sendRaw(daemon.base, bytes, 60_000));
}

/** Another client, whose event must be accepted within a second under every attack. */
class Control {
  readonly failures: string[] = [];
  readonly #daemon: Daemon;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(daemon: Daemon) {
    this.#daemon = daemon;
  }

  async once(): Promise<boolean> {
    const body =
      '{"events":[{"id":"control","trace_id":"control","operation":"start","kind":"span","status":"running"}]}';
    const headers = { 'content-type': 'application/json' };
    const path = '/api/v1/observations/batch';
    const answer = await this.#daemon.call({
      method: 'POST',
      path,
      headers,
      body,
      agent: this.#agent,
    });
    if (answer.status !== 202) this.failures.push(`${answer.status} ${answer.body.toString()}`);
    if (answer.ms > 1000) this.failures.push(`${Math.round(answer.ms)} ms`);
    return answer.status === 202;
  }

  /** Sends events in turn until the returned function is called, which resolves with the accepted count. */
  beside(): () => Promise<number> {
    let stopped = false;
    let accepted = 0;
    const loop = (async () => {
      while (!stopped) {
        if (await this.once()) accepted += 1;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();
    return async () => {
      stopped = true;
      await loop;
      return accepted;
    };
  }
}
