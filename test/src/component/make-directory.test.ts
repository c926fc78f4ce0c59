import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { makeDirectory } from '../../../src/component/make-directory.ts';

const SOURCE = new URL('../../../src/component/make-directory.ts', import.meta.url).href;

t.test('makes the directories that are missing for this user alone', async (t) => {
  const directory = t.testdir({});
  await Promise.all([1, 2, 3].map(() => makeDirectory(join(directory, 'a/b/c'))));
  for (const made of ['a', 'a/b', 'a/b/c']) {
    t.equal(statSync(join(directory, made)).mode & 0o777, 0o700, made);
  }
  await makeDirectory(join(directory, 'a/b'));
});

t.test('takes a symbolic link to a directory for one', async (t) => {
  const directory = t.testdir({});
  mkdirSync(join(directory, 'real'));
  symlinkSync(join(directory, 'real'), join(directory, 'link'));
  await makeDirectory(join(directory, 'link/below'));
  t.ok(existsSync(join(directory, 'real/below')));
});

t.test('names the path that is no directory', async (t) => {
  const directory = t.testdir({});
  const file = join(directory, 'file');
  const link = join(directory, 'link');
  writeFileSync(file, '');
  symlinkSync(join(directory, 'nowhere'), link);
  for (const path of [file, join(file, 'a/b')]) {
    await t.rejects(makeDirectory(path), { message: `${file} is not a directory` });
  }
  for (const path of [link, join(link, 'a')]) {
    await t.rejects(makeDirectory(path), {
      message: `${link} is a symbolic link to a path that does not exist`,
    });
  }
});

t.test(
  'rejects below a file system that makes no directories',
  { skip: !existsSync('/proc/self') && 'there is no /proc' },
  async (t) => {
    // A process of its own: a `mkdir` that never ends keeps its process running.
    const code = `import { makeDirectory } from ${JSON.stringify(SOURCE)};
      await makeDirectory('/proc/tracectl-test/a').catch(({ code }) => console.log(code));`;
    const args = ['--input-type=module', '--eval', code];
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      timeout: 60_000,
      killSignal: 'SIGKILL',
    });
    t.equal(stdout, 'ENOENT\n');
  },
);
