import t from 'tap';
import { namedComponents, readConfig } from '../../src/config/load.ts';
import { allFactories, factoriesOf } from '../../src/registry.ts';

const TEXT = `
extensions: {file_storage: {directory: data}}
receivers: {otlp: {}, otlp/second: }
exporters: {file: {}}
processors: []
service: {}
`;

function namesIn(text: string) {
  const read = () => text;
  return namedComponents(readConfig({ files: ['a.yaml'], env: {}, cwd: '/', read }));
}

t.test('the factories of a configuration are those of its components', async (t) => {
  const factories = await factoriesOf(namesIn(TEXT));
  t.same(
    factories.map(({ kind, type }) => `${kind} ${type}`),
    ['extension file_storage', 'receiver otlp', 'exporter file'],
  );
});

t.test('a configuration without components needs no factory', async (t) => {
  t.same(await factoriesOf(namesIn('service: {}')), []);
  t.same(await factoriesOf(namesIn('[]')), []);
  t.same(await factoriesOf(namesIn('a: [')), []);
});

t.test('an alias or an unknown type gives all factories', async (t) => {
  const all = await allFactories();
  t.same(await factoriesOf(namesIn('exporters: {otlp_http: {}}')), all);
  t.same(await factoriesOf(namesIn('exporters: {fil: {}}')), all);
  t.same(await factoriesOf([{ kind: 'receiver', type: 'file' }]), all, 'a type of another kind');
});
