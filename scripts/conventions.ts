import * as amounts from '../src/model/amount-conventions.ts';
import { CALL_EVENTS, type CallEvent } from '../src/model/call-events.ts';
import * as data from '../src/model/conventions.ts';
import * as json from '../src/model/json-conventions.ts';
import * as tokens from '../src/model/token-conventions.ts';

/** The tables of docs/conventions.md, made of the mapping. */
export function conventionTables(): string {
  const { input: inputCost, output: outputCost, total: totalCost } = amounts.COSTS;
  const details = Object.entries(data.DETAIL_TEXTS).map(
    ([detail, keys]): Row => [DETAIL_FIELDS[detail] ?? detail, listed(keys)],
  );
  return [
    section(
      'Attributes of spans',
      ['field', 'attributes, in order of precedence'],
      [
        ['`inputs`', listed(data.INPUTS)],
        ['`outputs`', listed(data.OUTPUTS)],
        [
          '`model`',
          `${listed([...data.MODELS, ...data.AGENT_MODELS])}, and of a model call the end of \`${data.QUALIFIED_MODEL}\` or the member \`model\` of \`${data.REQUEST_PARAMETERS}\``,
        ],
        ['`session_id`', listed(data.SESSIONS)],
        ['`user_id`', listed(data.USERS)],
        ...details,
        ['`tags`', listed(data.TAGS)],
        ['`ttft_ms`', amounts.TTFT.map((each) => `\`${each.key}\` (${unitsOf(each)})`).join(', ')],
        ['`cost.total`', listed([...totalCost, ...amounts.COST_OBJECTS])],
        ['`cost.input`', listed([...inputCost, ...amounts.COST_OBJECTS])],
        ['`cost.output`', listed([...outputCost, ...amounts.COST_OBJECTS])],
        ['`error.message`', listed(data.ERROR_MESSAGES)],
        ['`error.type`', listed(data.ERROR_TYPES)],
        ['`error.stacktrace`', listed(data.ERROR_STACKTRACES)],
      ],
    ),
    section('Tokens', ['kind', 'attributes of spans', 'names in an object of counts'], tokenRows()),
    section(
      'Attributes with an object of counts',
      ['attribute', 'form'],
      [
        ...tokens.USAGE_OBJECTS.map((key) => [
          `\`${key}\``,
          'JSON, an object of OTLP, or an object as Python prints it',
        ]),
        ...Object.entries(tokens.USAGE_DETAILS).map(([key, name]) => [
          `\`${key}\``,
          `the object \`${name}\` below; JSON, or as Python prints it`,
        ]),
        [`\`${tokens.DETAILED_USAGE}NAME\``, 'one count of the name'],
      ],
    ),
    section(
      'Outputs of model calls with tokens and a model',
      ['attribute', 'members with the tokens', 'places of the object with them, `model` or both'],
      Object.entries(tokens.CALLS_IN_OUTPUTS).map(callRow),
    ),
    section(
      'Objects within an object of counts',
      ['object', 'members'],
      Object.entries(tokens.NESTED_COUNTS).map(nestedRow),
    ),
    section('Kinds', ['attribute', 'kind by value'], data.KINDS.map(kindRow)),
    section(
      'Events of spans',
      ['event', 'meaning'],
      Object.entries(data.EVENTS).map(([name, role]) => [`\`${name}\``, EVENT_MEANINGS[role]]),
    ),
    section(
      'Events with fields of a call',
      ['event', 'attributes of the event'],
      [...CALL_EVENTS].map(callEventRow),
    ),
    ...jsonTables(),
  ].join('\n\n');
}

function callEventRow([name, event]: readonly [string, CallEvent]): Row {
  const { operation, attributes = [], usage = [], inputs = [], outputs = [] } = event;
  const fields: readonly (readonly [keys: readonly string[], field: string])[] = [
    ...[...attributes].map(([from, to]) => [[from], `\`${to}\``] as const),
    [usage.map((beginning) => `${beginning}*`), 'tokens'],
    [inputs, '`inputs`'],
    [outputs, '`outputs`'],
  ];
  const given = fields
    .filter(([keys]) => keys.length > 0)
    .map(([keys, field]) => `${listed(keys)} → ${field}`);
  return [`\`${name}\``, [`\`gen_ai.operation.name\` = \`${operation}\``, ...given].join('; ')];
}

/** The attributes whose texts are read as JSON. */
function jsonTables(): string[] {
  return [
    section(
      'JSON in texts of the metadata',
      ['attributes', 'read as JSON'],
      json.JSON_TEXTS.map(jsonTextRow),
    ),
    section(
      'JSON in the texts of a list',
      ['attributes of inputs'],
      json.JSON_LISTS.map((key) => [`\`${key}\``]),
    ),
  ];
}

type Row = readonly string[];

function jsonTextRow({ key, values }: (typeof json.JSON_TEXTS)[number]): Row {
  const name = `\`${key}${key.endsWith('.') ? '*' : ''}\``;
  return [name, values === true ? 'any value' : 'objects, arrays and quoted texts'];
}

/** The public names of details whose name differs. */
const DETAIL_FIELDS: Readonly<Record<string, string>> = {
  provider: '`provider`',
  environment: '`environment`',
  release: '`release`',
  promptName: '`prompt.name`',
  promptVersion: '`prompt.version`',
  tool: '`tool`',
  responseId: 'the response, which spans of one call share',
  traceName: '`name` of the trace',
  firstToken: '`ttft_ms`, as the time of the first token',
  streaming: 'if false, the call has no time of a first token',
};

const EVENT_MEANINGS: Readonly<Record<data.EventRole, string>> = {
  exception: 'the error',
  input: 'a message of the inputs',
  output: 'a message of the outputs',
  both: 'inputs and outputs',
  token: 'the time of the first token',
  call: 'fields of the call of the span',
};

function tokenRows(): Row[] {
  return Object.entries(tokens.TOKEN_KINDS).map(([kind, { attributes, names }]) => [
    `\`${kind}\``,
    listed(attributes),
    listed([kind, ...names]),
  ]);
}

type CallPlaces = {
  readonly usage: readonly string[];
  readonly places: readonly (readonly string[])[];
};

function callRow([key, { usage, places }]: readonly [string, CallPlaces]): Row {
  return [`\`${key}\``, listed(usage), listed(places.map((place) => ['$', ...place].join('.')))];
}

function nestedRow([name, kinds]: readonly [string, Readonly<Record<string, string>>]): Row {
  const members = Object.entries(kinds).map(([member, kind]) => `\`${member}\` → \`${kind}\``);
  return [`\`${name}\``, members.join(', ')];
}

function kindRow({ key, values, presence, endings, vercel }: data.KindRule): Row {
  if (presence !== undefined) return [`\`${key}\``, `any value: \`${presence}\``];
  if (vercel === true) return [`\`${key}\``, 'an operation of the Vercel AI SDK'];
  const pairs = Object.entries(values ?? {}).map(([value, kind]) =>
    value === kind ? `\`${value}\`` : `\`${value}\` → \`${kind}\``,
  );
  const ends = Object.entries(endings ?? {}).map(([end, kind]) => `\`…${end}\` → \`${kind}\``);
  return [`\`${key}\``, [...pairs, ...ends].join(', ')];
}

function unitsOf({ unitMs, except }: amounts.TimeToFirstToken): string {
  if (except === undefined) return unitOf(unitMs);
  return `${unitOf(unitMs)}; ${unitOf(except.unitMs)} in the scope \`${except.scope}\``;
}

function unitOf(unitMs: number): string {
  return unitMs === 1 ? 'milliseconds' : 'seconds';
}

function listed(keys: readonly string[]): string {
  return keys.map((key) => `\`${key}\``).join(', ');
}

function section(title: string, columns: readonly string[], rows: readonly Row[]): string {
  const lines = [columns, columns.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`);
  return [`## ${title}`, '', ...lines].join('\n');
}
