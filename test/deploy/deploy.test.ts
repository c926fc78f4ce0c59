import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { EXIT } from '../../src/cli/exit-status.ts';

/** Checks that the files of deploy/ match the product. Running the containers needs a container engine. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DEPLOY = resolve(ROOT, 'deploy');
/** Default of service.shutdown_timeout. */
const SHUTDOWN_SECONDS = 20;

type Service = {
  readonly command: string | readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly stop_grace_period?: string;
  readonly init?: boolean;
  readonly ports?: readonly string[];
  readonly deploy?: { readonly replicas: number };
};

const read = (...path: string[]): string => readFileSync(resolve(...path), 'utf8');
const compose = parse(read(DEPLOY, 'compose.yaml'), { merge: true }) as {
  services: Record<'gateway' | 'worker' | 'redis', Service>;
};

t.test('the compose file runs the shipped configurations with all their variables', async (t) => {
  for (const name of ['gateway', 'worker'] as const) {
    const { environment = {}, volumes = [], stop_grace_period, command } = compose.services[name];
    const [source = '', target = ''] =
      volumes.find((volume) => volume.includes('/config/'))?.split(':') ?? [];
    t.ok(existsSync(resolve(DEPLOY, source)), source);
    t.ok(command.includes(target), `${name} reads ${target}`);
    const config = read(DEPLOY, source);
    for (const [, variable = '', fallback] of config.matchAll(/\$\{env:(\w+)(:-)?/g)) {
      if (fallback === undefined) t.ok(variable in environment, `${name} has ${variable}`);
    }
    t.ok(
      Number.parseInt(stop_grace_period ?? '', 10) > SHUTDOWN_SECONDS,
      'a stop is not cut short',
    );
    t.equal(compose.services[name].init, true, 'a stop is heard while the program starts');
  }
  t.match(compose.services.gateway.environment, { TRACECTL_ADMIN_TOKEN: /TRACECTL_ADMIN_TOKEN/ });
  t.ok(compose.services.redis.command.includes('noeviction'), 'Redis never evicts');
});

t.test('gateways keep their ports across a restart, and workers do not share a file', async (t) => {
  const { ports = [], deploy } = compose.services.gateway;
  const [, first = '', last = ''] = /^127\.0\.0\.1:(\d+)-(\d+):4318$/.exec(ports.join()) ?? [];
  t.equal(Number(last) - Number(first) + 1, deploy?.replicas, 'there is no other port to move to');
  const command = [compose.services.worker.command].flat().join(' ');
  t.match(command, /--set exporters\.file\.path=\S*\$\$\{env:HOSTNAME\}/);
});

t.test('the container is built from the tree, and checks the health endpoint', async (t) => {
  const file = read(DEPLOY, 'Containerfile');
  const [, health = ''] = /TRACECTL_HEALTH=(\S+)/.exec(file) ?? [];
  t.equal(health, 'http://127.0.0.1:13133/readyz', 'the default of health_check');
  t.match(compose.services.worker.environment?.TRACECTL_HEALTH, /:13134\//);
  t.match(read(ROOT, 'config', 'worker.yaml'), /13134/);
  const { engines } = JSON.parse(read(ROOT, 'package.json')) as { engines: { node: string } };
  const [, node = ''] = /^FROM node:(\d+)/m.exec(file) ?? [];
  t.equal(`>=${node}`, engines.node);
  const ignored = read(ROOT, '.dockerignore').split('\n');
  for (const needed of ['src', 'ui', 'config', 'scripts', 'docs', 'package-lock.json']) {
    t.notOk(ignored.includes(needed), `${needed} is in the build`);
  }
  t.match(file, /RUN npm run build\b/);
  const { scripts } = JSON.parse(read(ROOT, 'package.json'));
  t.match(scripts.build, /build:ui/, 'the build makes the pages, which dist carries');
  t.ok(ignored.includes('node_modules'), 'what was installed for another system is not');
  t.match(file, /^COPY package\.json package-lock\.json .*\nRUN npm ci$/m, 'as it is locked');
  t.notMatch(file, /npm install/, 'the image installs the lock file');
});

t.test('files of the package that only a checkout can build say so', async (t) => {
  const { files } = JSON.parse(read(ROOT, 'package.json')) as { files: readonly string[] };
  t.ok(files.includes('deploy'));
  t.notOk(files.includes('package-lock.json') || files.includes('scripts'));
  for (const name of ['compose.yaml', 'Containerfile']) {
    t.match(
      read(DEPLOY, name),
      /^# .*The build needs a checkout of the repository: the npm package/m,
    );
  }
  t.match(read(DEPLOY, 'compose.yaml'), '--no-build');
});

t.test('the container serves with its built-in configuration', async (t) => {
  const [, from = '', to = ''] =
    /sed -E 's\/(\S+?)\/(\S+?)\/' config\/embedded\.yaml/.exec(read(DEPLOY, 'Containerfile')) ?? [];
  const text = read(ROOT, 'config', 'embedded.yaml').replaceAll(
    new RegExp(from, 'g'),
    to.replace('\\1', '$1'),
  );
  const { receivers, extensions } = parse(text) as Record<'receivers' | 'extensions', unknown>;
  const everywhere = { endpoint: '0.0.0.0:4318' };
  t.match(receivers, {
    native: everywhere,
    runs: everywhere,
    otlp: { protocols: { http: everywhere, grpc: { endpoint: '0.0.0.0:4317' } } },
  });
  t.match(extensions, { admin: { endpoint: /^127\./ }, health_check: { endpoint: /^127\./ } });
});

t.test(
  'the systemd unit leaves time to stop, and does not loop on a bad configuration',
  async (t) => {
    const unit = read(DEPLOY, 'tracectl.service');
    const value = (key: string): string => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1] ?? '';
    t.ok(Number.parseInt(value('TimeoutStopSec'), 10) > SHUTDOWN_SECONDS);
    t.equal(value('Restart'), 'on-failure', 'it restarts a process that ended itself');
    t.equal(
      value('RestartPreventExitStatus'),
      [EXIT.newer_data, EXIT.removed_data, EXIT.damaged_data, EXIT.configuration].join(' '),
    );
    t.equal(value('StartLimitIntervalSec'), '0', 'it does not give up on a store that is away');
    t.match(value('ExecStart'), /tracectl run --config \/etc\/tracectl\/%N\.yaml$/);
    t.match(value('ExecReload'), /tracectl reload --config \/etc\/tracectl\/%N\.yaml$/);
    t.equal(
      value('WorkingDirectory'),
      `/var/lib/${value('StateDirectory')}`,
      'it starts in its data',
    );
    t.equal(value('StateDirectory'), '%N', 'each daemon of a machine has its own');
  },
);
