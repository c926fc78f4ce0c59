import { hash } from 'node:crypto';
import t from 'tap';
import type { Attachment } from '../../../src/model/attachments.ts';
import { ulid } from '../../../src/model/ulid.ts';
import { PIECE_BYTES } from '../../../src/store/attachments.ts';
import type { Store } from '../../../src/store/store.ts';
import { aTenant, nativeBatch, observationBatch } from '../../helper/batches.ts';
import { clientListener } from '../../helper/client-listener.ts';

/** Stores a run with the attachment in its trace. */
async function attach(
  store: Store,
  projectId: string,
  content: Buffer,
  contentType: string,
): Promise<Attachment> {
  const source = nativeBatch(1, { id: ulid(Date.now()), tenant: aTenant({ projectId }) });
  const sha256 = hash('sha256', content, 'buffer');
  await store.attachments.put(projectId, source.id, [{ sha256, contentType, content }]);
  const attachment = {
    ...{ name: 'file', contentType, bytes: content.length, sha256: sha256.toString('hex') },
  };
  const details = { attachments: [attachment] };
  await store.traces.write(
    observationBatch(source, { id: `run ${contentType}`, traceId: 'trace', details }),
  );
  return attachment;
}

async function withStore(t: Parameters<typeof clientListener>[0]) {
  const listener = await clientListener(t);
  const [project] = await listener.store.projects.list();
  const projectId = project?.id ?? '';
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${listener.url}/api/v1${path}`, { headers });
  return { ...listener, projectId, get };
}

t.test('serves the bytes of an attachment as a download that no browser runs', async (t) => {
  const { store, projectId, get, call } = await withStore(t);
  const content = Buffer.alloc(2 * PIECE_BYTES + 7, 'piece ');
  const { sha256, bytes } = await attach(store, projectId, content, 'image/png');
  const url = `/api/v1/attachments/${sha256}`;
  const { json } = await call('GET', '/api/v1/observations/run%20image%2Fpng');
  t.match(json, {
    attachments: [{ name: 'file', mime_type: 'image/png', bytes, sha256, url }],
  });
  const answer = await get(`/attachments/${sha256}`);
  t.equal(answer.status, 200);
  t.ok(Buffer.from(await answer.arrayBuffer()).equals(content));
  t.match(Object.fromEntries(answer.headers), {
    ...{ 'content-type': 'image/png', 'content-length': `${bytes}`, etag: `"${sha256}"` },
    ...{ 'content-disposition': 'attachment', 'x-content-type-options': 'nosniff' },
    'content-security-policy': "default-src 'none'; sandbox",
    'cache-control': 'private, max-age=86400, immutable',
  });
});

t.test('answers 304 to a client that has the bytes', async (t) => {
  const { store, projectId, get } = await withStore(t);
  const { sha256 } = await attach(store, projectId, Buffer.from('x'), 'text/plain');
  for (const [tags, status] of [
    [`"${sha256}"`, 304],
    [`W/"${sha256}"`, 304],
    [`"other", "${sha256}"`, 304],
    ['*', 304],
    ['"other"', 200],
    [sha256, 200],
  ] as const) {
    const answer = await get(`/attachments/${sha256}`, { 'if-none-match': tags });
    t.equal(answer.status, status, tags);
    t.equal(await answer.text(), status === 304 ? '' : 'x');
    t.equal(answer.headers.get('etag'), `"${sha256}"`);
  }
});

t.test('serves only types without scripts under their own name', async (t) => {
  const { store, projectId, get } = await withStore(t);
  const unknown = 'application/octet-stream';
  for (const [sent, served] of [
    ...(['image/jpeg', 'image/gif', 'image/webp', 'application/pdf'] as const).map((type) => [
      type,
      type,
    ]),
    ...[
      ['audio/mpeg', 'audio/mpeg'],
      ['video/mp4', 'video/mp4'],
      ['text/plain', 'text/plain'],
    ],
    ...['text/html', 'image/svg+xml', 'text/xml', 'application/xhtml+xml', 'text/css'].map(
      (type) => [type, unknown],
    ),
    ...['text/javascript', 'application/json', 'image/x-icon', 'multipart/x-mixed-replace'].map(
      (type) => [type, unknown],
    ),
  ] as [string, string][]) {
    const { sha256 } = await attach(store, projectId, Buffer.from(`<${sent}>`), sent);
    const answer = await get(`/attachments/${sha256}`);
    t.equal(answer.headers.get('content-type'), served, sent);
    t.equal(await answer.text(), `<${sent}>`);
  }
  const { sha256 } = await attach(store, projectId, Buffer.alloc(0), 'text/plain');
  const empty = await get(`/attachments/${sha256}`);
  t.same([empty.status, await empty.text()], [200, '']);
});

t.test('an attachment that no observation of the project refers to is 404', async (t) => {
  const { store, projectId, get } = await withStore(t);
  const content = Buffer.from('waits');
  const sha256 = hash('sha256', content, 'buffer');
  const waiting = [{ sha256, contentType: 'text/plain', content }];
  await store.attachments.put(projectId, ulid(Date.now()), waiting);
  const { id: other } = await store.projects.create('other');
  const foreign = await attach(store, other, Buffer.from('foreign'), 'text/plain');
  for (const name of [
    ...[sha256.toString('hex'), foreign.sha256, 'f'.repeat(64), 'F'.repeat(64)],
    ...['f'.repeat(63), 'x', '..%2Fprojects'],
  ]) {
    const answer = await get(`/attachments/${name}`);
    t.equal(answer.status, 404, name);
  }
  const bad = await get(`/attachments/${foreign.sha256}?x=1`);
  t.equal(bad.status, 400);
});
