import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { NewerDataError } from '../../../src/model/errors.ts';
import { openDatabase } from '../../../src/sqlite/database.ts';
import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { fileVersion, mendVersion, migrateFile, refuseNewer } from '../../../src/sqlite/migrate.ts';
import { rows } from '../../../src/sqlite/rows.ts';
import { fakeClock } from '../../helper/clock.ts';
import { newerVersion } from '../../helper/newer-file.ts';
import { recordingLogger } from '../../helper/settings.ts';

const logger = recordingLogger();

function open(t: Test, directory: string) {
  const opened = openDatabase<typeof import('./statements.ts')>({
    directory,
    name: 'test',
    createDirectory: true,
    minFreeBytes: 0,
    reserveBytes: 0,
    operations: new URL('./statements.ts', import.meta.url),
    clock: fakeClock(),
    logger,
  });
  t.teardown(async () => (await opened.catch(() => undefined))?.close());
  return opened;
}

function change(directory: string, sql: string): void {
  const db = new DatabaseSync(join(directory, 'test.db'));
  db.exec(sql);
  db.close();
}

const MIGRATIONS: FileMigration[] = [
  { name: '0001-a', apply: (db) => db.exec('CREATE TABLE IF NOT EXISTS a (x INTEGER) STRICT') },
  { name: '0002-b', apply: (db) => db.exec('ALTER TABLE a ADD COLUMN y TEXT') },
];

t.test('a new file gets the tables of the newest version', async (t) => {
  const db = new DatabaseSync(':memory:');
  t.equal(migrateFile(db, MIGRATIONS), undefined, 'a new file is not reported as migrated');
  t.equal(fileVersion(db), 2);
  db.exec("INSERT INTO a VALUES (1, 'y')");
  t.equal(migrateFile(db, MIGRATIONS), undefined, 'a second run finds nothing to do');
});

t.test('a file with tables and without a version keeps its rows', async (t) => {
  const db = new DatabaseSync(':memory:');
  db.exec('CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7)');
  t.same(migrateFile(db, MIGRATIONS), { from: 0, to: 2 });
  t.match(rows(db, 'SELECT x, y FROM a').all(), [{ x: 7, y: null }]);
});

t.test('applies only the missing migrations, up to the wanted version', async (t) => {
  const db = new DatabaseSync(':memory:');
  migrateFile(db, MIGRATIONS, 1);
  t.equal(fileVersion(db), 1);
  db.exec('INSERT INTO a VALUES (7)');
  t.same(migrateFile(db, MIGRATIONS), { from: 1, to: 2 });
  t.match(rows(db, 'SELECT x, y FROM a').all(), [{ x: 7, y: null }]);
});

t.test('a migration that fails leaves the file at the version before it', async (t) => {
  const db = new DatabaseSync(':memory:');
  const failing = {
    name: '0003-c',
    apply: (db: DatabaseSync) => db.exec('CREATE TABLE c (x INTEGER) STRICT; no sql'),
  };
  t.throws(() => migrateFile(db, [...MIGRATIONS, failing]), { message: /syntax error/ });
  t.equal(fileVersion(db), 2);
  t.same(rows(db, "SELECT 1 FROM sqlite_schema WHERE name = 'c'").all(), []);
});

t.test('refuses the first unknown version, and no known one', async (t) => {
  const db = new DatabaseSync(':memory:');
  refuseNewer(db, 'store.db', MIGRATIONS);
  migrateFile(db, MIGRATIONS);
  refuseNewer(db, 'store.db', MIGRATIONS);
  db.exec(newerVersion(3));
  t.throws(() => refuseNewer(db, 'store.db', MIGRATIONS), {
    name: 'NewerDataError',
    code: 'newer_data',
    message:
      /^store\.db was written by a newer version .* version 3, .* up to 2\. Start that version/,
  });
});

t.test('a damaged version number is neither a newer version nor the true one', async (t) => {
  for (const damaged of [99, -1, 1, 0]) {
    const db = new DatabaseSync(':memory:');
    migrateFile(db, MIGRATIONS);
    db.exec(`INSERT INTO a VALUES (7, 'y'); PRAGMA user_version = ${damaged}`);
    refuseNewer(db, 'store.db', MIGRATIONS);
    t.equal(fileVersion(db), 2, `${damaged}: the table of migrations has the true version`);
    t.same(mendVersion(db), { from: damaged, to: 2 });
    t.equal(mendVersion(db), undefined, 'the number is corrected');
    t.equal(migrateFile(db, MIGRATIONS), undefined, 'no migration runs twice');
    t.match(rows(db, 'SELECT x, y FROM a').all(), [{ x: 7, y: 'y' }]);
  }
});

t.test('a newer file with a damaged version number is refused as newer', async (t) => {
  const db = new DatabaseSync(':memory:');
  migrateFile(db, MIGRATIONS);
  db.exec(`${newerVersion(3)}; PRAGMA user_version = 1`);
  t.throws(() => refuseNewer(db, 'store.db', MIGRATIONS), { name: 'NewerDataError' });
});

t.test(
  'a damaged version number of a file without a table of migrations is corrected',
  async (t) => {
    const directory = t.testdir({});
    change(
      directory,
      `CREATE TABLE numbers (value INTEGER PRIMARY KEY); INSERT INTO numbers VALUES (5);
     PRAGMA user_version = 77`,
    );
    logger.lines.length = 0;
    const database = await open(t, directory);
    t.same(await database.read('all', []), [5]);
    t.equal(await database.write('pragma', ['user_version']), 1);
    t.ok(database.isDamaged());
    t.match(database.health(), { ready: true, details: { damage: /version number/ } });
    t.match(
      logger.lines.find(({ level }) => level === 'error'),
      { message: 'Version number of the database damaged; corrected', fields: { from: 77, to: 0 } },
    );
  },
);

t.test('an open database reports that it migrated a file of an earlier version', async (t) => {
  const directory = t.testdir({});
  change(
    directory,
    'CREATE TABLE numbers (value INTEGER PRIMARY KEY); INSERT INTO numbers VALUES (5)',
  );
  logger.lines.length = 0;
  const database = await open(t, directory);
  t.same(await database.read('all', []), [5]);
  t.equal(await database.write('pragma', ['user_version']), 1);
  t.match(logger.lines, [
    { level: 'info', message: 'Tables migrated', fields: { from: 0, to: 1, file: /test\.db$/ } },
  ]);
});

t.test(
  'a file of a newer version is refused as it is, and the directory is free again',
  async (t) => {
    const directory = t.testdir({});
    await (await open(t, directory)).close();
    change(directory, newerVersion(2));
    const before = readFileSync(join(directory, 'test.db'));
    for (const attempt of ['first', 'second']) {
      const error = await open(t, directory).catch((error: unknown) => error);
      t.type(error, NewerDataError, attempt);
      t.match(error, { message: /test\.db was written by a newer version/ });
    }
    t.ok(readFileSync(join(directory, 'test.db')).equals(before), 'not a byte changed');
    change(directory, 'DELETE FROM schema_migrations WHERE version = 2; PRAGMA user_version = 1');
    const database = await open(t, directory);
    t.same(await database.read('all', []), []);
  },
);

t.test(
  'a damaged file of an earlier version is salvaged with its tables, then migrated',
  async (t) => {
    const directory = t.testdir({});
    change(
      directory,
      `PRAGMA page_size = 512; CREATE TABLE numbers (value INTEGER PRIMARY KEY) STRICT;
     CREATE TABLE padding (text TEXT);
     INSERT INTO numbers VALUES (5), (6);
     INSERT INTO padding VALUES (hex(zeroblob(4000)))`,
    );
    const file = join(directory, 'test.db');
    const { writeFileSync } = await import('node:fs');
    // The schema's page is whole; the file ends early.
    writeFileSync(file, readFileSync(file).subarray(0, 1536));
    const database = await open(t, directory);
    t.same(await database.read('all', []), [5, 6]);
    t.equal(await database.write('pragma', ['user_version']), 1);
  },
);
