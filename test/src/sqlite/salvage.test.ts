import {
  chownSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { SQLInputValue } from 'node:sqlite';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { openDatabase } from '../../../src/sqlite/database.ts';
import { salvage } from '../../../src/sqlite/salvage.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

const PAGE = 4096;
const TABLES = `CREATE TABLE keys (id TEXT PRIMARY KEY, hash TEXT) STRICT;
  CREATE TABLE bodies (n INTEGER PRIMARY KEY, body TEXT) STRICT;
  CREATE TABLE branches (id INTEGER PRIMARY KEY, queue TEXT, branch TEXT, UNIQUE (queue, branch)) STRICT;
  CREATE TABLE pairs (batch INTEGER, trace INTEGER, PRIMARY KEY (batch, trace)) STRICT, WITHOUT ROWID;
  CREATE INDEX pairs_by_trace ON pairs (trace)`;

function create(file: string): void {
  const db = new DatabaseSync(file);
  db.exec(`PRAGMA page_size = ${PAGE}; ${TABLES}`);
  db.close();
}

/** A file with 300 keys and 30 bodies of a page each; `spoil` gets the root page of each table and index. */
function damaged(
  t: Test,
  spoil: (content: Buffer, rootOf: (name: string) => number) => void,
): string {
  const file = join(t.testdir({}), 'a.db');
  create(file);
  const db = new DatabaseSync(file);
  db.exec('BEGIN');
  const key = db.prepare('INSERT INTO keys VALUES (?, ?)');
  for (let i = 0; i < 300; i++) key.run(`key-${i}`, 'h'.repeat(40));
  const body = db.prepare('INSERT INTO bodies VALUES (?, ?)');
  for (let i = 0; i < 30; i++) body.run(i, 'b'.repeat(3000));
  const branch = db.prepare('INSERT INTO branches VALUES (?, ?, ?)');
  for (const id of [7, 8, 3]) branch.run(id, 'queue', `branch-${id}`);
  const pair = db.prepare('INSERT INTO pairs VALUES (?, ?)');
  for (let i = 0; i < 300; i++) pair.run(i, 1000 - i);
  db.exec('COMMIT');
  const roots = new Map(
    db
      .prepare('SELECT name, rootpage FROM sqlite_schema')
      .all()
      .map(({ name, rootpage }) => [String(name), Number(rootpage)]),
  );
  db.close();
  const content = readFileSync(file);
  spoil(content, (name) => roots.get(name) ?? 0);
  writeFileSync(file, content);
  return file;
}

function zeroPage(content: Buffer, page: number): void {
  content.fill(0, (page - 1) * PAGE, page * PAGE);
}

function countIn(file: string, table: string): number {
  const db = new DatabaseSync(file, { readOnly: true });
  const count = Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
  db.close();
  return count;
}

t.test('damage to an index loses no row', async (t) => {
  const file = damaged(t, (content, rootOf) =>
    zeroPage(content, rootOf('sqlite_autoindex_keys_1')),
  );
  const { tables } = salvage({ file, create, essential: ['keys'] });
  t.match(tables, [
    { name: 'keys', rows: 300, isComplete: true },
    { name: 'bodies', rows: 30, isComplete: true },
  ]);
  t.equal(countIn(file, 'keys'), 300);
});

t.test('the new file and its log are for the owner of the damaged one alone', async (t) => {
  const isRoot = process.getuid?.() === 0;
  const umask = process.umask(0o022);
  t.teardown(() => process.umask(umask));
  const file = damaged(t, (content, rootOf) => zeroPage(content, rootOf('bodies')));
  if (isRoot) chownSync(file, 12_345, 54_321);
  const { uid, gid } = statSync(file);
  salvage({ file, create, essential: ['keys'] });
  const db = new DatabaseSync(file);
  db.exec("PRAGMA journal_mode = WAL; INSERT INTO keys VALUES ('new', 'h')");
  for (const name of [file, `${file}-wal`, `${file}-shm`]) {
    t.match(statSync(name), { uid, gid, mode: 0o100600 }, name);
  }
  db.close();
});

t.test('a damaged table is copied from an index that has all its columns', async (t) => {
  const file = damaged(t, (content, rootOf) => {
    zeroPage(content, rootOf('branches'));
    zeroPage(content, rootOf('pairs'));
  });
  const { tables } = salvage({ file, create, essential: ['keys'] });
  t.match(tables, [
    { name: 'keys', rows: 300, isComplete: true },
    { name: 'bodies', rows: 30, isComplete: true },
    { name: 'branches', rows: 3, isComplete: true },
    { name: 'pairs', rows: 300, isComplete: true },
  ]);
  const db = new DatabaseSync(file, { readOnly: true });
  t.same(
    db.prepare('SELECT id, queue, branch FROM branches ORDER BY id').all(),
    [3, 7, 8].map((id) => ({ id, queue: 'queue', branch: `branch-${id}` })),
  );
  t.match(
    db.prepare('SELECT min(batch + trace) AS low, max(batch + trace) AS high FROM pairs').get(),
    {
      low: 1000,
      high: 1000,
    },
  );
  db.close();
});

t.test('a damaged table with a damaged index is copied as far as both are readable', async (t) => {
  const file = damaged(t, (content, rootOf) => {
    zeroPage(content, rootOf('branches'));
    zeroPage(content, rootOf('sqlite_autoindex_branches_1'));
  });
  const { tables } = salvage({ file, create, essential: ['keys'] });
  t.match(tables[2], { name: 'branches', rows: 0, isComplete: false });
});

t.test('refuses a file with an incomplete essential table, and leaves it as it is', async (t) => {
  const file = damaged(t, (content, rootOf) => zeroPage(content, rootOf('keys')));
  const before = readFileSync(file);
  t.throws(() => salvage({ file, create, essential: ['keys'] }), {
    name: 'DamagedDataError',
    code: 'damaged_data',
    message: /its keys cannot be read as a whole\. .*"tracectl salvage"/,
  });
  t.ok(readFileSync(file).equals(before));
  t.same(readdirSync(join(file, '..')), ['a.db'], 'nothing is left beside it');
});

t.test('an incomplete other table is copied from both ends', async (t) => {
  const file = damaged(t, (content, rootOf) => {
    // The root of `bodies` is an interior page, whose cells name the pages of the rows.
    const root = (rootOf('bodies') - 1) * PAGE;
    const cell = content.readUInt16BE(root + 12 + 2 * 14);
    zeroPage(content, content.readUInt32BE(root + cell));
  });
  const { kept, tables } = salvage({ file, create, essential: ['keys'] });
  t.match(tables[0], { name: 'keys', rows: 300, isComplete: true });
  t.match(tables[1], { name: 'bodies', rows: 29, isComplete: false });
  t.ok(existsSync(kept), 'the damaged file is kept');
});

for (const cells of [
  [2, 14],
  [2, 9, 14, 20],
  [0, 2, 9],
]) {
  t.test(`the rows between the damaged pages ${cells} of a table are copied`, async (t) => {
    const file = damaged(t, (content, rootOf) => {
      const root = (rootOf('bodies') - 1) * PAGE;
      for (const at of cells) {
        const cell = content.readUInt16BE(root + 12 + 2 * at);
        zeroPage(content, content.readUInt32BE(root + cell));
      }
    });
    const { tables } = salvage({ file, create, essential: ['keys'] });
    const rows = 30 - cells.length;
    t.match(tables[1], { name: 'bodies', rows, isComplete: false });
  });
}

/** Keys of 900 rows in their order, for a table with the columns a and b. */
const KEYS = {
  'two numbers': (i: number) => [1 + Math.floor(i / 300), 1_000_000 + 7 * (i % 300)],
  'a text and a number': (i: number) => [`project-${Math.floor(i / 300)}`, 489_000 + (i % 300)],
  'two texts': (i: number) => [`é-${1000 + Math.floor(i / 3)}`, `${1000 + i}`],
  'bytes and a number': (i: number) => [Buffer.from([i >> 8, i & 255, 255 - (i & 255)]), -i],
  'a text and any type': (i: number) => {
    const n = i % 450;
    return [`project-${i < 450 ? 0 : 1}`, n < 225 ? `${1000 + n}` : Buffer.from([n - 225, n & 1])];
  },
} satisfies Record<string, (i: number) => SQLInputValue[]>;

for (const [name, keyOf] of Object.entries(KEYS)) {
  const types = keyOf(0).map((part, i) => {
    if (i === 1 && name.endsWith('any type')) return 'ANY';
    return typeof part === 'number' ? 'INTEGER' : typeof part === 'string' ? 'TEXT' : 'BLOB';
  });
  const table = `CREATE TABLE sums (a ${types[0]}, b ${types[1]}, note TEXT, PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID`;
  for (const cells of [
    [2, 14],
    [1, 9, 11, 20],
    [0, 8, 18],
    [8, 16],
    [5, 23],
  ]) {
    t.test(`a table with the key ${name} loses the damaged pages ${cells} alone`, async (t) => {
      const file = join(t.testdir({}), 'a.db');
      const createSums = (path: string) => {
        const db = new DatabaseSync(path);
        db.exec(`PRAGMA page_size = ${PAGE}; ${table}`);
        db.close();
      };
      createSums(file);
      const db = new DatabaseSync(file);
      const insert = db.prepare('INSERT INTO sums VALUES (?, ?, ?)');
      db.exec('BEGIN');
      for (let i = 0; i < 900; i++) insert.run(...keyOf(i), 'n'.repeat(100));
      db.exec('COMMIT');
      const root = Number(db.prepare('SELECT rootpage FROM sqlite_schema').get()?.rootpage);
      db.close();
      const content = readFileSync(file);
      const pages = childrenOf(content, root);
      const lost = cells.map((at) => content.readUInt16BE(((pages[at] ?? 0) - 1) * PAGE + 3));
      for (const at of cells) zeroPage(content, pages[at] ?? 0);
      writeFileSync(file, content);
      const { tables } = salvage({ file, create: createSums, essential: [] });
      const rows = 900 - lost.reduce((sum, count) => sum + count, 0);
      t.match(tables, [{ name: 'sums', rows, isComplete: false }]);
    });
  }
}

/** The pages under a root of a table without row ids: leaves, which have no further pages. */
function childrenOf(content: Buffer, root: number): number[] {
  const at = (root - 1) * PAGE;
  const children: number[] = [];
  for (let i = 0; i < content.readUInt16BE(at + 3); i++) {
    children.push(content.readUInt32BE(at + content.readUInt16BE(at + 12 + 2 * i)));
  }
  return children;
}

/** 900 rows of 100 bytes and more, without an index. */
const NOTES = `PRAGMA page_size = ${PAGE};
  CREATE TABLE notes (n INTEGER PRIMARY KEY, note TEXT NOT NULL) STRICT`;

/** A file with such a table; `spoil` gets its leaves. Returns the file and the rows of each leaf. */
function damagedNotes(
  t: Test,
  spoil: (content: Buffer, leaves: readonly number[]) => void,
): { readonly file: string; readonly rowsOf: readonly number[] } {
  const file = join(t.testdir({}), 'a.db');
  createNotes(file);
  const db = new DatabaseSync(file);
  const insert = db.prepare('INSERT INTO notes VALUES (?, ?)');
  db.exec('BEGIN');
  for (let i = 1; i <= 900; i++) insert.run(i, 'n'.repeat(100));
  db.exec('COMMIT');
  const root = Number(db.prepare('SELECT rootpage FROM sqlite_schema').get()?.rootpage);
  db.close();
  const content = readFileSync(file);
  const rightmost = content.readUInt32BE((root - 1) * PAGE + 8);
  const leaves = [...childrenOf(content, root), rightmost];
  const rowsOf = leaves.map((page) => content.readUInt16BE((page - 1) * PAGE + 3));
  spoil(content, leaves);
  writeFileSync(file, content);
  return { file, rowsOf };
}

function createNotes(file: string): void {
  const db = new DatabaseSync(file);
  db.exec(NOTES);
  db.close();
}

/** The head of a page and its list of cells stay; the cells read as rows without values, with the number 0. */
function zeroCells(content: Buffer, page: number): void {
  const at = (page - 1) * PAGE;
  const head = 8 + 2 * content.readUInt16BE(at + 3);
  content.fill(0, at + head, at + PAGE);
}

t.test('a table with a page whose cells are zero is incomplete', async (t) => {
  const { file, rowsOf } = damagedNotes(t, (content, leaves) => {
    zeroCells(content, leaves[4] ?? 0);
  });
  t.throws(() => salvage({ file, create: createNotes, essential: ['notes'] }), {
    name: 'DamagedDataError',
  });
  const { tables } = salvage({ file, create: createNotes, essential: [] });
  t.match(tables, [{ name: 'notes', rows: 900 - (rowsOf[4] ?? 0), isComplete: false }]);
});

t.test('rows before a page whose cells are zero are copied', async (t) => {
  const { file, rowsOf } = damagedNotes(t, (content, leaves) => {
    for (const at of [3, 15]) zeroPage(content, leaves[at] ?? 0);
    zeroCells(content, leaves[9] ?? 0);
  });
  const { tables } = salvage({ file, create: createNotes, essential: [] });
  const lost = [3, 9, 15].reduce((sum, at) => sum + (rowsOf[at] ?? 0), 0);
  t.match(tables, [{ name: 'notes', rows: 900 - lost, isComplete: false }]);
});

t.test('the rows of a page between a damaged one and a damaged end are copied', async (t) => {
  const { file, rowsOf } = damagedNotes(t, (content, leaves) => {
    for (const at of [-3, -1]) zeroPage(content, leaves.at(at) ?? 0);
  });
  const { tables } = salvage({ file, create: createNotes, essential: [] });
  const lost = [-3, -1].reduce((sum, at) => sum + (rowsOf.at(at) ?? 0), 0);
  t.match(tables, [{ name: 'notes', rows: 900 - lost, isComplete: false }]);
});

t.test('a table that has one page twice is incomplete', async (t) => {
  const { file, rowsOf } = damagedNotes(t, (content, leaves) => {
    const [from = 0, to = 0] = [leaves[2], leaves[11]];
    content.copy(content, (to - 1) * PAGE, (from - 1) * PAGE, from * PAGE);
  });
  const { tables } = salvage({ file, create: createNotes, essential: [] });
  t.match(tables, [{ name: 'notes', rows: 900 - (rowsOf[11] ?? 0), isComplete: false }]);
});

t.test('an empty essential table is as good as an unreadable one', async (t) => {
  const file = join(t.testdir({}), 'a.db');
  create(file);
  t.throws(() => salvage({ file, create, essential: ['keys'] }), { name: 'DamagedDataError' });
  const { tables } = salvage({ file, create, essential: ['bodies', 'keys'].slice(2) });
  t.match(tables, [
    { rows: 0, isComplete: true },
    { rows: 0, isComplete: true },
  ]);
});

t.test(
  'a start finishes a salvage that was interrupted, and removes an unfinished one',
  async (t) => {
    const directory = t.testdir({});
    const open = () =>
      openDatabase<typeof import('./statements.ts')>({
        ...{ directory, name: 'test', createDirectory: true, minFreeBytes: 0, reserveBytes: 0 },
        operations: new URL('./statements.ts', import.meta.url),
        clock: fakeClock(),
        logger: recordingLogger(),
      });
    const first = await open();
    await first.write('add', [7]);
    await first.close();
    const file = join(directory, 'test.db');
    // The salvaged file is complete and the damaged one has not moved; its log must not meet the new file.
    copyFileSync(file, `${file}.salvaged`);
    writeFileSync(file, 'damaged');
    writeFileSync(`${file}-wal`, 'log of the damaged file');
    writeFileSync(`${file}.salvaging`, 'unfinished');
    const second = await open();
    t.same(await second.read('all', []), [7]);
    await second.close();
    const kept =
      readdirSync(directory).find((name) => /corrupt-[^-]*-[^-]*-[^-]*$/.test(name)) ?? '';
    t.equal(readFileSync(join(directory, kept), 'utf8'), 'damaged');
    t.equal(readFileSync(join(directory, `${kept}-wal`), 'utf8'), 'log of the damaged file');
    t.notOk(existsSync(`${file}.salvaging`));
    // Later: the damaged file has moved, and the salvaged one has not.
    renameSync(file, `${file}.salvaged`);
    const third = await open();
    t.same(await third.read('all', []), [7]);
    await third.close();
  },
);

t.test('a derived table is not copied, and is made again', (t) => {
  const file = damaged(t, () => undefined);
  const derived = { name: 'bodies', remake: "UPDATE keys SET hash = 'again'" };
  const { tables } = salvage({ file, create, essential: [], derived });
  t.match(tables[0], { name: 'keys', rows: 300, isComplete: true });
  t.same(
    tables.map(({ name }) => name),
    ['keys', 'branches', 'pairs'],
  );
  t.equal(countIn(file, 'bodies'), 0);
  t.equal(countIn(file, "keys WHERE hash = 'again'"), 300);
  t.end();
});
