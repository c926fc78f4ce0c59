/** The kinds of components; each of their folders is a room, and they never import each other. */
export const KINDS = ['receivers', 'processors', 'exporters', 'connectors', 'extensions'];

/**
 * The rooms that each room may import, rooms of src without `src/`. The rows are in the order of the layers:
 * a room imports only rooms of earlier rows. test/architecture.test.ts holds the sources to this table.
 */
const ROWS: Readonly<Record<string, string>> = {
  'src/model': '',
  'src/thread': '',
  'src/component': 'model',
  'src/net': 'component',
  'src/schema': 'component',
  'src/tls': 'component net schema',
  'src/config': 'component schema',
  'src/telemetry': 'component net schema tls',
  'src/queue': 'component model',
  'src/tenancy': 'component model schema',
  'src/query': 'component model',
  'src/store': 'component model query queue tenancy thread',
  'src/sqlite': 'component model queue tenancy thread',
  'src/redis': 'component',
  'src/bullmq': 'component model queue redis',
  'src/otlp-client': 'model schema tls',
  'src/http': 'component model net schema store tenancy thread tls',
  'src/grpc': 'component http model net schema tls',
  'src/read': 'component http model query store thread',
  'src/control': 'component queue read store tenancy',
  'src/engine': 'component config grpc http model queue read schema telemetry',
  'src/supervisor': 'component config control net schema tenancy',
  receivers: 'bullmq component grpc http model queue redis schema',
  processors: 'component model net redis schema store tenancy thread',
  exporters: 'bullmq component model otlp-client queue redis schema store thread',
  connectors: 'component model queue schema sqlite store',
  extensions:
    'component control http model net queue read redis schema sqlite store tenancy thread tls',
  'src/registry.ts': 'connectors exporters extensions processors receivers config component',
};

export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(Object.entries(ROWS).map(([room, names]) => [room, namesIn(names)])),
  // Commands may use everything.
  'src/cli': ['src'],
  'src/main.ts': ['src/cli'],
};

function namesIn(names: string): string[] {
  return names
    .split(' ')
    .filter((name) => name !== '')
    .map((name) => (KINDS.includes(name) ? name : `src/${name}`));
}

/** The layers of rooms, the highest first, and the imports of each room. */
export function roomPicture(): string {
  const layers = new Map<number, string[]>();
  for (const room of Object.keys(MAY_IMPORT)) {
    const layer = layerOf(room);
    layers.set(layer, [...(layers.get(layer) ?? []), room]);
  }
  const highestFirst = [...layers].sort(([a], [b]) => b - a);
  const picture = highestFirst.map(([, rooms]) => `  ${rooms.join('   ')}`).join('\n     │\n');
  const rows = highestFirst.flatMap(([, rooms]) => rooms.map(rowOf));
  return `\`\`\`\n${picture}\n\`\`\`\n\n| room | imports |\n|---|---|\n${rows.join('\n')}`;
}

/** One above the highest of the rooms that it imports. */
function layerOf(room: string): number {
  const imports = MAY_IMPORT[room] ?? [];
  const others = imports.flatMap((name) => (name === 'src' ? Object.keys(ROWS) : [name]));
  return 1 + Math.max(-1, ...others.map(layerOf));
}

function rowOf(room: string): string {
  const names = (MAY_IMPORT[room] ?? []).map((name) =>
    name === 'src' ? 'every room of `src`' : `\`${name.replace(/^src\//, '')}\``,
  );
  const isFile = room.endsWith('.ts');
  const shown =
    room.startsWith('src/') && !isFile ? `[\`${room}\`](../${room}/README.md)` : `\`${room}\``;
  return `| ${shown} | ${names.join(', ')} |`;
}
