import type { Format } from '../../../src/model/batch.ts';
import { encodeRequest } from '../../helper/otlp-proto.ts';

/** Bodies of every format in which each text that a client chooses is made by `text(place)`. */
export type Fill = (place: string) => string;

/** Names of members and attributes that hold texts are filled, too. */
function payload(text: Fill, place: string): object {
  return {
    text: text(`${place}.text`),
    nested: { list: [text(`${place}.list`), { deep: text(`${place}.deep`) }] },
    [text(`${place} name`)]: 1,
    json: JSON.stringify({
      inner: text(`${place}.json`),
      again: JSON.stringify([text(`${place}.again`)]),
    }),
  };
}

function nativeBody(text: Fill): object {
  return {
    events: [
      {
        id: 'observation-1',
        trace_id: 'trace-1',
        kind: 'llm',
        operation: 'error',
        status: 'error',
        name: text('name'),
        start_time: '2026-01-15T11:59:58.000Z',
        model: text('model'),
        session_id: text('session_id'),
        user_id: text('user_id'),
        inputs: payload(text, 'inputs'),
        outputs: payload(text, 'outputs'),
        events: [{ name: text('events.name'), attributes: payload(text, 'events') }],
        metadata: {
          ...payload(text, 'metadata'),
          custom_fields: { team: text('metadata.custom_fields') },
        },
        context_metadata: payload(text, 'context_metadata'),
        custom_fields: { owner: text('custom_fields') },
        error: {
          message: text('error.message'),
          type: text('error.type'),
          stacktrace: text('error.stacktrace'),
        },
        unknown: payload(text, 'unknown'),
      },
    ],
    sdk: text('root'),
  };
}

function runsBody(text: Fill): object {
  const run = (place: string) => ({
    id: `00000000-0000-4000-8000-00000000000${place.length}`,
    run_type: 'llm',
    name: text(`${place}.name`),
    start_time: 1_768_478_398_000,
    session_name: text(`${place}.session_name`),
    inputs: payload(text, `${place}.inputs`),
    outputs: payload(text, `${place}.outputs`),
    error: text(`${place}.error`),
    tags: [text(`${place}.tags`)],
    extra: {
      metadata: { ...payload(text, `${place}.metadata`), user_id: text(`${place}.user_id`) },
      invocation_params: payload(text, `${place}.params`),
    },
    serialized: payload(text, `${place}.serialized`),
  });
  return { post: [run('post')], patch: [run('patch')] };
}

function attributes(text: Fill, place: string): object[] {
  const string = (name: string) => ({ stringValue: text(`${place}.${name}`) });
  return [
    { key: 'input.value', value: string('input.value') },
    { key: 'gen_ai.output.messages', value: { stringValue: JSON.stringify(payload(text, place)) } },
    { key: 'user.id', value: string('user.id') },
    { key: text(`${place} name`), value: { intValue: '1' } },
    {
      key: 'list',
      value: {
        arrayValue: { values: [string('list'), { arrayValue: { values: [string('inner')] } }] },
      },
    },
    {
      key: 'map',
      value: {
        kvlistValue: {
          values: [
            { key: 'a', value: string('map') },
            { key: text(`${place}.map name`), value: { boolValue: true } },
          ],
        },
      },
    },
  ];
}

function otlpRequest(text: Fill): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: attributes(text, 'resource') },
        schemaUrl: text('resource.schemaUrl'),
        scopeSpans: [
          {
            scope: {
              name: text('scope.name'),
              version: text('scope.version'),
              attributes: attributes(text, 'scope'),
            },
            schemaUrl: text('scope.schemaUrl'),
            spans: [
              {
                traceId: '0af7651916cd43dd8448eb211c80319c',
                spanId: 'b7ad6b7169203331',
                traceState: text('traceState'),
                name: text('name'),
                kind: 1,
                startTimeUnixNano: '1768478398000000000',
                endTimeUnixNano: '1768478399500000000',
                attributes: attributes(text, 'span'),
                events: [
                  {
                    timeUnixNano: '1768478399000000000',
                    name: text('event.name'),
                    attributes: attributes(text, 'event'),
                  },
                ],
                links: [
                  {
                    traceId: '0af7651916cd43dd8448eb211c80319d',
                    spanId: 'b7ad6b7169203332',
                    traceState: text('link.traceState'),
                    attributes: attributes(text, 'link'),
                  },
                ],
                status: { code: 2, message: text('status') },
              },
            ],
          },
        ],
      },
    ],
  };
}

export const FORMATS: readonly Format[] = ['native', 'runs', 'otlp_json', 'otlp_proto'];

/** A request body of the format. */
export function filledBody(format: Format, text: Fill): Buffer {
  switch (format) {
    case 'native':
      return Buffer.from(JSON.stringify(nativeBody(text)));
    case 'runs':
      return Buffer.from(JSON.stringify(runsBody(text)));
    case 'otlp_json':
      return Buffer.from(JSON.stringify(otlpRequest(text)));
    case 'otlp_proto':
      return encodeRequest(otlpRequest(text));
  }
}
