import type { Test } from 'tap';
import t from 'tap';
import { config as runsConfig } from '../../../receivers/runs/config.ts';
import { createReceiver } from '../../../receivers/runs/receiver.ts';
import { offer } from '../../../src/component/capability.ts';
import { LISTENERS } from '../../../src/http/listener.ts';
import type { ReceivedBatch } from '../../../src/model/batch.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { reject } from '../../../src/model/verbs.ts';
import type { NewScore, ScoreEditor } from '../../../src/store/scores.ts';
import { SCORE_EDITOR } from '../../../src/store/scores.ts';
import { STORE } from '../../../src/store/store.ts';
import { aTenant } from '../../helper/batches.ts';
import { testListeners } from '../../helper/http.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { acceptInto, createSink, memoryLedger, sinkPipeline } from '../../helper/sink.ts';

/** A receiver in front of a store of its own. */
async function receiving(
  t: Test,
  {
    hasStore = true,
    decide,
    edit = async (scores) => scores,
  }: {
    hasStore?: boolean;
    decide?: Parameters<typeof acceptInto>[1];
    edit?: ScoreEditor['edit'];
  } = {},
) {
  const { store, close } = await sqlitePlace(t).open();
  const [project] = await store.projects.list();
  const projectId = project?.id ?? '';
  const repeats = { enabled: true, window: 600_000, max_entries: 100 };
  const listeners = testListeners(undefined, undefined, { scores_per_trace: 3 }, repeats);
  const host = fakeHost({ services: [offer(LISTENERS, listeners)] });
  const sink = createSink();
  const ledger = memoryLedger();
  const accept = acceptInto(sink, decide);
  const settings = testSettings('receiver', 'runs', { host, logger: listeners.logger });
  const pipeline = sinkPipeline(sink, {
    tenant: aTenant({ projectId }),
    offers: hasStore ? [offer(STORE, store), offer(SCORE_EDITOR, { id: 'edit', edit })] : [],
    idempotency: ledger,
    accept: async (batch, request) => {
      const sealed = await accept(batch, request);
      ledger.keep(sealed, request);
      return sealed;
    },
  });
  const receiver = createReceiver(
    settings,
    runsConfig.parse({ endpoint: '127.0.0.1:0' }),
    pipeline,
  );
  await receiver.start();
  t.teardown(async () => {
    await receiver.shutdown(AbortSignal.abort());
    await listeners.close();
    await close();
  });
  const send = async (
    parts: Readonly<Record<string, unknown>>,
    more: Record<string, string> = {},
  ) => {
    const pieces = Object.entries(parts).flatMap(([name, content]) => {
      const text = typeof content === 'string' ? content : JSON.stringify(content);
      return `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`;
    });
    const answer = await fetch(`${listeners.served()[0]?.url}/runs/multipart`, {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=b', ...more },
      body: `${pieces.join('')}--b--\r\n`,
    });
    return answer.status;
  };
  const leftOut = (kind: string) =>
    settings.metrics.value('tracectl_runs_left_out_parts_total', { kind });
  const scores = (traceId: string) => store.scores.list(projectId, traceId);
  return { send, sink, scores, leftOut, store, projectId };
}

const RUN = { 'post.a': { id: 'a', name: 'x'.repeat(10) } };

t.test('feedback in a multipart request becomes a score, as that of POST /feedback', async (t) => {
  const { send, sink, scores, leftOut } = await receiving(t);
  for (const size of [10, 600_000]) {
    t.equal(
      await send({
        'post.a': { id: 'a', name: 'x'.repeat(size) },
        'feedback.f1': { id: 'f1', run_id: 'a', trace_id: 'a', key: 'quality', score: 0.5 },
        'feedback.f2': { run_id: 'b', trace_id: 'a', key: 'label', value: size, comment: 'c' },
      }),
      202,
    );
  }
  t.equal(sink.batches.length, 2);
  t.match(await scores('a'), [
    { id: 'f1', name: 'quality', value: 0.5, observationId: null },
    { id: 'f2', name: 'label', value: 600_000, observationId: 'b', comment: 'c' },
  ]);
  t.notOk(leftOut('feedback'));
});

t.test('a request may have feedback only', async (t) => {
  const { send, sink, scores } = await receiving(t);
  t.equal(await send({ 'feedback.f': { run_id: 'a', key: 'k', score: true } }), 202);
  t.match(await scores('a'), [{ id: 'f', name: 'k', value: true }]);
  t.equal(await send({ 'feedback.f': '{}' }), 400, 'nothing of it can be stored');
  t.match(sink.batches, [{ items: 0 }], 'the keeper of answers gets it');
});

t.test('malformed feedback costs the feedback only', async (t) => {
  const { send, sink, scores, leftOut } = await receiving(t);
  const good = { run_id: 'a', key: 'k', score: 1 };
  t.equal(
    await send({
      ...RUN,
      ...{ 'feedback.1': '{', 'feedback.2': '[]', 'feedback.3': { ...good, run_id: null } },
      ...{ 'feedback.4': { ...good, score: [1] }, 'feedback.5': { ...good, key: '' } },
      'feedback.6': { ...good, more: 'x'.repeat(65_536) },
      'feedback.7': good,
    }),
    202,
  );
  t.match(await scores('a'), [{ id: '7' }]);
  t.equal((await scores('a')).length, 1);
  t.equal(leftOut('feedback'), 6);
  t.equal(sink.batches.length, 1);
  const many = { 'feedback.8': good, 'feedback.9': good, 'feedback.10': good };
  t.equal(await send({ ...RUN, ...many }), 202);
  t.equal((await scores('a')).length, 3, 'a trace has a bounded number of scores');
  t.equal(leftOut('feedback'), 7);
});

t.test('feedback of a refused request is not stored', async (t) => {
  let isFull = true;
  const { send, sink, scores } = await receiving(t, {
    decide() {
      if (isFull) throw new Refusal('monthly_limit', 'The accepted-event limit was reached.');
    },
  });
  const parts = { ...RUN, 'feedback.f': { run_id: 'a', key: 'k', score: 1 } };
  t.equal(await send(parts), 402);
  t.same(await scores('a'), []);
  isFull = false;
  t.equal(await send(parts), 202);
  t.match(await scores('a'), [{ id: 'f' }]);
  t.equal(sink.batches.length, 1);
});

t.test(
  'a repetition of a request whose runs could not be stored replaces its feedback',
  async (t) => {
    const { send, sink, scores } = await receiving(t);
    sink.behave('retryable');
    const parts = { ...RUN, 'feedback.f': { id: null, run_id: 'a', key: 'k', score: 1 } };
    t.equal(await send(parts), 503);
    sink.behave('ok');
    t.equal(await send(parts), 202);
    t.match(await scores('a'), [{ id: 'f' }]);
    t.equal((await scores('a')).length, 1);
  },
);

t.test('a repetition of an accepted request stores its feedback no second time', async (t) => {
  const { send, sink, scores, store, projectId } = await receiving(t);
  const parts = { ...RUN, 'feedback.f': { run_id: 'a', key: 'k', score: 1 } };
  t.equal(await send(parts), 202);
  const [score] = await scores('a');
  const changed = { ...score, value: 2, at: score?.createdAt } as NewScore;
  await store.scores.put(projectId, 'a', changed, 3);
  t.equal(await send(parts), 202);
  t.match(await scores('a'), [{ id: 'f', value: 2 }], 'the later change stays');
  t.equal(sink.batches.length, 1);
});

t.test('a repetition without an accepted run stores its feedback no second time', async (t) => {
  const feedback = { 'feedback.f': { run_id: 'a', key: 'k', score: 1 } };
  const decide = (batch: ReceivedBatch) => {
    if (batch.requestItems > 0) reject(batch, 0, 'invalid_field', 'is not valid');
  };
  const cases = [feedback, { ...RUN, ...feedback }].flatMap((parts) =>
    [{}, { 'idempotency-key': 'k' }].map((headers) => ({ parts, headers })),
  );
  for (const { parts, headers } of cases) {
    const { send, scores, store, projectId } = await receiving(t, { decide });
    const status = await send(parts, headers);
    const [score] = await scores('a');
    t.match(score, { id: 'f', value: 1 });
    const changed = { ...score, value: 2, at: score?.createdAt } as NewScore;
    await store.scores.put(projectId, 'a', changed, 3);
    t.equal(await send(parts, headers), status);
    t.match(await scores('a'), [{ id: 'f', value: 2 }], 'the later change stays');
  }
});

t.test('feedback that cannot be stored keeps no answer', async (t) => {
  const { send, scores, store, projectId } = await receiving(t);
  const more = (id: string) =>
    ({ id, observationId: null, name: 'k', value: 1, comment: null, source: null, at: 1 }) as const;
  for (const id of ['1', '2', '3']) await store.scores.put(projectId, 'a', more(id), 3);
  const parts = { 'feedback.f': { run_id: 'a', key: 'k', score: 1 } };
  t.equal(await send(parts), 400, 'the trace is full');
  await store.scores.remove(projectId, '1');
  t.equal(await send(parts), 202);
  t.match((await scores('a')).at(-1), { id: 'f' });
});

t.test('feedback beside runs that are all rejected is stored', async (t) => {
  const { send, sink, scores } = await receiving(t, {
    decide: (batch) => reject(batch, 0, 'invalid_field', 'is not valid'),
  });
  t.equal(await send({ ...RUN, 'feedback.f': { run_id: 'b', key: 'k', score: 1 } }), 400);
  t.match(await scores('b'), [{ id: 'f' }]);
  t.match(sink.batches, [{ items: 0 }]);
});

t.test('a processor of the pipeline edits feedback before it is stored', async (t) => {
  const { send, scores } = await receiving(t, {
    edit: async (given) => given.map((score) => ({ ...score, comment: '***' })),
  });
  const about = { run_id: 'a', key: 'k', score: 1, comment: 'secret' };
  t.equal(await send({ ...RUN, 'feedback.f': about }), 202);
  t.match(await scores('a'), [{ id: 'f', comment: '***' }]);
});

t.test('without a store, feedback is left out', async (t) => {
  const { send, leftOut } = await receiving(t, { hasStore: false });
  t.equal(await send({ ...RUN, 'feedback.f': { run_id: 'a', key: 'k', score: 1 } }), 202);
  t.equal(leftOut('feedback'), 1);
});
