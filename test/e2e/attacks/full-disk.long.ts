import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { fill, smallDisk } from '../../helper/small-disk.ts';
import { eventually, json, list, record, send } from '../client.ts';
import { type Daemon, startDaemon, type Tree, total } from '../daemon.ts';
import { compare, type Entry, startLoad } from '../journal.ts';
import { storedOnce } from '../kill.ts';
import { rollupProblems } from '../rollup-recount.ts';
import { treeAt } from '../shipped.ts';

/** The disk of one part is full while clients send: nothing that was acknowledged is lost, and all goes on when there is room again. */

t.setTimeout(300_000);
t.jobs = 1;

const ROOM = { min_free_bytes: '1MiB', reserve_bytes: '2MiB' };

type Place = { readonly daemon: Daemon; readonly disk: string; readonly journal: Entry[] };

/** A daemon with one part on a small disk; undefined if none can be mounted. */
async function start(
  t: Test,
  edit: (config: Tree, disk: string) => void,
): Promise<Place | undefined> {
  const disk = smallDisk(t, '48m');
  if (disk === undefined) {
    t.comment('no file system of a fixed size can be mounted here');
    return undefined;
  }
  const daemon = await startDaemon(t, { edit: (config) => edit(config, disk) });
  return { daemon, disk, journal: [] };
}

function acknowledged({ journal }: Place): number {
  return journal.filter(({ state }) => state === 'acknowledged').length;
}

function answered({ journal }: Place, status: number): number {
  return journal.filter((entry) => entry.status === status).length;
}

/** Runs work while clients send. */
async function underLoad(place: Place, work: () => Promise<void>): Promise<void> {
  const { daemon, journal } = place;
  const load = startLoad(() => daemon, journal, { clients: 4, open: [503], restMs: () => 20 });
  try {
    await work();
  } finally {
    await load.stop();
  }
}

const more = (place: Place, count: number, by: (place: Place) => number): Promise<number> => {
  const before = by(place);
  const counted = async () => by(place);
  return eventually(counted, (now) => now >= before + count, `${count} more answers`, 30_000);
};

async function componentOf({ daemon }: Place, id: string): Promise<Record<string, unknown>> {
  const report = json(await send(daemon.health, { path: '/readyz?verbose' }));
  const all = list(record(report).components).map(record);
  return all.find((each) => each.id === id) ?? {};
}

async function drained({ daemon }: Place): Promise<void> {
  const samples = () => daemon.metrics();
  await eventually(
    samples,
    (found) => total(found, 'tracectl_queue_entries') === 0,
    'an empty queue',
    90_000,
  );
  t.equal(total(await samples(), 'tracectl_queue_dead_letters'), 0, 'no dead letter');
}

/** Everything that was acknowledged is stored once and counted once, and nothing else. */
async function isWhole(t: Test, place: Place, data: string): Promise<void> {
  const { daemon, journal } = place;
  await drained(place);
  t.same((await compare(() => daemon, journal)).problems, []);
  const verified = await daemon.cli('usage', 'verify');
  t.equal(verified.code, 0, verified.stdout + verified.stderr);
  await daemon.end('SIGTERM');
  t.same(storedOnce(data, journal), []);
  t.same(rollupProblems(data), []);
}

/** Other programs have filled the room of the reserve too, so SQLite may find none for its log. */
async function startOnFullDisk(daemon: Daemon): Promise<void> {
  await daemon.start().catch((error: unknown) => {
    if (!/no space is left on the disk/.test(String(error))) throw error;
  });
}

function isAlive({ health }: Daemon): Promise<boolean> {
  return send(health, { path: '/livez' }).then(
    ({ status }) => status === 200,
    () => false,
  );
}

t.test('the disk of the store is full, also at a kill and at the next start', async (t) => {
  const place = await start(t, (config, disk) => {
    const directory = join(disk, 'data');
    Object.assign(treeAt(config, 'extensions', 'sqlite'), { directory, ...ROOM });
  });
  if (place === undefined) return;
  const { daemon, disk } = place;
  const ballast = join(disk, 'ballast');
  for (let round = 0; round < 3; round++) {
    await underLoad(place, async () => {
      await more(place, 20, acknowledged);
      fill(ballast);
      await more(place, 20, (each) => answered(each, 503));
    });
    const message = 'The disk has too little free space.';
    t.match(await componentOf(place, 'sqlite'), { ready: false, message });
    t.equal((await daemon.call({ path: '/api/v1/traces' })).status, 200, 'it can be read');
    await daemon.end('SIGKILL');
    const started = startOnFullDisk(daemon);
    await eventually(
      async () => !daemon.running() || (await isAlive(daemon)),
      (isOver) => isOver,
      'the end of a start on a full disk',
      30_000,
    );
    rmSync(ballast);
    await started;
    if (!daemon.running()) await daemon.start();
  }
  await underLoad(place, async () => {
    await more(place, 20, acknowledged);
  });
  await isWhole(t, place, join(disk, 'data'));
});

t.test('the disk of the queue is full, beside a store that has room', async (t) => {
  const place = await start(t, (config, disk) => {
    const extensions = treeAt(config, 'extensions');
    extensions.file_storage = { directory: join(disk, 'queue'), ...ROOM };
    (treeAt(config, 'service').extensions as string[]).push('file_storage');
    treeAt(config, 'connectors').disk_queue = { storage: 'file_storage' };
  });
  if (place === undefined) return;
  const { daemon, disk } = place;
  const ballast = join(disk, 'ballast');
  await underLoad(place, async () => {
    await more(place, 20, acknowledged);
    fill(ballast);
    await more(place, 20, (each) => answered(each, 503));
    t.match(await componentOf(place, 'file_storage'), { ready: false });
    t.not((await componentOf(place, 'sqlite')).ready, false, 'the store has room');
    rmSync(ballast);
    await more(place, 20, acknowledged);
  });
  await isWhole(t, place, join(daemon.directory, 'data'));
});

t.test(
  'the disk of an exported file is full: the store goes on, and no line is torn',
  async (t) => {
    const place = await start(t, (config, disk) => {
      treeAt(config, 'exporters').file = { path: join(disk, 'out.jsonl') };
      (treeAt(config, 'service', 'pipelines', 'traces/store').exporters as string[]).push('file');
    });
    if (place === undefined) return;
    const { daemon, disk } = place;
    const ballast = join(disk, 'ballast');
    await underLoad(place, async () => {
      await more(place, 20, acknowledged);
      fill(ballast);
      const full = /disk_full: No room to write/;
      await eventually(
        async () => daemon.stderr(),
        (log) => full.test(log),
        'a line of it',
        30_000,
      );
      await more(place, 50, acknowledged);
      t.equal((await send(daemon.health, { path: '/readyz' })).status, 200);
      rmSync(ballast);
    });
    await drained(place);
    const lines = linesOf(disk);
    const ids = new Set(lines.map((line) => String(record(JSON.parse(line)).id)));
    const items = place.journal.flatMap((each) =>
      each.state === 'acknowledged' ? each.items : [],
    );
    t.same(items.filter(({ id }) => !ids.has(id)).slice(0, 5), [], 'every item has a line');
    await isWhole(t, place, join(daemon.directory, 'data'));
  },
);

function linesOf(directory: string): string[] {
  const names = readdirSync(directory).filter((name) => name.startsWith('out'));
  const text = names.map((name) => readFileSync(join(directory, name), 'utf8')).join('');
  return text.split('\n').filter((line) => line !== '');
}
