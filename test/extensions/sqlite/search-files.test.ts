import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { config } from '../../../extensions/sqlite/config.ts';
import { openIndex } from '../../../extensions/sqlite/search/search.ts';
import { textOfToken } from '../../../extensions/sqlite/search/tokens.ts';
import { observe } from '../../../src/model/formats.ts';
import { searchDetails } from '../../../src/store/search/status.ts';
import { wordTokens } from '../../../src/store/search/tokens.ts';
import type { Store } from '../../../src/store/store.ts';
import { aTenant, nativeBatch, nativeEvent } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aQuery } from '../../helper/query.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { fill, smallDisk } from '../../helper/small-disk.ts';

const ON = { search: { payloads: '4KiB' } };

async function write(store: Store, trace: string, inputs: string, projectId: string) {
  const events = [nativeEvent({ id: `${trace}-1`, trace_id: trace, inputs, outputs: null })];
  const source = nativeBatch(events, { tenant: aTenant({ projectId }) });
  await store.traces.write({ kind: 'observations', source, observations: observe(source) });
}

async function countOf(store: Store, word: string, projectId: string): Promise<number> {
  const page = await store.traces.listTraces(projectId, { limit: 100, query: aQuery(word) });
  return page.items.length;
}

/** The files of the index that have a text. */
function filesWith(directory: string, text: string): string[] {
  return readdirSync(directory)
    .filter((name) => name.startsWith('search'))
    .filter((name) => readFileSync(join(directory, name)).includes(text));
}

async function opened(t: Test) {
  const place = sqlitePlace(t);
  let store = await place.open(ON);
  t.teardown(() => store.close());
  const [project] = await store.store.projects.list();
  return {
    ...place,
    projectId: project?.id ?? '',
    current: () => store,
    async reopen(config: object = ON) {
      store = await place.open(config);
      return store;
    },
  };
}

t.test('an erasure leaves neither words nor their hashes in the index', async (t) => {
  const { directory, projectId, current } = await opened(t);
  const { store, finish } = current();
  for (let i = 0; i < 50; i++) {
    const isGone = i % 2 === 0;
    await write(
      store,
      isGone ? `gone${i}` : `kept${i}`,
      isGone ? 'vanishing' : 'staying',
      projectId,
    );
    if (i % 10 === 0) await finish();
  }
  await finish();
  // FTS5 leaves out the characters that a token shares with the one before it.
  const tokenOf = (word: string): string =>
    textOfToken([...wordTokens(projectId, [word])][0] ?? 0).slice(4);
  t.not(filesWith(directory, 'vanishing').length, 0);
  t.not(filesWith(directory, tokenOf('vanishing')).length, 0);
  const request = { query: aQuery('id:gone*'), isDryRun: false };
  const { id } = await store.erasures.request(projectId, request, { actor: 'test', address: null });
  await finish();
  t.equal((await store.erasures.get(projectId, id))?.state, 'done');
  t.same(filesWith(directory, 'vanishing'), []);
  t.same(filesWith(directory, tokenOf('vanishing')), []);
  t.not(filesWith(directory, tokenOf('staying')).length, 0);
  t.equal(await countOf(store, 'staying', projectId), 25);
});

t.test('without payload search the index has no file', async (t) => {
  const { directory, projectId, current, reopen } = await opened(t);
  await write(current().store, 'a', 'refund', projectId);
  await current().finish();
  t.match(searchDetails(current().search.progress()), {
    ...{ search_state: 'ready', search_progress: 1 },
  });
  await current().close();
  t.ok(existsSync(join(directory, 'search.db')));
  const off = await reopen({});
  t.match(searchDetails(off.search.progress()), { search_state: 'off', search_progress: null });
  t.same(
    readdirSync(directory).filter((name) => name.startsWith('search')),
    [],
  );
});

t.test('a damaged or missing index is made again', async (t) => {
  const { directory, projectId, logger, current, reopen } = await opened(t);
  for (let i = 0; i < 30; i++) await write(current().store, `t${i}`, `refund ${i}`, projectId);
  await current().finish();
  const file = join(directory, 'search.db');
  for (const damage of ['garbage', 'middle', 'missing', 'walk']) {
    await current().close();
    const root = damage === 'walk' ? rootPageOf(file, 'search') : 0;
    const bytes = readFileSync(file);
    if (damage === 'garbage') writeFileSync(file, 'garbage'.repeat(5000));
    if (damage === 'middle') writeFileSync(file, bytes.fill(0xa5, 16_384, 40_960));
    if (damage === 'missing') writeFileSync(file, '');
    if (damage === 'walk') writeFileSync(file, bytes.fill(0xff, (root - 1) * 8192, root * 8192));
    const { store, finish } = await reopen();
    await finish();
    t.match(await store.search.status(), { state: 'ready', payloadBytes: 4096 }, damage);
    t.equal(await countOf(store, 'refund', projectId), 30, damage);
    const kept = readdirSync(directory).filter((name) => name.includes('.corrupt-'));
    t.same(kept, [], 'no copy of the words stays');
  }
  t.ok(logger);
});

function rootPageOf(file: string, table: string): number {
  const db = new DatabaseSync(file, { readOnly: true });
  const found = db.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(table);
  db.close();
  return Number(found?.rootpage);
}

t.test('an index that fails in use fails searches for text alone, and is made again', async (t) => {
  const { directory, projectId, clock, logger, current, reopen } = await opened(t);
  for (let i = 0; i < 30; i++) await write(current().store, `t${i}`, `refund ${i}`, projectId);
  await current().finish();
  const file = join(directory, 'search.db');
  for (const damage of ['garbage', 'texts', 'missing']) {
    // The log of the index may have its pages.
    await current().close();
    await reopen();
    await current().finish();
    const root = damage === 'texts' ? rootPageOf(file, 'texts') : 0;
    const bytes = readFileSync(file);
    if (damage === 'garbage') writeFileSync(file, 'garbage'.repeat(5000));
    if (damage === 'texts') writeFileSync(file, bytes.fill(0xa5, (root - 1) * 8192, root * 8192));
    if (damage === 'missing') rmSync(file);
    logger.lines.length = 0;
    const { store, health, isDamaged } = current();
    await t.rejects(
      countOf(store, 'refund', projectId),
      { code: 'storage_failed', message: /index of payload text .*search\.db cannot be read: / },
      damage,
    );
    t.equal((await store.traces.listTraces(projectId, { limit: 100 })).items.length, 30, damage);
    t.equal(await countOf(store, 'name:chat', projectId), 30, damage);
    t.match([health(), isDamaged()], [{ ready: true, healthy: true }, false], damage);
    const errors = logger.lines.filter(({ level }) => level === 'error');
    t.match(errors, [{ message: /^Index of payload text cannot be read/, fields: { file } }]);
    await current().close();
    clock.advance(120_000);
    const { finish } = await reopen();
    await finish();
    t.equal(await countOf(current().store, 'refund', projectId), 30, damage);
  }
});

t.test('a full disk discards no index', async (t) => {
  const disk = smallDisk(t, '8m');
  if (disk === undefined) {
    t.comment('no file system of a fixed size can be mounted here');
    return;
  }
  const directory = join(disk, 'data');
  mkdirSync(directory, { mode: 0o700 });
  const store = {
    write: async () => undefined,
    search: async () => ({ stored: 7 }),
    isDamaged: () => false,
  } as unknown as Parameters<typeof openIndex>[0]['database'];
  const settings = config.parse({ directory, min_free_bytes: 0, ...ON });
  const open = () =>
    openIndex({ database: store, clock: fakeClock(), logger: recordingLogger() }, settings);
  await (await open())?.database.close();
  const before = readFileSync(join(directory, 'search.db'));
  fill(join(disk, 'ballast'));
  await t.rejects(open(), { code: 'disk_full' });
  t.ok(readFileSync(join(directory, 'search.db')).equals(before));
  rmSync(join(disk, 'ballast'));
  const index = await open();
  t.match(await index?.database.read('index.walk', []), { stored: 7 });
  await index?.database.close();
});
