import { spawn } from 'node:child_process';
import * as files from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';

type Module = typeof import('../../../src/sqlite/directory-owner.ts');

/** The module, where `stat` of an open file of another process answers as `statOfOpen` does. */
function withStat(statOfOpen: () => Promise<never>): Promise<Module> {
  const stat = (path: string): Promise<unknown> =>
    path.startsWith('/proc/') ? statOfOpen() : files.stat(path);
  return t.mockImport<Module>('../../../src/sqlite/directory-owner.ts', {
    'node:fs/promises': { ...files, stat },
  });
}

function failing(code: string): () => Promise<never> {
  return () => Promise.reject(Object.assign(new Error(code), { code }));
}

/** A directory of another process that runs, and the number of that process. */
async function owned(t: Test): Promise<{ directory: string; pid: number | undefined }> {
  const directory = t.testdir({ 'store.lock': '' });
  const other = spawn('sleep', ['600'], { stdio: 'ignore' });
  t.teardown(() => other.kill());
  await files.writeFile(join(directory, 'store.pid'), String(other.pid));
  return { directory, pid: other.pid };
}

t.test('a process whose open files may only be listed may own the directory', async (t) => {
  const { directory, pid } = await owned(t);
  // As root of a container that may not trace the processes of other users.
  const { ownerOf } = await withStat(failing('EACCES'));
  t.equal(await ownerOf(directory), pid);
});

t.test('a process that closes its files while they are looked at owns nothing', async (t) => {
  const { directory } = await owned(t);
  const { ownerOf } = await withStat(failing('ENOENT'));
  t.equal(await ownerOf(directory), undefined);
});
