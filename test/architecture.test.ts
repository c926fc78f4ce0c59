import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { KINDS, MAY_IMPORT } from '../scripts/rooms.ts';

const SOURCES = globSync(`{src,${KINDS.join(',')}}/**/*.ts`)
  .filter((file) => !/\.(test|d)\.ts$/.test(file))
  .sort();

/** The text of a file without its comments. */
const codeOf = onceForEach((file) =>
  readFileSync(file, 'utf8')
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/^\s*\/\/.*$/gm, '')
    .replace(/([;,{}\s])\/\/ .*$/gm, '$1'),
);

/** The files that a file imports: relative imports, and the modules of threads and late imports. */
const importsOf = onceForEach((file): readonly string[] => {
  const code = codeOf(file);
  const relative = code.matchAll(/'(\.{1,2}\/[^']+\.ts)'/g);
  const threads = code.matchAll(/threadFile\(\s*import\.meta\.url,\s*'([^']+)'/g);
  const late = code.matchAll(/moduleAt\('([^']+)'\)/g);
  return [
    ...[...relative].map(([, path = '']) => path),
    ...[...threads, ...late].map(([, name]) => `${name}.ts`),
  ].map((path) => join(dirname(file), path));
});

function onceForEach<T>(read: (file: string) => T): (file: string) => T {
  const known = new Map<string, T>();
  return (file) => {
    const value = known.get(file) ?? read(file);
    known.set(file, value);
    return value;
  };
}

/** The room of a file: `receivers/otlp`, `src/http`. */
function homeOf(file: string): string {
  return file.split('/').slice(0, 2).join('/');
}

function rowOf(file: string): (typeof MAY_IMPORT)[string] | undefined {
  return MAY_IMPORT[homeOf(file)] ?? MAY_IMPORT[file.split('/')[0] ?? ''];
}

function isWithin(target: string, places: readonly string[] = []): boolean {
  return places.some((place) => target === place || target.startsWith(`${place}/`));
}

t.test('no room imports a room outside its row', async (t) => {
  const homeless = SOURCES.filter((file) => rowOf(file) === undefined);
  t.same(homeless, [], 'every file is in a room with a row in the table');
  for (const file of SOURCES) {
    const row = rowOf(file);
    for (const target of importsOf(file)) {
      if (homeOf(target) === homeOf(file)) continue;
      if (!isWithin(target, row)) t.fail(`${file} imports ${target}`);
    }
  }
});

t.test('the table of imports names existing rooms', async (t) => {
  const all = new Set(SOURCES.flatMap((file) => [file, homeOf(file), file.split('/')[0]]));
  for (const place of Object.entries(MAY_IMPORT).flat(2)) {
    t.ok(place === 'src' || all.has(place), place);
  }
});

t.test('the table of imports has one direction', async (t) => {
  const rows = Object.keys(MAY_IMPORT);
  for (const [from, targets] of Object.entries(MAY_IMPORT)) {
    for (const target of targets) {
      if (target === 'src') continue;
      t.ok(rows.indexOf(target) < rows.indexOf(from), `${from} comes after ${target}`);
    }
  }
});

t.test('the table of imports has no unused entry', async (t) => {
  for (const [from, targets] of Object.entries(MAY_IMPORT)) {
    const imported = SOURCES.filter((file) => isWithin(file, [from])).flatMap(importsOf);
    for (const target of targets) {
      const isUsed = imported.some((each) => isWithin(each, [target]));
      t.ok(isUsed, `${from} imports ${target}`);
    }
  }
});

t.test('every source file is imported by another one', async (t) => {
  const imported = new Set(SOURCES.flatMap(importsOf));
  t.same(
    SOURCES.filter((file) => file !== 'src/main.ts' && !imported.has(file)),
    [],
  );
});

/** Code that only some files may have. */
const RESERVED: { what: string; pattern: RegExp; allowed: readonly string[] }[] = [
  {
    what: 'only the entry point ends the process',
    // Signal 0 ends no process: it asks whether one runs.
    pattern: /process\.(exit|abort|kill)\b(?!\(pid, 0\))/,
    allowed: ['src/main.ts', 'src/sqlite/failpoint.ts'],
  },
  {
    what: 'only commands print',
    pattern: /\bconsole\.\w+\(|process\.(stdout|stderr)\b/,
    allowed: ['src/cli', 'src/main.ts'],
  },
  {
    what: 'components take the time from their clock',
    pattern: /(?<!\.)\b(setTimeout|setInterval)\(|Date\.now\(|new Date\(\)|performance\.now\(/,
    allowed: [
      'src/component/clock.ts',
      // A worker thread has no settings to take a clock from.
      'src/sqlite',
      // Idle times of threads and checks of their memory do not affect data.
      'src/thread',
      'src/cli',
    ],
  },
  {
    what: 'bodies are inflated within a limit, in one place',
    pattern:
      /\b(gunzip|inflate(?!dSizeHint)|unzip|zstdDecompress|brotliDecompress|createGunzip|createInflate|createZstdDecompress)\w*\(/i,
    // otlphttp inflates through src/model: bodies that leave in another compression, and answers.
    // The files of `send` are bounded line by line.
    allowed: [
      'src/model',
      'src/http',
      'src/otlp-client',
      'exporters/otlphttp',
      'src/cli/send/source.ts',
    ],
  },
  {
    what: 'only code that compresses or inflates imports zlib, except its checksum',
    pattern: /import (?!\{ crc32 \}).* from 'node:zlib'/,
    allowed: [
      ...['src/model/inflate.ts', 'src/model/compress.ts', 'exporters/file/writer.ts'],
      'src/cli/send/source.ts',
    ],
  },
  {
    what: 'only the configuration reads the environment',
    pattern: /process\.env\b/,
    // The failpoint kills the process at a chosen step, for tests of what survives.
    allowed: ['src/main.ts', 'src/cli', 'src/sqlite/failpoint.ts'],
  },
  {
    what: 'clients of other systems and their serializers are loaded late, when they are needed',
    pattern:
      /^import (?!type\b)[^;]* from '(@grpc\/grpc-js|@opentelemetry\/[\w-]+|bullmq|fastify|ioredis|pg|undici)'/m,
    // The metrics load it at the first scrape.
    allowed: ['src/telemetry/prometheus-text.ts'],
  },
  {
    what: 'an import of node:http reads all its exports, which loads an HTTP client: 15 MB and 50 ms',
    pattern: /^import (?!type\b)[^;]* from 'node:https?'/m,
    allowed: [],
  },
  {
    what: 'members are private by `#`',
    pattern: /^ {2}(?:private|public) (?!constructor)/m,
    allowed: [],
  },
  {
    what: 'types of schemas are those of their output',
    pattern: /\bz\.(?:infer|input)</,
    allowed: [],
  },
  {
    what: 'no code is made from text',
    pattern: /\beval\(|new Function\(/,
    allowed: [],
  },
];

for (const { what, pattern, allowed } of RESERVED) {
  t.test(what, async (t) => {
    const found = SOURCES.filter((file) => !isWithin(file, allowed)).flatMap((file) => {
      const [text] = pattern.exec(codeOf(file)) ?? [];
      return text === undefined ? [] : [`${file} has ${text}`];
    });
    t.same(found, []);
    for (const place of allowed) {
      t.ok(
        SOURCES.some((file) => isWithin(file, [place]) && pattern.test(codeOf(file))),
        `${place} needs its exception`,
      );
    }
  });
}

t.test('every room of src has a README of at most ten lines', async (t) => {
  for (const room of globSync('src/*/').sort()) {
    const readme = existsSync(`${room}/README.md`) ? readFileSync(`${room}/README.md`, 'utf8') : '';
    t.match(readme, /^# \S/, `${room}/README.md`);
    t.ok(readme.trimEnd().split('\n').length <= 10, `${room}/README.md is short`);
  }
});

t.test('every file that a page names exists', async (t) => {
  for (const page of [...globSync('docs/*.md'), ...globSync('src/**/README.md')]) {
    const named = readFileSync(page, 'utf8').matchAll(
      /(?<![\w/.])(?:src|receivers|processors|exporters|connectors|extensions|test|bench|scripts)\/[\w/.-]+\.(?:ts|md|mjs)/g,
    );
    for (const [path] of named) {
      // The files of the tutorial exist only in its test.
      if (!path.includes('processors/sampling/')) t.ok(existsSync(path), `${page}: ${path}`);
    }
  }
});

t.test('the contents of the decisions name each section once', async (t) => {
  const page = readFileSync('docs/decisions.md', 'utf8');
  const [, contents = ''] = /^## Contents\n(.*?)^## /ms.exec(page) ?? [];
  const links = [...contents.matchAll(/\[([^\]]+)\]\(#[^)]+\)/g)].map(([link]) => link);
  const sections = [...page.matchAll(/^## (.+)$/gm)].map(([, title = '']) => title);
  const wanted = sections
    .filter((title) => title !== 'Contents')
    .map((title) => `[${title}](#${anchorOf(title)})`);
  t.same(links.sort(), wanted.sort());
});

/** The anchor that code hosts give a heading. */
function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .replaceAll(' ', '-');
}

t.test('every function that the architecture names beside a file is in that file', async (t) => {
  let found = 0;
  for (const line of readFileSync('docs/architecture.md', 'utf8').split('\n')) {
    const files = [...line.matchAll(/[\w/-]+\/[\w/-]+\.ts/g)].map(([file]) => file);
    const text = files.filter(existsSync).map(codeOf).join('\n');
    for (const [, name = ''] of line.matchAll(/ ([a-z]\w+)\(/g)) {
      if (text === '') continue;
      found++;
      t.match(text, new RegExp(`\\b${name}\\b`), `${name} of ${files.join(', ')}`);
    }
  }
  t.ok(found > 10);
});

t.test('every component folder has the same files', async (t) => {
  for (const kind of KINDS) {
    const role = `${kind.slice(0, -1)}.ts`;
    for (const folder of globSync(`${kind}/*`)) {
      const rooms = new Set(globSync(`${folder}/*`).map((file) => file.slice(folder.length + 1)));
      for (const room of ['factory.ts', 'config.ts', role, 'README.md']) {
        t.ok(rooms.has(room), `${folder} has ${room}`);
      }
      if (!rooms.has('factory.ts')) continue;
      const type = folder.split('/')[1] ?? '';
      const factory = codeOf(`${folder}/factory.ts`);
      t.match(factory, `type: '${type}'`, `${folder} is named by its type`);
      t.ok(factory.split('\n').length <= 45, `${folder}/factory.ts holds no logic`);
      t.match(factory, 'export const factory = define', `${folder} exports factory`);
      t.match(codeOf(`${folder}/config.ts`), 'export const config = z', `${folder} exports config`);
      const create = `create${role.charAt(0).toUpperCase()}${role.slice(1, -'.ts'.length)}`;
      t.match(codeOf(`${folder}/${role}`), `export function ${create}(`, `${folder}: ${create}`);
    }
  }
});

/** Names that several files export by convention. */
const SHARED_NAMES = new Set([
  // Every component folder.
  ...['config', 'factory'],
  ...['createReceiver', 'createProcessor', 'createExporter', 'createConnector', 'createExtension'],
  // Every file of operations, which the SQLite threads load by its URL.
  ...['writeOperations', 'readOperations', 'groupEnd', 'growing', 'migrations', 'repairs'],
  // The typed rows of a statement, once for each driver.
  'rows',
]);

t.test('an exported name stands for one thing in the whole tree', async (t) => {
  const files = new Map<string, string[]>();
  for (const file of SOURCES) {
    const declared = /^export (?:async )?(?:function\*?|const|let|class|type|interface) (\w+)/gm;
    const names = new Set([...codeOf(file).matchAll(declared)].map(([, name = '']) => name));
    for (const name of names) files.set(name, [...(files.get(name) ?? []), file]);
  }
  const repeated = [...files].filter(
    ([name, places]) => places.length > 1 && !SHARED_NAMES.has(name),
  );
  t.same(repeated, []);
  for (const name of SHARED_NAMES) t.ok(files.has(name), `${name} is exported`);
});

t.test('casts through `unknown` are rare', async (t) => {
  const casts = SOURCES.flatMap((file) => codeOf(file).match(/\bas unknown as\b/g) ?? []);
  t.ok(casts.length <= 6, `${casts.length} casts`);
});

t.test('no file re-exports the names of another', async (t) => {
  const pattern = /^export (?:type )?(?:\{[^}]*\}|\* as \w+|\*) from/m;
  t.same(
    SOURCES.filter((file) => pattern.test(codeOf(file))),
    [],
  );
});

t.test('docs/errors.md has every error code', async (t) => {
  const known = readFileSync('docs/errors.md', 'utf8');
  const thrown = new Set<string>();
  for (const file of SOURCES) {
    const pattern = /new (?:RetryableError|PermanentError|Refusal|StoreError)\(\s*'([^']+)'/g;
    for (const [, code = ''] of codeOf(file).matchAll(pattern)) thrown.add(code);
    const subclass = /extends (?:RetryableError|PermanentError) \{[^}]*?super\(\s*'([^']+)'/g;
    for (const [, code = ''] of codeOf(file).matchAll(subclass)) thrown.add(code);
  }
  t.ok(thrown.has('wait_timeout'), 'codes of subclasses are found');
  const refusals = /REFUSAL_STATUS = \{([^}]*)\}/.exec(codeOf('src/model/errors.ts'))?.[1] ?? '';
  for (const [, code = ''] of refusals.matchAll(/(\w+): \d/g)) thrown.add(code);
  t.ok(thrown.size > 20, 'codes are found');
  for (const code of thrown) t.match(known, `\`${code}\``, code);
});

t.test('docs/errors.md and docs/metrics.md have no code and no metric that is gone', async (t) => {
  const all = SOURCES.map(codeOf).join('\n');
  const isUsed = (name: string) => new RegExp(`\\b${name}\\b`).test(all);
  for (const page of ['docs/errors.md', 'docs/metrics.md']) {
    const rows = readFileSync(page, 'utf8').matchAll(/^\| `(\w+)` \|/gm);
    const names = [...rows].map(([, name = '']) => name);
    t.ok(names.length > 20, `${page} has rows`);
    t.same(
      names.filter((name) => !isUsed(name)),
      [],
      page,
    );
  }
});

t.test('docs/metrics.md has every metric, named by the rule', async (t) => {
  const known = readFileSync('docs/metrics.md', 'utf8');
  let found = 0;
  for (const file of SOURCES) {
    const pattern = /\b(?:counter|histogram|gauge|observedCounter)\(\s*'([^']+)'/g;
    for (const [call, name = ''] of codeOf(file).matchAll(pattern)) {
      found++;
      t.match(name, /^tracectl_[a-z]+(_[a-z]+)+$/, `${file}: ${name}`);
      if (/counter/i.test(call)) t.match(name, /_total$/, `${name} counts`);
      t.match(known, `\`${name}\``, `${name} is documented`);
    }
  }
  t.ok(found > 15, 'metrics are found');
});

t.test('no file has more than 600 lines', async (t) => {
  const lengths = SOURCES.map((file) => [file, readFileSync(file, 'utf8').split('\n').length]);
  t.same(
    lengths.filter(([, lines = 0]) => Number(lines) > 600),
    [],
  );
});
