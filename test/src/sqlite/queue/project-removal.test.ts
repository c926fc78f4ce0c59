import t from 'tap';
import type { Database } from '../../../../src/sqlite/database.ts';
import type { QueueOperations } from '../../../../src/sqlite/queue/operations.ts';
import { removeDeletedProjects } from '../../../../src/sqlite/queue/project-removal.ts';

/** A file with open removals; notes what is done with it. */
function fileWith(projects: readonly string[], truncations: readonly (boolean | Error)[]) {
  const done: string[] = [];
  const left = [...truncations];
  const database = {
    read: async () => projects,
    write: async (name: string, [project]: [string]) => void done.push(`${name} ${project}`),
    truncateLog: async () => {
      done.push('truncate');
      const next = left.shift() ?? true;
      if (next instanceof Error) throw next;
      return next;
    },
  } as unknown as Database<QueueOperations>;
  async function* remove(project: string) {
    yield undefined;
    if (project.startsWith('bad')) throw new Error(`${project} fails`);
    done.push(`remove ${project}`);
  }
  const run = async (): Promise<void> => {
    for await (const _ of removeDeletedProjects(database, { remove }));
  };
  return { run, done };
}

t.test('truncates the log once, after the data of all projects', async (t) => {
  const { run, done } = fileWith(['a', 'b'], [false, true]);
  await run();
  t.same(done, [
    ...['remove a', 'remove b', 'truncate', 'truncate'],
    ...['removal.purged a', 'removal.purged b'],
  ]);
});

t.test('calls no project removed while a full disk keeps the log', async (t) => {
  const { run, done } = fileWith(['a', 'b'], [new Error('full')]);
  await t.rejects(run(), { message: 'full' });
  t.same(done, ['remove a', 'remove b', 'truncate']);
});

t.test('removes the others if one fails, and reports it', async (t) => {
  const { run, done } = fileWith(['bad', 'b', 'bad too'], []);
  await t.rejects(run(), { message: 'bad fails' });
  t.same(done, ['remove b', 'truncate', 'removal.purged b']);
});

t.test('leaves the log of a file without removals as it is', async (t) => {
  for (const projects of [[], ['bad']]) {
    const { run, done } = fileWith(projects, []);
    await run().catch(() => undefined);
    t.same(done, []);
  }
});
