import t from 'tap';
import { renderEnvelopeRefusal } from '../../../src/http/envelope.ts';
import type { Hold } from '../../../src/http/holds.ts';
import { addRoute, find, holdOf } from '../../../src/http/holds.ts';
import type { CommonRoute, Entrance, Handler, Route } from '../../../src/http/routes.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

const handlers = new Map<string, Handler>();

/** The same handler for each name, so that a test sees which one was found. */
function handler(name: string): Handler {
  const known = handlers.get(name) ?? (() => {});
  handlers.set(name, known);
  return known;
}

function route(path: string, name: string, method = 'GET'): Route {
  return { method, path, renderRefusal: renderEnvelopeRefusal, handler: handler(name) };
}

type Given = {
  graph?: number;
  state?: Hold['state'];
  routes?: Route[];
  preference?: () => number;
};

/** A hold whose common routes, such as `/common`, have the handler `common of NAME`. */
function hold(
  name: string,
  { graph = 1, state = 'open', routes = [], preference = () => 0 }: Given,
): Hold {
  const entrance = { pipeline: sinkPipeline(createSink()), fallback: undefined };
  const common = ['/common', '/common/:id'].flatMap((path) =>
    ['GET', 'PATCH'].map((method) => {
      return { ...route(path, name, method), handler: () => handler(`common of ${name}`) };
    }),
  );
  const made = holdOf([], graph, entrance, { routes: common, preference });
  for (const one of routes) addRoute('127.0.0.1:1', [], made, one);
  made.state = state;
  return made;
}

function found(holds: readonly Hold[], path: string, method = 'GET'): string {
  const result = find(holds, method, path);
  if ('refusal' in result) return result.refusal.code;
  return [...handlers].find(([, known]) => known === result.handler)?.[0] ?? '';
}

t.test('prefers a path without parameters, whichever was added first', async (t) => {
  for (const routes of [
    [route('/a/:id', 'any'), route('/a/b', 'exact')],
    [route('/a/b', 'exact'), route('/a/:id', 'any')],
  ]) {
    const holds = [hold('one', { routes })];
    t.same([found(holds, '/a/b'), found(holds, '/a/c')], ['exact', 'any']);
    t.equal(found(holds, '/a/b', 'HEAD'), 'exact', 'HEAD is served as GET');
    t.equal(found(holds, '/a/b', 'PUT'), 'method_not_allowed');
    t.equal(found(holds, '/a/'), 'not_found');
  }
});

t.test('a route with parameters serves a method that the path without them does not', async (t) => {
  const holds = [hold('one', { routes: [route('/a/b', 'exact'), route('/a/:id', 'any', 'PUT')] })];
  t.equal(found(holds, '/a/b', 'PUT'), 'any');
});

t.test('prefers an open receiver, then the newest graph', async (t) => {
  const routes = (name: string) => ({ routes: [route('/x', name, 'POST')] });
  const old = hold('old', { ...routes('old'), graph: 1 });
  const next = hold('next', { ...routes('next'), graph: 2, state: 'bound' });
  const holds = [old, next];
  t.equal(found(holds, '/x', 'POST'), 'old');
  next.state = 'open';
  t.equal(found(holds, '/x', 'POST'), 'next');
  t.equal(found([next, old], '/x', 'POST'), 'next');
  old.state = 'closed';
  t.equal(found(holds, '/x', 'POST'), 'next');
  next.state = 'closed';
  t.equal(found(holds, '/x', 'POST'), 'unavailable');
});

t.test('serves a common route through the preferred receiver, then the first', async (t) => {
  const [one, two] = [hold('one', {}), hold('two', { preference: () => 1 })];
  t.equal(found([one, two], '/common'), 'common of two');
  t.equal(found([two, one], '/common'), 'common of two');
  two.state = 'closed';
  t.equal(found([one, two], '/common'), 'common of one');
  const [three, four] = [hold('three', {}), hold('four', {})];
  t.equal(found([three, four], '/common'), 'common of three');
  t.equal(found([three, hold('five', { graph: 2 })], '/common'), 'common of five');
});

t.test(
  'serves a common route through the same receiver when a reload replaces another',
  async (t) => {
    const holds: Hold[] = [];
    const seen: (() => readonly Entrance[])[] = [];
    const add = (id: string, graph: number): Hold => {
      const name = `${id} of ${graph}`;
      const entrance = { pipeline: sinkPipeline(createSink(), { id }), fallback: undefined };
      const routes = ['/common', '/common/:id'].map((path) => ({
        ...route(path, name),
        handler(_entrance: Entrance, all: () => readonly Entrance[]) {
          seen.push(all);
          return handler(name);
        },
      }));
      const made = holdOf(holds, graph, entrance, { routes, preference: () => 1 });
      made.state = 'open';
      holds.push(made);
      return made;
    };
    const served = () => [...new Set(['/common', '/common/5'].map((path) => found(holds, path)))];
    const [first, second] = [add('a', 1), add('b', 1)];
    const replaced = add('b', 2);
    second.state = 'closed';
    t.same(served(), ['a of 1']);
    const next = add('a', 3);
    t.same(served(), ['a of 3'], 'the newest graph of one pipeline');
    first.state = 'closed';
    t.same(served(), ['a of 3']);
    holds.splice(0, holds.length, replaced, next);
    t.same(served(), ['a of 3']);
    for (const all of seen) {
      t.same(
        all().map(({ pipeline }) => pipeline.id),
        ['a', 'b'],
      );
    }
    next.state = 'closed';
    t.same(served(), ['b of 2']);
  },
);

t.test('a common route knows the entrances that are open', async (t) => {
  const seen: (() => readonly Entrance[])[] = [];
  const common: CommonRoute = {
    ...route('/common', 'common'),
    handler(_entrance, all) {
      seen.push(all);
      return () => {};
    },
  };
  const holds: Hold[] = [];
  const entrances = [1, 2, undefined, 3].map((number) =>
    number === undefined
      ? undefined
      : { pipeline: sinkPipeline(createSink()), fallback: undefined },
  );
  for (const entrance of entrances) {
    const made = holdOf(holds, 1, entrance, { routes: [common], preference: () => 0 });
    made.state = entrance === entrances[1] ? 'bound' : 'open';
    holds.push(made);
  }
  const open = [entrances[0], entrances[3]];
  for (const all of seen) t.strictSame(all(), open);
  t.equal(seen.length, 3);
});

t.test('a receiver\u2019s own route comes before a common one with the same path', async (t) => {
  const routes = [route('/common', 'own', 'HEAD'), route('/common', 'own too')];
  const holds = [hold('one', { routes })];
  t.equal(found(holds, '/common'), 'own too');
  t.equal(found(holds, '/common', 'HEAD'), 'own');
});

t.test('counts the requests in progress of the receiver that serves them', async (t) => {
  const one = hold('one', { routes: [route('/x', 'x'), route('/y/:id', 'y')] });
  let idle = 0;
  one.onIdle = () => idle++;
  const started = [find([one], 'GET', '/x'), find([one], 'GET', '/y/1')];
  t.equal(one.active, 2);
  for (const each of started) if ('done' in each) each.done();
  t.same([one.active, idle], [0, 1]);
});

t.test('a 404 and a 405 say what to change in the reason phrase, too', async (t) => {
  const holds = [hold('one', { routes: [route('/api/v1/traces', 'list')] })];
  const head = {
    ...({ transport: 'http', method: 'POST', path: '/', headers: new Map() } as const),
    ...{ declaredBytes: 0, remoteAddress: '127.0.0.1', receivedAt: 0 },
  };
  for (const [path, phrase] of [
    ['/', /^Nothing is served at the root/],
    ['/api/v1/traces', /^This path takes GET, HEAD\. Spans are accepted at \/v1\/traces/],
  ] as const) {
    const result = find(holds, 'POST', path);
    if (!('refusal' in result)) throw new Error('the path is served');
    t.match(result.renderRefusal(result.refusal, head).reasonPhrase, phrase, path);
  }
});
