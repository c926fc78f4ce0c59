import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import t from 'tap';
import { didYouMean, nearest } from '../../../src/component/did-you-mean.ts';
import { jsonSchema } from '../../../src/config/json-schema.ts';
import { formatIssue, type Loaded, loadConfig } from '../../../src/config/load.ts';
import { toYaml } from '../../../src/config/print.ts';
import {
  endpoint,
  parseByteSize,
  parseDuration,
  parseEndpoint,
} from '../../../src/schema/fields.ts';
import { REGISTRY } from './factories.ts';

const GOLDEN = fileURLToPath(new URL('./golden/', import.meta.url));

/** A whole, valid configuration; tests lay files over it. */
const SOUND = `
extensions:
  sqlite:
receivers:
  web:
processors:
  auth: {store: sqlite}
  normalization:
exporters:
  sqlite:
service:
  extensions: [sqlite]
  pipelines:
    traces:
      receivers: [web]
      processors: [auth, normalization]
      exporters: [sqlite]
`;

type Given = {
  readonly files?: Readonly<Record<string, string | Buffer>>;
  readonly sets?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly beside?: Readonly<Record<string, string>>;
};

function loadThese({ files = { 'a.yaml': SOUND }, sets = [], env = {}, beside = {} }: Given) {
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-config-'));
  try {
    for (const [name, text] of Object.entries({ ...files, ...beside })) {
      writeFileSync(join(cwd, name), text);
    }
    return loadConfig({ files: Object.keys(files), sets, env, cwd, registry: REGISTRY });
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

function textOf({ issues }: Loaded): string {
  return issues.map(formatIssue).join('\n');
}

/** The settings of the receiver `web` when `fields` is laid over the valid file. */
function webWith(fields: string, more: Given = {}) {
  const over = `receivers:\n  web:\n${fields.replace(/^/gm, '    ')}\n`;
  const loaded = loadThese({ ...more, files: { 'a.yaml': SOUND, 'b.yaml': over } });
  return { ...loaded, web: loaded.config?.receivers.get('web')?.config as Record<string, unknown> };
}

t.test('reports every invalid file with line, column and a remedy', async (t) => {
  const names = readdirSync(GOLDEN).filter((name) => name.endsWith('.yaml'));
  t.ok(names.length > 10, 'there are faulty files');
  for (const name of names) {
    const loaded = loadConfig({
      files: [name],
      env: { SECRET: 'hush-hush', NUMBER: '12' },
      cwd: GOLDEN,
      registry: REGISTRY,
    });
    const expected = join(GOLDEN, name.replace(/\.yaml$/, '.txt'));
    const said = `${textOf(loaded)}\n`;
    if (process.env.UPDATE_GOLDEN !== undefined) writeFileSync(expected, said);
    t.equal(said, readFileSync(expected, 'utf8'), name);
    const hasError = loaded.issues.some(({ severity }) => severity === 'error');
    t.equal(loaded.config === undefined, hasError, `${name} gives a configuration or an error`);
    t.notMatch(said, 'hush-hush', `${name} keeps its secret`);
  }
});

t.test('reports keys that are members of every object', async (t) => {
  for (const key of ['constructor', 'toString', '__proto__']) {
    for (const at of [
      'service',
      'service.pipelines.traces',
      'receivers.web',
      'receivers.web.protocols',
    ]) {
      for (const value of ['1', '[1]', '{a: [1]}']) {
        const loaded = loadThese({ sets: [`${at}.${key}=${value}`] });
        t.match(textOf(loaded), `error: ${at}.${key}: unknown key "${key}"`);
      }
    }
  }
});

t.test('loads a valid file with every default', async (t) => {
  const { config, issues } = loadThese({});
  t.same(issues, []);
  t.same(config?.receivers.get('web')?.config, {
    endpoint: '127.0.0.1:4318',
    read_timeout: 60_000,
    protocols: { http: { max_body: 25 * 1024 * 1024 } },
  });
  t.same(config?.service.extensions, ['sqlite']);
  t.same(config?.service.telemetry, {
    logs: { level: 'info', encoding: 'console', repeated_lines: 100 },
    metrics: {
      level: 'normal',
      address: '127.0.0.1:8888',
      addressIsConfigured: false,
      allowed_hosts: [],
      trusted_proxies: [],
      proxy_protocol: false,
    },
  });
  t.equal(config?.service.shutdown_timeout, 20_000);
});

t.test('gives a section without a value its defaults', async (t) => {
  const { web } = webWith('protocols:\n  grpc:');
  t.same(web.protocols, { grpc: { endpoint: '127.0.0.1:4317' } });
});

t.test('distinguishes a written address from the default', async (t) => {
  const { config } = loadThese({ sets: ['service.telemetry.metrics.address=127.0.0.1:9999'] });
  t.match(config?.service.telemetry.metrics, {
    address: '127.0.0.1:9999',
    addressIsConfigured: true,
    allowed_hosts: [],
  });
});

t.test('accepts an alias of a type', async (t) => {
  const { config } = loadThese({
    files: { 'a.yaml': SOUND, 'b.yaml': 'exporters:\n  otlp_http/far:\n' },
    sets: ['service.pipelines.traces.exporters=[sqlite, otlp_http/far]'],
  });
  t.equal(config?.exporters.get('otlp_http/far')?.factory.type, 'otlphttp');
});

t.test('starts an extension after those that it refers to', async (t) => {
  const { config } = loadThese({
    files: { 'a.yaml': SOUND, 'b.yaml': 'extensions:\n  admin: {store: sqlite}\n' },
    sets: ['service.extensions=[admin, sqlite]'],
  });
  t.same(config?.service.extensions, ['sqlite', 'admin']);
});

t.test('variables', async (t) => {
  await t.test('a variable that is a whole value has the YAML type of its text', async (t) => {
    const { config } = loadThese({
      files: {
        'a.yaml': `${SOUND}`,
        'b.yaml': 'processors:\n  validation: {rate: "${env:RATE}"}\n',
      },
      env: { RATE: '0.5' },
      sets: ['service.pipelines.traces.processors=[auth, validation, normalization]'],
    });
    t.same(config?.processors.get('validation')?.config, { rate: 0.5 });
  });
  await t.test('a text field gets the text of a variable unchanged', async (t) => {
    for (const text of ['0123', 'true', 'a #b', '"quoted"', 'a: b', '[1]', '@x', '1e3', '~']) {
      const { web } = webWith('project: ${env:P}', { env: { P: text } });
      t.equal(web?.project, text === '~' ? undefined : text, text);
    }
  });
  await t.test('a variable may hold a whole section', async (t) => {
    const { web } = webWith('protocols: ${env:P}', { env: { P: '{http: {max_body: 1KiB}}' } });
    t.same(web.protocols, { http: { max_body: 1024 } });
  });
  await t.test('the value of a variable is not expanded again', async (t) => {
    const { web } = webWith('project: ${env:P}', { env: { P: '${env:Q} $$', Q: 'no' } });
    t.equal(web.project, '${env:Q} $$');
  });
  await t.test('inside a text, a variable becomes text', async (t) => {
    const { web } = webWith('project: a${P}b${env:Q:-c}$$d$e', { env: { P: '7' } });
    t.equal(web.project, 'a7bc$d$e');
  });
  await t.test('a doubled dollar is a literal one', async (t) => {
    const { web } = webWith('project: "$${P} $$${P}"', { env: { P: 'x' } });
    t.equal(web.project, '${P} $x');
  });
  await t.test(
    'a variable as shells write it stays, with a warning that shows no value',
    async (t) => {
      for (const value of ['$DATA_DIR', './x/$DATA_DIR/y', '${env:UNSET:-$HOME}']) {
        const loaded = webWith(`project: ${value}`, { env: { DATA_DIR: '/secret' } });
        t.match(
          textOf(loaded),
          /^b\.yaml:3:14: warning: receivers\.web\.project: a "\$" before a name/,
        );
        t.notMatch(textOf(loaded), /DATA_DIR|secret/);
      }
      for (const value of ['a$b', '"pa$$WORD"', '"$"', '$1', '^a$']) {
        t.equal(textOf(webWith(`project: ${value}`, {})), '', value);
      }
    },
  );
  await t.test('a default may hold braces and variables', async (t) => {
    const { web } = webWith('project: "${env:A:-${env:B:-{x}}}"', {});
    t.equal(web.project, '{x}');
  });
  await t.test('a default replaces an unset variable, not an empty one', async (t) => {
    const { web } = webWith('project: ${env:A:-x}', { env: { A: '' } });
    t.equal(web.project, undefined);
  });
  await t.test('an unset variable is empty, with a warning', async (t) => {
    const loaded = webWith('project: ${env:UNSET}', {});
    t.equal(loaded.web.project, undefined);
    t.match(textOf(loaded), /^b\.yaml:3:14: warning: receivers\.web\.project: .*UNSET is not set/);
  });
  await t.test('an unset required variable is an error with its message', async (t) => {
    for (const env of [{}, { P: '' }]) {
      const loaded = webWith('project: ${env:P:?the project of this host}', { env });
      t.match(textOf(loaded), /b\.yaml:3:14: error: .*P is not set: the project of this host/);
    }
  });
  await t.test('a file loses only its final newline', async (t) => {
    const { web } = webWith('project: ${file:p.txt}', { beside: { 'p.txt': ' one\ntwo\n\n' } });
    t.equal(web.project, ' one\ntwo\n');
  });
  await t.test(
    'an unreadable file or a malformed variable is an error with its place',
    async (t) => {
      t.match(textOf(webWith('project: ${file:none}', {})), /b\.yaml:3:14: error: .*no such file/);
      t.match(textOf(webWith('project: ${file:.}', {})), /it is a directory/);
      t.match(textOf(webWith('project: ${vault:x}', {})), /\$\{vault:…\} is not known/);
      t.match(textOf(webWith('project: ${1x}', {})), /not a variable/);
      t.match(textOf(webWith('project: "${A"', {})), /a "\$\{" has no "\}"/);
    },
  );
  await t.test('a variable in a replaced value is not required', async (t) => {
    const files = {
      'a.yaml': `${SOUND}`,
      'b.yaml': 'receivers: {web: {project: "${env:NO:?x}"}}',
      'c.yaml': 'receivers: {web: {project: p}}',
    };
    t.same(loadThese({ files }).issues, []);
  });
});

t.test('several files', async (t) => {
  await t.test('merges maps, replaces lists, and the last file wins', async (t) => {
    const over = `
receivers:
  web: {endpoint: "127.0.0.1:1"}
  web/two: {endpoint: "127.0.0.1:2"}
service: {pipelines: {traces: {receivers: [web/two]}}}`;
    const { config, issues } = loadThese({ files: { 'a.yaml': SOUND, 'b.yaml': over } });
    t.same(config?.service.pipelines[0]?.receivers, ['web/two']);
    t.same(config?.service.pipelines[0]?.processors, ['auth', 'normalization']);
    t.match(issues.map(formatIssue), [/^b\.yaml:3:3: warning: receivers\.web: no pipeline names/]);
  });
  await t.test('warns of an empty value that replaces a map', async (t) => {
    const files = { 'a.yaml': SOUND, 'b.yaml': 'extensions:\n' };
    const text = textOf(loadThese({ files }));
    t.match(text, /b\.yaml:1:1: warning: extensions: an empty value replaces .*\(sqlite\)/);
    const nothing = { 'a.yaml': `${SOUND}connectors: {}\n`, 'b.yaml': 'connectors:\n' };
    t.same(loadThese({ files: nothing }).issues, [], 'of nothing');
  });
  await t.test('places a problem in the file that has it', async (t) => {
    const files = { 'a.yaml': SOUND, 'b.yaml': '\n\nreceivers:\n  web:\n    proyect: x\n' };
    const text = textOf(loadThese({ files }));
    t.match(text, /^b\.yaml:5:5: error: receivers\.web\.proyect: .*did you mean "project"/);
    const set = textOf(loadThese({ files, sets: ['receivers.web.proyect=y'] }));
    t.match(set, /^b\.yaml:5:5: error: receivers\.web\.proyect: /, 'whose value --set replaces');
  });
  await t.test('--set wins over all files and is read as YAML', async (t) => {
    const { config } = loadThese({
      sets: [
        'receivers.web.endpoint=:80',
        'receivers.web.protocols={grpc: {}}',
        'receivers.web.project=a=b',
      ],
    });
    t.match(config?.receivers.get('web')?.config, {
      endpoint: ':80',
      project: 'a=b',
      protocols: { grpc: {}, http: undefined },
    });
  });
  await t.test('--set names a key with a dot or an equals sign in quotes', async (t) => {
    const sets = [
      'receivers."web/a.b=c".endpoint=:80',
      '"receivers"."web/a.b=c".project=x."y"=z',
      'service.pipelines.traces.receivers=[web, "web/a.b=c"]',
    ];
    const { config, issues } = loadThese({ sets });
    t.same(issues, []);
    t.match(config?.receivers.get('web/a.b=c')?.config, { endpoint: ':80', project: 'x."y"=z' });
  });
  await t.test('--set without a path or a value is an error', async (t) => {
    for (const setting of ['x', '=y', 'a..b=c', '', 'a."b=c', 'a.""=c', 'a."b"c=d']) {
      t.match(textOf(loadThese({ sets: [setting] })), /--set takes path=value/, setting);
    }
  });
});

t.test('rejects files that are no configuration', async (t) => {
  const cases: [string, string | Buffer, RegExp][] = [
    ['empty', '', /the configuration is empty/],
    ['only comments', '# nothing\n', /the configuration is empty/],
    ['a list', '- a\n', /a\.yaml:1:1: error: a configuration is a map/],
    ['too large', `x: ${'y'.repeat(1024 * 1024)}`, /cannot be read: it is larger than 1 MiB/],
    ['no UTF-8', Buffer.from([0x61, 0x3a, 0x20, 0xff]), /it is not UTF-8 text/],
    ['unclosed brackets', '['.repeat(200_000), /nested too deeply|not valid YAML/],
    ['deep maps', `${'{a: '.repeat(80)}1${'}'.repeat(80)}`, /nested too deeply; 64 levels/],
    ['deep lists', `a: ${'['.repeat(3000)}${']'.repeat(3000)}`, /nested too deeply; 64 levels/],
    [
      'a merge of a number',
      'receivers:\n  web:\n    <<: 5\n',
      /a\.yaml:3:5: error: "<<" takes a map, or a list of maps/,
    ],
    [
      'a cycle of aliases',
      'a: &x\n  b: *x\n',
      /a\.yaml:2:6: error: the alias \*x is inside the value/,
    ],
    ['an alias without an anchor', 'a: *x\n', /no anchor &x above this alias|unresolved alias/],
    ['two documents', 'a: 1\n---\nb: 2\n', /a second document starts here/],
    ['a tab', 'receivers:\n\tweb:\n', /a\.yaml:2:1: error: a tab indents this line/],
    [
      'a duplicated key',
      'receivers:\n  web:\n  web:\n',
      /a\.yaml:3:3: error: the key "web" is duplicated; the first one is at a\.yaml:2:3/,
    ],
    ['a map as key', '{a: 1}: 2\n', /a key must be a plain text/],
  ];
  for (const [name, text, expected] of cases) {
    const loaded = loadThese({ files: { 'a.yaml': text } });
    t.equal(loaded.config, undefined, name);
    t.match(textOf(loaded), expected, name);
  }
  const missing = loadConfig({ files: ['no.yaml'], env: {}, cwd: GOLDEN, registry: REGISTRY });
  t.equal(textOf(missing), 'no.yaml: error: cannot be read: there is no such file');
});

t.test('bounds the values that aliases expand to', async (t) => {
  let bomb = 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n';
  for (let level = 1; level < 12; level++) {
    bomb += `a${level}: &a${level} [${`*a${level - 1}, `.repeat(10)}]\n`;
  }
  t.match(textOf(loadThese({ files: { 'a.yaml': bomb } })), /more than 100000 values once aliases/);
});

t.test('supports anchors and merge keys', async (t) => {
  const { config } = loadThese({
    files: {
      'a.yaml': SOUND,
      'b.yaml':
        'receivers:\n  web: &base {read_timeout: 5s, project: p}\n  web/two:\n    <<: *base\n    project: q\n    endpoint: 127.0.0.1:2\n',
    },
    sets: ['service.pipelines.traces.receivers=[web, web/two]'],
  });
  t.match(config?.receivers.get('web/two')?.config, { read_timeout: 5000, project: 'q' });
});

t.test('turns any text into a configuration or an error, never an exception', async () => {
  const pieces = fc.constantFrom(
    'receivers:',
    'service:',
    '  ',
    '\n',
    'web',
    ': ',
    '- ',
    '{',
    '}',
    '[',
    ']',
    '&a ',
    '*a',
    '<<',
    '"',
    "'",
    '|',
    '>',
    '!!int ',
    '#',
    '$',
    '${env:X}',
    '\t',
    '---',
    '?',
    '0x1',
    '.inf',
    '~',
  );
  fc.assert(
    fc.property(
      fc.array(fc.oneof(pieces, fc.string({ maxLength: 3 })), { maxLength: 30 }),
      (parts) => {
        const loaded = loadThese({ files: { 'a.yaml': parts.join('') } });
        return (
          loaded.config !== undefined || loaded.issues.some(({ severity }) => severity === 'error')
        );
      },
    ),
    { numRuns: 300 },
  );
});

t.test('prints a configuration that can be read again, without values from outside', async (t) => {
  const files = {
    'a.yaml': SOUND,
    'b.yaml': `
receivers: {web: {protocols: {grpc: }, project: "\${env:PROJECT}"}}
exporters: {otlphttp: {url: "http://\${env:HOST}/\${env:NO:-x}", headers: {authorization: plain-secret}}}
service: {pipelines: {traces: {exporters: [sqlite, otlphttp]}}}`,
  };
  const env = { PROJECT: 'outside-one', HOST: 'outside-two' };
  const first = loadThese({ files, env });
  const printed = toYaml(first.printable);
  t.notMatch(printed, /outside|plain-secret/);
  t.match(printed, 'url: http://[REDACTED]/x');
  t.match(printed, 'read_timeout: 60s');
  const second = loadThese({ files: { 'a.yaml': printed } });
  t.same(second.issues, []);
  t.equal(toYaml(second.printable), printed);
});

t.test('shows no part of a value from outside', async (t) => {
  const over = 'receivers: {web: "${env:WEB}"}\n';
  const env = { WEB: '{endpoint: "10.1.2.3:4318", read_timeout: 5s}' };
  const whole = loadThese({ files: { 'a.yaml': SOUND, 'b.yaml': over }, env });
  t.same(whole.issues, []);
  t.match(whole.printable, {
    receivers: { web: { endpoint: '[REDACTED]', read_timeout: '[REDACTED]' } },
  });
  const pattern = 'processors.redaction.patterns=[{name: a, pattern: "${env:PATTERN}"}]';
  const wrong = loadThese({ sets: [pattern], env: { PATTERN: '(?<=hush)' } });
  t.match(textOf(wrong), 'invalid named capture: `[REDACTED]` (got "[REDACTED]")');
});

t.test('cuts a long value in a message', async (t) => {
  // 60 characters with the quotes.
  const value = 'v'.repeat(58);
  t.match(textOf(loadThese({ sets: [`receivers.web.read_timeout=${value}`] })), `(got "${value}")`);
  const cut = textOf(loadThese({ sets: [`receivers.web.read_timeout=${value}v`] }));
  t.match(cut, `(got "${value}v…)`);
});

t.test('expands defaults within defaults to a depth', async (t) => {
  const nested = (levels: number, text: string): string =>
    levels === 0 ? text : nested(levels - 1, `\${env:NONE:-${text}}`);
  t.equal(webWith(`project: "${nested(11, 'inner')}"`).web.project, 'inner');
  t.equal(webWith(`project: "${nested(12, 'inner')}"`).web.project, nested(1, 'inner'));
});

t.test('takes a name of a pipeline with 255 characters, and none with 256', async (t) => {
  const named = (length: number) => {
    const text = SOUND.replace('traces:', `traces/${'n'.repeat(length)}:`);
    return textOf(loadThese({ files: { 'a.yaml': text } }));
  };
  t.equal(named(255), '');
  t.match(named(256), "is not a pipeline's id");
});

t.test('prints no credentials of a URL', async (t) => {
  for (const [url, shown] of [
    ['http://me:hunter2@host/x?a=b@c', 'http://me:[REDACTED]@host/x?a=b@c'],
    ['http://me:hunter2@hunter2@host', 'http://me:[REDACTED]@host'],
    ['http://hunter2@host/', 'http://[REDACTED]@host/'],
    ['http://host:80/a@b', 'http://host:80/a@b'],
    ['http://host:80?a@b', 'http://host:80?a@b'],
  ]) {
    const over = (text: string) => `exporters: {otlphttp: {url: ${JSON.stringify(text)}}}\n`;
    const pipelines = 'service: {pipelines: {traces: {exporters: [sqlite, otlphttp]}}}';
    const loaded = loadThese({ files: { 'a.yaml': SOUND, 'b.yaml': over(url ?? '') + pipelines } });
    t.match(loaded.printable, { exporters: { otlphttp: { url: shown } } });
    const wrong = loadThese({ sets: [`receivers.web.endpoint=${url}`] });
    t.match(textOf(wrong), `(got ${JSON.stringify(shown)})`);
  }
});

t.test('parses durations, sizes and endpoints', async (t) => {
  const durations: [string, number | undefined][] = [
    ['300ms', 300],
    ['1.5h', 5_400_000],
    ['2h45m', 9_900_000],
    ['0s', 0],
    ['0', 0],
    ['1us', 0.001],
    ['.5s', 500],
    ['5', undefined],
    ['', undefined],
    ['-1s', undefined],
    ['1d', undefined],
    ['1 s', undefined],
    ['s', undefined],
    [`${'9'.repeat(400)}h`, undefined],
  ];
  for (const [text, value] of durations) t.equal(parseDuration(text), value, text);
  const sizes: [string, number | undefined][] = [
    ['25MiB', 26_214_400],
    ['10GiB', 10 * 2 ** 30],
    ['1kB', 1000],
    ['1KB', 1000],
    ['4096', 4096],
    ['1.5 kib', 1536],
    ['0', 0],
    ['-1', undefined],
    ['1e3', undefined],
    ['MiB', undefined],
    ['1X', undefined],
    ['9999999TiB', undefined],
    ['constructor', undefined],
  ];
  for (const [text, value] of sizes) t.equal(parseByteSize(text), value, text);
  const endpoints: [string, object | undefined][] = [
    ['127.0.0.1:80', { host: '127.0.0.1', port: 80 }],
    [':0', { host: '::', port: 0 }],
    ['[::1]:4318', { host: '::1', port: 4318 }],
    ['localhost:65535', { host: 'localhost', port: 65_535 }],
    ['::1:80', undefined],
    ['host', undefined],
    ['host:65536', undefined],
    ['http://h:1', undefined],
    ['a b:1', undefined],
    ['h:-1', undefined],
  ];
  for (const [text, value] of endpoints) t.same(parseEndpoint(text), value, text);
  const offsets: [string, string | undefined][] = [
    ['0.0.0.0:4318+10', '0.0.0.0:4328'],
    ['[::1]:4318+0', '[::1]:4318'],
    [':4318+', ':4318'],
    [':0+10', ':0'],
    [':65525+10', ':65535'],
    [':65526+10', undefined],
    [':80+-1', undefined],
    [':80+1+1', undefined],
  ];
  for (const [text, value] of offsets) t.equal(endpoint().safeParse(text).data, value, text);
});

t.test('suggests the nearest name, and none that is far off', async (t) => {
  t.equal(nearest('endpiont', ['endpoint', 'project']), 'endpoint');
  t.equal(nearest('Endpoint', ['endpoint']), 'endpoint');
  t.equal(nearest('zzz', ['endpoint', 'project']), undefined);
  t.equal(didYouMean('otpl', ['otlp']), '; did you mean "otlp"?');
  t.equal(didYouMean('x'.repeat(10_000), ['x'.repeat(9_999)]), '');
});

t.test('the JSON Schema has every component, and allows variables everywhere', async (t) => {
  const schema = jsonSchema(REGISTRY) as {
    properties: Record<string, { patternProperties?: Record<string, Record<string, unknown>> }>;
  };
  t.same(Object.keys(schema.properties).sort(), [
    'connectors',
    'exporters',
    'extensions',
    'processors',
    'receivers',
    'service',
  ]);
  t.ok(schema.properties.exporters?.patternProperties?.['^(otlphttp|otlp_http)(/.+)?$']);
  const web = schema.properties.receivers?.patternProperties?.['^(web)(/.+)?$'];
  t.match(web, {
    type: ['object', 'null'],
    additionalProperties: false,
    properties: { read_timeout: { default: '60s', description: 'Time for a body.' } },
  });
  const rate = schema.properties.processors?.patternProperties?.['^(validation)(/.+)?$'];
  t.match(rate, { properties: { rate: { anyOf: [{ type: 'number' }, { type: 'string' }] } } });
  t.notMatch(JSON.stringify(schema), /"(capability|listens|secret)":/);
});
