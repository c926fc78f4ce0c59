import fc from 'fast-check';
import t from 'tap';
import {
  metadataBytes,
  resourceMembers,
  sharedMembers,
} from '../../../../src/model/otlp/metadata-bytes.ts';
import { factsOfSpan } from '../../../../src/model/otlp/observe.ts';
import { payloadOfSpan } from '../../../../src/model/otlp/payload.ts';

/** Keys that meet each other with and without the prefix, and those that a convention takes. */
const KEYS = [
  ...['a', 'resource.a', 'resource.resource.a', 'scope.name', 'name', 'scope.a', 'é"', ''],
  ...['resource.dropped_attributes_count', 'otel.flags', 'input', 'gen_ai.request.model'],
  ...['gen_ai.input.messages', 'gen_ai.system_instructions', 'llm.input_messages.0.message.role'],
  ...['resource.scope.name', 'resource.input', 'resource.otel.flags'],
];

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 6 }),
  fc.constantFrom('{"b": [1, 2]}', '"quoted" ', '\u0000', '\ud800', '[{"role":"user"} ]'),
);
const value = fc.oneof(
  text.map((stringValue) => ({ stringValue })),
  fc.integer().map((intValue) => ({ intValue })),
  fc.constant({}),
);
const attributes = fc.array(fc.record({ key: fc.constantFrom(...KEYS), value }), { maxLength: 6 });
const droppedAttributesCount = fc.nat(2);
const context = fc.record({
  resource: fc.record({ attributes, droppedAttributesCount }),
  scope: fc.record({ name: text, version: text, attributes, droppedAttributesCount }),
  spans: fc.array(
    fc.record({ attributes, flags: fc.nat(2), traceState: text, droppedAttributesCount }),
    { minLength: 1, maxLength: 3 },
  ),
});

t.test('measures exactly the metadata that a span has', async () => {
  fc.assert(
    fc.property(context, ({ resource, scope, spans }) => {
      const shared = sharedMembers(resourceMembers(resource), scope);
      return spans.every((span) => {
        const { metadata = '' } = payloadOfSpan({ span, resource, scope }, ['metadata']);
        const bytes = Buffer.byteLength(JSON.stringify(JSON.parse(metadata)));
        return metadataBytes(span, factsOfSpan(span), shared) === bytes;
      });
    }),
    { numRuns: 3000 },
  );
});
