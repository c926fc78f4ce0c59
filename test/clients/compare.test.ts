import t from 'tap';
import { differences, type ExpectedTrace } from './compare.ts';

const ENDED = { ended: true, state: 'finished', error: null, ignored: [], usage: null };
const ROOT = { ...ENDED, id: 'r', parent_id: null, name: 'root', kind: 'chain', start_time: '1' };
const CALL = {
  ...{ ...ENDED, id: 'c', parent_id: 'r', name: 'call', kind: 'generation', start_time: '2' },
  ...{ model: 'm', usage: { input_tokens: 1 }, inputs: { messages: [{ role: 'user' }] } },
};
const TRACE = { name: 'root', session_id: 's', usage: { input_tokens: 1 } };

function wrong(observations: readonly object[], change: object = {}): string[] {
  const call = {
    ...{ name: 'call', kind: 'generation', model: 'm', usage: { input_tokens: 1 } },
    ...{ inputs: { messages: [{}] }, ...change },
  };
  const root = { name: 'root', kind: 'chain', children: [call] };
  const expected: ExpectedTrace = { name: 'root', session: 's', tree: [root] };
  return differences([{ trace: TRACE, observations: [...observations] as never }], [expected]);
}

t.test('equal traces have no difference', async (t) => {
  t.strictSame(wrong([ROOT, CALL]), []);
  t.strictSame(wrong([CALL, ROOT], { inputs: { messages: [{ role: /^us/ }] } }), []);
});

t.test('a missing, an additional and a displaced observation are differences', async (t) => {
  t.strictSame(wrong([ROOT]), ['trace root > root: call (generation) is not among none']);
  t.match(wrong([ROOT, CALL, { ...CALL, id: 'd' }]), [/call \(generation\) is unexpected/]);
  t.match(wrong([ROOT, { ...CALL, parent_id: 'x' }]), [/the parent of call is missing/, /call/]);
  t.match(wrong([ROOT, { ...CALL, parent_id: null }]), [/call .* unexpected/, /not among none/]);
});

t.test('a field with another value is a difference', async (t) => {
  for (const [field, value] of [
    ['model', 'n'],
    ['usage', null],
    ['usage', { input_tokens: 2 }],
    ['inputs', { messages: [] }],
    ['inputs', { messages: [{}, {}] }],
    ['ended', false],
    ['state', 'running'],
    ['error', { message: 'x' }],
    ['ignored', [{ path: 'x', reason: 'y' }]],
  ] as const) {
    t.match(wrong([ROOT, { ...CALL, [field]: value }]), [new RegExp(`: ${field} is`)], field);
  }
  t.match(wrong([ROOT, CALL], { usage: undefined }), [/usage is .* not null/]);
});

t.test('a second trace and a wrong session are differences', async (t) => {
  const expected = { name: 'a', session: 's', tree: [] };
  const found = { trace: { name: 'a', session_id: 's' }, observations: [] };
  t.strictSame(differences([found], [expected]), []);
  t.strictSame(differences([found, found], [expected]), ['traces: found a, a, not a']);
  t.strictSame(differences([], [expected]), ['traces: found none, not a']);
  const other = { ...found, trace: { name: 'a', session_id: 't' } };
  t.strictSame(differences([other], [expected]), ['trace a: session_id is "t", not "s"']);
});
