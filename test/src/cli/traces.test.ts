import { readFileSync } from 'node:fs';
import t from 'tap';
import { costText, latencyText, timeText, tokensText } from '../../../src/cli/traces/figures.ts';
import type { TreeObservation } from '../../../src/cli/traces/forest.ts';
import { treeRows } from '../../../src/cli/traces/forest.ts';
import type { ListedTrace } from '../../../src/cli/traces/listing.ts';
import { renderTraces } from '../../../src/cli/traces/listing.ts';
import type { ShownTrace } from '../../../src/cli/traces/tree.ts';
import { renderTree } from '../../../src/cli/traces/tree.ts';
import { cutTo, fit, widthOf } from '../../../src/cli/width.ts';

const at = (ms: number): string => new Date(Date.UTC(2026, 10, 20, 21, 30) + ms).toISOString();

function aTrace(more: Partial<ShownTrace> = {}): ShownTrace {
  return {
    ...{ id: '4bf92f3577b34da6a3ce929d0e0e4736', name: 'answer', state: 'finished' },
    ...{ start_time: at(0), latency_ms: 2310, user_id: 'jane', session_id: 's-1' },
    ...{ usage: { total_tokens: 1234 }, cost: { total: 0.0123 } },
    ...{ observation_count: 5, error_count: 1, models: ['gpt-4o'] },
    ...more,
  };
}

function step(id: string, parent_id: string | null, more: Partial<TreeObservation> = {}) {
  const step: TreeObservation = {
    ...{ id, parent_id, name: id, kind: 'span', status: 'success', error: null },
    ...{ start_time: at(0), end_time: at(2310), usage: null, cost: null },
    ...more,
  };
  return step;
}

const STEPS = [
  step('answer', null, { kind: 'agent' }),
  step('検索 🔎 documents', 'answer', { kind: 'retriever', end_time: at(210) }),
  step('rerank', '検索 🔎 documents', { start_time: at(100), end_time: at(210) }),
  step('chat', 'answer', {
    ...{ kind: 'generation', start_time: at(210), end_time: at(2310) },
    ...{ usage: { input_tokens: 1000, output_tokens: 234 }, cost: { total: 0.0123 } },
  }),
  step('get \u001b[31mweather', 'chat', {
    ...{ kind: 'tool', status: 'error', start_time: at(1000), end_time: at(1500) },
    error: { type: 'TimeoutError', message: 'no answer within 500 ms\nfrom the server' },
  }),
  step('summarize', 'answer', { start_time: at(2000), end_time: null, status: 'pending' }),
];

const plain = { all: false, paint: (_style: string, text: string) => text };

function golden(name: string): string {
  return readFileSync(new URL(`golden/${name}.txt`, import.meta.url), 'utf8').trimEnd();
}

function widest(text: string): number {
  return Math.max(...text.split('\n').map(widthOf));
}

t.test('the tree of a trace looks as recorded, in 80 and in 140 columns', async (t) => {
  for (const columns of [80, 140]) {
    const text = renderTree(aTrace(), STEPS, { ...plain, columns });
    t.equal(text, golden(`trace-${columns}`));
    t.ok(widest(text) <= columns, `${widest(text)} columns`);
  }
});

t.test('the tree fits every width, and has a bar from 60 columns on', async (t) => {
  for (let columns = 40; columns <= 250; columns++) {
    const text = renderTree(aTrace(), STEPS, { ...plain, columns });
    if (widest(text) > columns || (columns >= 60 && !text.includes('█'))) t.fail(`${columns}`);
  }
});

t.test('the tree in a terminal of few columns, or of none, has no bar', async (t) => {
  for (let columns = 0; columns <= 36; columns++) {
    const text = renderTree(aTrace(), STEPS, { ...plain, columns });
    t.notMatch(text, /[█░]/, `${columns}`);
  }
});

t.test('colours surround whole texts, and failures are red', async (t) => {
  const paint = (style: string, text: string) => `<${style}>${text}</${style}>`;
  const text = renderTree(aTrace(), STEPS, { all: false, columns: 100, paint });
  t.match(text, /<red>[^\n]*✗ get [^\n]*<\/red> {2}<red>/);
  t.match(text, '<red>      TimeoutError: no answer within 500 ms\\u000afrom the server</red>');
  t.match(text, /summarize +<yellow> *░+<\/yellow>/);
});

t.test(
  'a trace of ten thousand observations is short, keeps failures, and is whole with all',
  async (t) => {
    const many = [step('root', null)];
    for (let i = 0; i < 10_000; i++) {
      many.push(step(`o-${i}`, 'root', { status: i === 7_000 ? 'error' : 'success' }));
    }
    const text = renderTree(aTrace(), many, { ...plain, columns: 80 });
    t.ok(text.split('\n').length < 30);
    t.match(text, '✗ o-7000');
    t.match(text, '… 9989 more (--all)');
    const whole = treeRows(many, true);
    t.equal(whole.length, 10_001);
  },
);

t.test('a parent shows twenty children, and of twenty-one the first ten', async (t) => {
  const children = (count: number) =>
    treeRows([
      step('root', null),
      ...Array.from({ length: count }, (_, i) => step(`${i}`, 'root')),
    ]);
  t.equal(children(20).length, 21);
  t.equal(children(21).length, 12);
  t.match(children(21).at(-1), { omitted: 11, failed: 0 });
});

t.test('a parent has more children than a call has arguments', async (t) => {
  const children = Array.from({ length: 150_000 }, (_, i) => step(`${i}`, 'root'));
  const rows = treeRows([step('root', null), ...children]);
  t.match(rows.at(-1), { omitted: 149_990, failed: 0 });
});

t.test('five hundred rows are shown, and one more row counts the others', async (t) => {
  const chain = (length: number) =>
    treeRows(Array.from({ length }, (_, i) => step(`${i}`, i === 0 ? null : `${i - 1}`)));
  t.equal(chain(500).length, 500);
  t.match(chain(501).at(-1), { omitted: 1, failed: 0 });
  t.equal(chain(501).length, 501);
  t.match(chain(30_000).at(-1), { omitted: 29_500 });
});

t.test('deep levels are numbered', async (t) => {
  const chain = Array.from({ length: 12 }, (_, i) => step(`${i}`, i === 0 ? null : `${i - 1}`));
  const prefixes = treeRows(chain).map(({ prefix }) => prefix);
  t.equal(prefixes[10], `${'  '.repeat(9)}└ `);
  t.equal(prefixes[11], '… 11 ');
});

t.test('an observation without its parent is a root, and a cycle is shown once', async (t) => {
  const rows = treeRows([step('a', 'gone'), step('b', 'c'), step('c', 'b'), step('d', 'd')]);
  const names = rows.map((row) => ('observation' in row ? [row.depth, row.observation.id] : []));
  t.same(names, [
    [0, 'a'],
    [0, 'd'],
    [0, 'b'],
    [1, 'c'],
  ]);
});

const LISTED: ListedTrace[] = [
  aTrace(),
  aTrace({
    id: 'short',
    name: '要約する仕事 🚀 with a name that is much too long',
    latency_ms: 65_000,
  }),
  aTrace({ name: 'a\u001b[2Jb', state: 'interrupted', latency_ms: null, usage: null, cost: null }),
  aTrace({ name: null, start_time: null, user_id: null, session_id: null }),
];

t.test('the table of traces looks as recorded, in 80 and in 140 columns', async (t) => {
  for (const columns of [80, 140]) {
    const text = renderTraces(LISTED, columns);
    t.equal(text, golden(`traces-${columns}`));
    t.ok(widest(text) <= columns, `${widest(text)} columns`);
  }
});

t.test('widths are those of a terminal', async (t) => {
  for (const [text, width] of [
    ['abc', 3],
    ['日本', 4],
    ['e\u0301', 1],
    ['👩‍👩‍👧', 2],
    ['한글', 4],
    ['サーバー・', 10],
    ['ｻｰﾊﾞｰ', 5],
    ['ㄅㄆ', 4],
    ['㈱、。「', 8],
    ['ﾡ', 1],
    ['\u200b', 0],
    ['', 0],
  ] as const) {
    t.equal(widthOf(text), width, JSON.stringify(text));
  }
  t.equal(cutTo('日本語', 6), '日本語');
  t.equal(cutTo('日本語', 5), '日本…');
  t.equal(cutTo('日本語', 4), '日…');
  t.equal(cutTo('abc', 3), 'abc');
  t.equal(cutTo('abcd', 3), 'ab…');
  t.equal(cutTo('abcd', 0), '');
  t.equal(fit('日本語', 4), '日… ');
  t.equal(fit('a', 3, 'right'), '  a');
});

t.test('figures are short', async (t) => {
  const durations = [null, 0, 0.4, 1, 999.4, 999.5, 59_994, 59_996, 3_599_400, 3_600_000];
  t.same(durations.map(latencyText), [
    ...['-', '0 ms', '<1 ms', '1 ms', '999 ms', '1.00 s', '60.0 s', '1m 0s', '59m 59s', '1h 0m'],
  ]);
  const tokens = [9_999, 10_000, 999_499, 999_500].map((total_tokens) => ({
    usage: { total_tokens },
  }));
  t.same(tokens.map(tokensText), ['9999', '10.0k', '999k', '1.00M']);
  t.equal(tokensText({ usage: {} }), '-');
  const costs = [null, 0, 0.00005, 0.0123, 0.5, 12.345].map((total) => ({ cost: { total } }));
  t.same(costs.map(costText), ['-', '$0', '<$0.0001', '$0.0123', '$0.5000', '$12.35']);
  t.equal(timeText(at(0), true), '11-20 21:30:00');
});
