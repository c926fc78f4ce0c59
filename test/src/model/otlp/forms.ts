import fc from 'fast-check';

/**
 * Arbitrary export requests in OTLP's JSON form, and a walk over their texts that shares no code with the
 * product's.
 */
export type RequestForm = { resourceSpans?: Form[] };
type Form = Record<string, unknown>;

/** A string of a request: its field, the key of its attribute, and a way to change it in the form. */
export type TextOf = {
  readonly field: string;
  readonly key: string | undefined;
  readonly text: string;
  readonly set: (text: string) => void;
};

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 8 }),
  fc.constantFrom('', '"quoted"', 'back\\slash', 'line\nfeed', '\u0000', 'x'.repeat(200)),
);

/** Fields of attributes by key. */
const KEY_FIELDS: Readonly<Record<string, string>> = {
  input: 'inputs',
  'gen_ai.prompt.0.content': 'inputs',
  'output.value': 'outputs',
  error: 'error',
  'exception.message': 'error',
  'error.type': 'error',
  metadata: 'metadata',
  'extra.metadata': 'metadata',
  context_metadata: 'metadata',
  'tracectl.events': 'events',
  custom_fields: 'custom_fields',
  'metadata.custom_fields.team': 'custom_fields',
  extra: 'attributes',
  'user.id': 'attributes',
  'gen_ai.request.model': 'attributes',
  other: 'attributes',
  é: 'attributes',
};

/** Where custom fields may be within the value of an attribute. */
const CUSTOM_FIELDS_WITHIN: Readonly<Record<string, readonly string[]>> = {
  metadata: ['custom_fields'],
  'extra.metadata': ['custom_fields'],
  context_metadata: ['custom_fields'],
  extra: ['metadata', 'custom_fields'],
};

const value: fc.Arbitrary<Form> = fc.letrec<{ value: Form }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    { weight: 3, arbitrary: text.map((stringValue) => ({ stringValue })) },
    fc.constantFrom<Form>({}, { boolValue: true }, { intValue: '12' }, { doubleValue: 0.5 }),
    fc.constant<Form>({ bytesValue: 'aGVsbG8=' }),
    fc.array(tie('value'), { maxLength: 3 }).map((values) => ({ arrayValue: { values } })),
    fc
      .array(keyValueOf(fc.constantFrom('custom_fields', 'metadata', 'a', 'é'), tie('value')), {
        maxLength: 3,
      })
      .map((values) => ({ kvlistValue: { values } })),
  ),
})).value;

/** JSON may have the members in any order; protobuf has no order of its own for them here. */
function keyValueOf(key: fc.Arbitrary<string>, value: fc.Arbitrary<Form>): fc.Arbitrary<Form> {
  return fc
    .tuple(key, value, fc.nat(9))
    .map(([key, value, order]): Form => (order === 0 ? { value, key } : { key, value }));
}

const attributes = fc.array(keyValueOf(fc.constantFrom(...Object.keys(KEY_FIELDS)), value), {
  maxLength: 4,
});

const event = fc.record({ name: text, attributes }, { requiredKeys: [] });
const link = fc.record(
  {
    traceId: fc.constant('01'.repeat(16)),
    spanId: fc.constant('02'.repeat(8)),
    traceState: text,
    attributes,
  },
  { requiredKeys: ['traceId', 'spanId'] },
);
const span = fc.record(
  {
    traceId: fc.constant('0a'.repeat(16)),
    spanId: fc.constant('0b'.repeat(8)),
    parentSpanId: fc.constant('0c'.repeat(8)),
    traceState: text,
    name: text,
    kind: fc.constant(1),
    attributes,
    events: fc.array(event, { maxLength: 2 }),
    links: fc.array(link, { maxLength: 2 }),
    status: fc.record({ code: fc.constant(2), message: text }),
  },
  { requiredKeys: ['traceId', 'spanId'] },
);
const scope = fc.record({ name: text, version: text, attributes }, { requiredKeys: [] });
const scopeSpans = fc.record(
  { scope, spans: fc.array(span, { maxLength: 3 }), schemaUrl: text },
  { requiredKeys: [] },
);
const resourceSpans = fc.record(
  {
    resource: fc.record({ attributes }),
    scopeSpans: fc.array(scopeSpans, { maxLength: 2 }),
    schemaUrl: text,
  },
  { requiredKeys: [] },
);

export const requestForm: fc.Arbitrary<RequestForm> = fc.record({
  resourceSpans: fc.array(resourceSpans, { maxLength: 2 }),
});

/** The members of a form in the order of their bytes: that of the text, or of the field numbers. */
function membersOf(form: unknown, isWire: boolean): [string, unknown][] {
  const members = Object.entries((form ?? {}) as Form);
  if (!isWire) return members;
  return members.sort(([a], [b]) => WIRE_ORDER.indexOf(a) - WIRE_ORDER.indexOf(b));
}

const WIRE_ORDER = [
  ...['traceState', 'resource', 'scope', 'name', 'version', 'attributes', 'scopeSpans', 'spans'],
  ...['events', 'links', 'status', 'schemaUrl'],
];

/** The texts of each span, those outside of spans, and all in the order of their bytes. */
export function textsOfRequest(
  request: RequestForm,
  isWire: boolean,
): { spans: TextOf[][]; shared: TextOf[]; inOrder: TextOf[] } {
  const spans: TextOf[][] = [];
  const shared: TextOf[] = [];
  const inOrder: TextOf[] = [];
  const addShared = (texts: Iterable<TextOf>) => {
    for (const text of texts) {
      shared.push(text);
      inOrder.push(text);
    }
  };
  for (const resourceSpans of request.resourceSpans ?? []) {
    for (const [name, member] of membersOf(resourceSpans, isWire)) {
      if (name !== 'scopeSpans') {
        addShared(textsOfPart(name, member, resourceSpans, isWire));
        continue;
      }
      for (const scopeSpans of member as Form[]) {
        for (const [name, member] of membersOf(scopeSpans, isWire)) {
          if (name !== 'spans') {
            addShared(textsOfPart(name, member, scopeSpans, isWire));
            continue;
          }
          for (const span of member as Form[]) {
            const texts = [...textsOfSpan(span, isWire)];
            spans.push(texts);
            inOrder.push(...texts);
          }
        }
      }
    }
  }
  return { spans, shared, inOrder };
}

/** A resource, a scope or a schema URL. */
function* textsOfPart(
  name: string,
  member: unknown,
  holder: Form,
  isWire: boolean,
): Generator<TextOf> {
  if (name === 'schemaUrl') yield textIn(holder, name, 'attributes');
  else {
    for (const [name, value] of membersOf(member, isWire)) {
      if (name === 'attributes') yield* textsOfAttributes(value, false);
      else if (name === 'name' || name === 'version') {
        yield textIn(member as Form, name, 'attributes');
      }
    }
  }
}

/** Ids are bytes in protobuf and strings in JSON. */
const IDS = ['traceId', 'spanId', 'parentSpanId'];

function* textsOfSpan(span: Form, isWire: boolean): Generator<TextOf> {
  for (const [name, member] of membersOf(span, isWire)) {
    if (IDS.includes(name) && !isWire) yield textIn(span, name, 'fixed');
    else if (name === 'traceState') yield textIn(span, name, 'attributes');
    else if (name === 'name') yield textIn(span, name, 'name');
    else if (name === 'attributes') yield* textsOfAttributes(member, false);
    else if (name === 'events') {
      for (const event of member as Form[]) yield* textsOfEvent(event, isWire);
    } else if (name === 'links') {
      for (const link of member as Form[]) yield* textsOfLink(link, isWire);
    } else if (name === 'status' && 'message' in (member as Form)) {
      yield textIn(member as Form, 'message', 'error');
    }
  }
}

function* textsOfEvent(event: Form, isWire: boolean): Generator<TextOf> {
  for (const [name, member] of membersOf(event, isWire)) {
    if (name === 'name') yield textIn(event, name, 'events');
    else if (name === 'attributes') yield* textsOfAttributes(member, true);
  }
}

function* textsOfLink(link: Form, isWire: boolean): Generator<TextOf> {
  for (const [name, member] of membersOf(link, isWire)) {
    if (IDS.includes(name) && !isWire) yield textIn(link, name, 'fixed');
    else if (name === 'traceState') yield textIn(link, name, 'attributes');
    else if (name === 'attributes') yield* textsOfAttributes(member, false);
  }
}

function* textsOfAttributes(attributes: unknown, isEvent: boolean): Generator<TextOf> {
  for (const { key = '', value } of attributes as { key?: string; value?: Form }[]) {
    const field = KEY_FIELDS[key] ?? 'attributes';
    if (isEvent) yield* textsOfValue(value, field === 'error' ? field : 'events', key, undefined);
    else yield* textsOfValue(value, field, key, CUSTOM_FIELDS_WITHIN[key]);
  }
}

function* textsOfValue(
  value: Form | undefined,
  field: string,
  key: string,
  within: readonly string[] | undefined,
): Generator<TextOf> {
  if (value === undefined) return;
  if (typeof value.stringValue === 'string') yield { ...textIn(value, 'stringValue', field), key };
  const { values: elements = [] } = (value.arrayValue ?? {}) as { values?: Form[] };
  for (const element of elements) yield* textsOfValue(element, field, key, undefined);
  const { values = [] } = (value.kvlistValue ?? {}) as {
    values?: { key?: string; value?: Form }[];
  };
  for (const { key = '', value } of values) {
    const rest = within?.[0] === key ? within.slice(1) : undefined;
    const isCustomFields = rest?.length === 0;
    yield* textsOfValue(
      value,
      isCustomFields ? 'custom_fields' : field,
      key,
      isCustomFields ? undefined : rest,
    );
  }
}

function textIn(holder: Form, name: string, field: string): TextOf {
  return {
    field,
    key: undefined,
    text: String(holder[name]),
    set: (text) => {
      holder[name] = text;
    },
  };
}
