import t from 'tap';
import type { RenderedObservation } from '../../../src/store/observation-json.ts';
import { observationJson, observationMembers } from '../../../src/store/observation-json.ts';

const PLAIN: RenderedObservation = {
  ...{ id: 'a "quoted" id', projectId: 'p', traceId: null, parentId: null, name: null },
  ...{ kind: null, status: null, startTime: null, endTime: null, usage: null, model: null },
  ...{ error: null, version: '0', ended: false, sessionId: null, userId: null, external: null },
  ...{
    customFields: null,
    details: null,
    source: 'otlp',
    createdAt: 0,
    updatedAt: 1_768_435_200_123,
  },
};

const FULL: RenderedObservation = {
  ...{
    id: 'trace:id\n',
    projectId: 'p',
    traceId: 'trace',
    parentId: 'trace:parent',
    name: '\ud800',
  },
  ...{ kind: 'llm', status: 'error', state: 'finished', model: 'm', version: '12', ended: true },
  startTime: { ms: 1_768_435_200_000, ns: 1 },
  endTime: { ms: 1_768_435_201_000, ns: 0 },
  usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
  error: { type: 'T', message: 'm"', stacktrace: null },
  ...{ sessionId: 's', userId: 'u', external: { run_id: 'r' }, customFields: { a: '"x' } },
  details: {
    ...{ provider: 'p', environment: 'e', release: 'r', tags: ['a', '"'], tool: 't', ttftMs: 1.5 },
    ...{ promptName: 'n', cost: { input: 1, output: null, total: 3, source: 'computed' } },
    attachments: [{ name: 'f', contentType: 'text/plain', bytes: 3, sha256: 'ab' }],
  },
  ...{ source: 'native', createdAt: 1_768_435_200_000, updatedAt: 1_768_435_200_000 },
};

const A_TOOL: RenderedObservation = { ...FULL, kind: 'tool', details: null };

t.test(
  'the JSON of an observation has the members in their order, and the custom fields',
  async (t) => {
    for (const observation of [PLAIN, FULL, { ...FULL, details: { promptVersion: '1' } }, A_TOOL]) {
      for (const place of [undefined, { counted: true, costCounted: false, cycle: false }]) {
        const members = observationMembers(observation, place);
        const custom_fields = observation.customFields ?? {};
        const text = JSON.stringify({ ...members, custom_fields });
        t.equal(observationJson(observation, undefined, place), text);
        const payloads = { inputs: '1.50' };
        const withPayloads = observationJson(observation, payloads, place);
        t.ok(withPayloads.startsWith(`${text.slice(0, -1)},"inputs":1.50,"outputs":null,`));
      }
    }
  },
);

t.test('the text of custom fields is kept', async (t) => {
  const text = observationJson({ ...PLAIN, customFieldsText: '{"n":1.0}' }, undefined);
  t.ok(text.endsWith(',"custom_fields":{"n":1.0}}'));
});
