import {
  type AttributeKey,
  type AttributeRule,
  type CallOutputRule,
  CUSTOM_FIELD_LAYERS,
  type CustomFieldLayerName,
  exceptionRules,
  familyOf,
  hasInnerMembers,
  kindOfAttribute,
  mayHaveMembers,
  memberRules,
  STATUS_MESSAGE_RANK,
} from '../attributes.ts';
import { ABSENT_MODEL, FAILURE } from '../conventions.ts';
import { mergeCustomFields } from '../custom-fields.ts';
import type { DetailRule } from '../detail-attributes.ts';
import { errorOfText, isPythonText } from '../error-text.ts';
import type { IgnoredReason, IgnoredValue } from '../ignored.ts';
import { IgnoredValues, ignoredNotesIn } from '../ignored.ts';
import type { Instant, ObservationError, ObservationKind, TokenUsage } from '../observation.ts';
import type { TracingVariables } from '../sent-twice.ts';
import { CACHE_APART, CACHE_APART_OF, LANGFUSE_USAGE } from '../token-conventions.ts';
import {
  completeUsage,
  type SentCount,
  type TokenKind,
  UsageCounts,
  withCacheInInput,
} from '../usage.ts';
import { type CallOutput, callOutputIn } from './call-output.ts';
import { DetailFacts } from './detail-facts.ts';
import { decodeEmbedded, type EmbeddedFields } from './embedded-observation.ts';
import {
  membersOfValue,
  type NoteIgnored,
  nestedMembers,
  type ObjectMembers,
  takeAttributeCounts,
  takeMemberCounts,
  unquoted,
} from './objects.ts';
import type { OtlpValue } from './span.ts';
import { scalarOf } from './value.ts';

type Scalar = string | number | bigint | boolean | undefined;

const NONE = Number.MAX_SAFE_INTEGER;
const OBJECT_RANK = 1000;
/** Events of a call come after all attributes of the span, whatever the order in a body. */
const EVENT_RANK = 1_000_000;

/** The value with the lowest rank so far for one field. */
type Best = {
  readonly rank: number;
  /** The attribute with the value; undefined for a value of an event or the status. */
  readonly key: string | undefined;
  readonly text: string;
};

type TextRole = 'model' | 'session' | 'user' | 'message' | 'type' | 'stacktrace';

/** A count of tokens, and the attribute with it. */
type TokenCount = {
  readonly kind: TokenKind;
  readonly rank: number;
  readonly key: string;
  readonly count: number;
  /** The attribute has more than this count, so it stays in the metadata. */
  readonly isPart: boolean;
  /** An input to which the tokens of the cache were added, or an output with those of reasoning. */
  readonly isWhole: boolean;
};

/** The source of an input or output. */
class Content {
  rank = NONE;
  key: string | undefined;
  family = false;
  /** UTF-8 bytes of the attribute's text, or of all texts of its family; undefined if it is not a text. */
  bytes: number | undefined = undefined;
  inEvents = false;

  get present(): boolean {
    return this.rank !== NONE || this.inEvents;
  }
}

/**
 * The fields of an observation, collected from the attributes and events of one span. The protobuf decoder passes
 * only attributes that have rules, so that all others cost only the look-up of their keys.
 */
export class SpanFacts {
  readonly input = new Content();
  readonly output = new Content();
  session: Best | undefined = undefined;
  user: Best | undefined = undefined;
  message: Best | undefined = undefined;
  type: Best | undefined = undefined;
  stacktrace: Best | undefined = undefined;
  #model: Best | undefined = undefined;
  /** At most one for each kind. */
  #tokens: TokenCount[] | undefined = undefined;
  /** All counts of one event, for a span without any: tokens of two sources would be added up. */
  #eventTokens: readonly TokenCount[] | undefined = undefined;
  details: DetailFacts | undefined = undefined;
  hasContextMetadata = false;
  /** An attribute says that the span has failed. */
  isFailed = false;
  /** The span repeats the model and the tokens of another one. */
  #repeatsCall = false;
  /** `PROVIDER/MODEL` of a model call; the name of any other span. */
  #qualifiedModel: string | undefined = undefined;
  /** The parameters of a request, which may name its model. */
  #parameters: OtlpValue | undefined = undefined;
  #outputs:
    | { readonly rule: CallOutputRule; readonly key: string; readonly text: string }
    | undefined = undefined;
  /** Null if the outputs name neither a model nor tokens. */
  #callOutput: CallOutput | null | undefined = undefined;
  #levelMessage: string | undefined = undefined;
  #ignored: IgnoredValues | undefined = undefined;
  /** The environment of a LangSmith client. */
  tracing: TracingVariables | undefined = undefined;
  /** An observation that another tracectl embedded; it overrides all other facts. */
  embedded: EmbeddedFields | undefined = undefined;
  /** Span id of the parent that a processor dropped. */
  originalParent: string | undefined = undefined;
  #kindRank = NONE;
  #kind: ObservationKind | undefined = undefined;
  #isEmbedding = false;
  #customFields: Map<CustomFieldLayerName, [string, unknown][]> | undefined = undefined;

  /**
   * Takes an attribute with a non-empty value, which may be left out unless `needsValue`. `textBytes`: the UTF-8 bytes of
   * a text whose value is left out.
   */
  take(key: AttributeKey, value: OtlpValue | undefined, textBytes?: number): void {
    const { rules } = key;
    for (let i = 0; i < rules.length; i++) {
      this.#apply(rules[i] as AttributeRule, key.text, value, textBytes);
    }
  }

  /** Takes an attribute of an exception event. */
  takeFromException(key: string, value: OtlpValue): void {
    for (const rule of exceptionRules(key)) this.#apply(rule, undefined, value);
  }

  /** Takes a field that an event gives as if the span had it in this attribute, which stays in the metadata if the span has it, too. */
  takeFromCall({ rules }: AttributeKey, value: OtlpValue): void {
    for (const rule of rules) this.#apply(afterAttributes(rule), undefined, value);
  }

  takeStatusMessage(text: string): void {
    this.#offer('message', STATUS_MESSAGE_RANK, undefined, text);
  }

  #offer(role: TextRole, rank: number, key: string | undefined, text: string): void {
    if (text === '') return;
    const found = role === 'model' ? this.#model : this[role];
    // The last one of a rank counts.
    if (found !== undefined && rank > found.rank) return;
    if (role === 'model') this.#model = { rank, key, text };
    else this[role] = { rank, key, text };
  }

  #apply(
    rule: AttributeRule,
    key: string | undefined,
    value: OtlpValue | undefined,
    textBytes?: number,
  ): void {
    switch (rule.role) {
      case 'input':
      case 'output':
        takeContent(this[rule.role], rule, key, textBytes ?? bytesOfText(value));
        break;
      case 'kind':
        this.#takeKind(rule, value);
        break;
      case 'tokens':
        this.#takeTokens(rule.kind, rule.rank, key, scalarOf(value));
        break;
      case 'usage':
        this.#takeUsage(rule, key, value);
        break;
      case 'level':
        this.isFailed = scalarOf(value) === FAILURE.value;
        break;
      case 'usage_record':
        this.#repeatsCall ||= scalarOf(value) === rule.value;
        break;
      case 'qualified_model':
        this.#qualifiedModel = textOf(scalarOf(value), 'model');
        break;
      case 'parameters':
        this.#parameters = value;
        break;
      case 'call_output':
        if (key !== undefined)
          this.#outputs = { rule, key, text: textOf(scalarOf(value), 'model') };
        break;
      case 'level_message':
        this.#levelMessage = textOf(scalarOf(value), 'message');
        break;
      case 'detail':
      case 'tags':
      case 'ttft':
      case 'cost':
      case 'costs':
        this.#takeDetail(rule, key, value);
        break;
      case 'context_metadata':
        this.hasContextMetadata = true;
        break;
      case 'members':
        this.#takeMembers(key, value);
        break;
      case 'ignored':
        this.#takeIgnored(value);
        break;
      case 'tracing':
        this.tracing ??= {};
        this.tracing[rule.variable] = String(scalarOf(value) ?? '');
        break;
      case 'embedded':
        if (typeof value?.stringValue === 'string') {
          this.embedded = decodeEmbedded(value.stringValue);
        }
        break;
      case 'original_parent':
        if (isSpanId(value?.stringValue)) this.originalParent = value.stringValue;
        break;
      case 'custom_fields':
        this.#takeCustomFields(rule, value);
        break;
      default:
        this.#takeText(rule.role, rule.rank, key, textOf(scalarOf(value), rule.role));
    }
  }

  /** Apart from `#apply`, so that only these rules allocate a closure. */
  #takeDetail(rule: DetailRule, key: string | undefined, value: OtlpValue | undefined): void {
    this.details ??= new DetailFacts();
    this.details.take(rule, value, (reason, member) => this.#ignore(key, reason, member));
  }

  /** The members of an object that give a field. Text is read only if it may have one. */
  #takeMembers(key: string | undefined, value: OtlpValue | undefined): void {
    const text = value?.stringValue;
    if (key === undefined || (typeof text === 'string' && !mayHaveMembers(key, text))) return;
    for (const [name, member] of membersOfValue(value) ?? []) {
      this.#takeMember(key, name, member);
      if (!hasInnerMembers(key)) continue;
      for (const [inner, of] of nestedMembers(member) ?? []) {
        this.#takeMember(key, `${name}.${inner}`, of);
      }
    }
  }

  #takeMember(key: string, path: string, member: unknown): void {
    const isText = typeof member === 'string' && member !== '';
    if (!isText && typeof member !== 'number') return;
    for (const rule of memberRules(key, path)) {
      // The object stays in the metadata, with the model.
      const from = rule.role === 'model' ? undefined : key;
      this.#apply(rule, from, { stringValue: `${member}` });
    }
  }

  /** MLflow sends names as JSON, in quotes. */
  #takeText(role: TextRole, rank: number, key: string | undefined, text: string): void {
    if (role === 'model' && text === ABSENT_MODEL) return;
    const isName = role === 'model' || role === 'session' || role === 'user';
    this.#offer(role, rank, key, isName ? unquoted(text) : text);
  }

  #takeKind(rule: AttributeRule & { role: 'kind' }, value: OtlpValue | undefined): void {
    const text = scalarOf(value);
    const kind = kindOfAttribute(rule.kindOf, typeof text === 'string' ? text : '');
    if (kind === undefined) return;
    if (kind === 'embedding') this.#isEmbedding = true;
    if (rule.rank > this.#kindRank) return;
    this.#kindRank = rule.rank;
    this.#kind = kind;
  }

  /** An embedding is a call of a model: of `generation` and `embedding`, the latter says more, whatever the ranks. */
  get kind(): ObservationKind | undefined {
    return this.#kind === 'generation' && this.#isEmbedding ? 'embedding' : this.#kind;
  }

  /** Notes that an attribute, or a member of its object, gave no field. */
  #ignore(key: string | undefined, reason: IgnoredReason, member?: string): void {
    if (key === undefined) return;
    this.#ignored ??= new IgnoredValues();
    this.#ignored.add(`attributes.${key}${member === undefined ? '' : `.${member}`}`, reason);
  }

  #takeIgnored(value: OtlpValue | undefined): void {
    const notes = ignoredNotesIn(value?.stringValue);
    if (notes.length === 0) return;
    this.#ignored ??= new IgnoredValues();
    for (const [path, reason] of notes) this.#ignored.add(path, reason);
  }

  get ignored(): readonly IgnoredValue[] | undefined {
    return this.#ignored?.list;
  }

  #takeTokens(
    kind: TokenKind,
    rank: number,
    key: string | undefined,
    value: Scalar,
    isPart = false,
    isWhole = false,
  ): void {
    if (key === undefined) return;
    const count = countOf(value);
    if (count === undefined) {
      this.#ignore(key, 'count');
      return;
    }
    this.#tokens ??= [];
    const found = { kind, rank, key, count, isPart, isWhole };
    // A loop needs no closure for each count.
    for (let at = 0; at < this.#tokens.length; at++) {
      const token = this.#tokens[at] as TokenCount;
      if (token.kind !== kind) continue;
      if (rank <= token.rank) this.#tokens[at] = found;
      return;
    }
    this.#tokens.push(found);
  }

  /** Counts in an object have a lower precedence than counts with their own attributes. */
  #takeUsage(
    { rank, within }: AttributeRule & { role: 'usage' },
    key: string | undefined,
    value: OtlpValue | undefined,
  ): void {
    const sent = new UsageCounts();
    takeAttributeCounts(sent, value, within, countOf, (reason, member) =>
      this.#ignore(key, reason, member),
    );
    const counts = sent.counts(key === LANGFUSE_USAGE ? 'langfuse' : 'included');
    for (const { kind, count, isWhole } of counts) {
      this.#takeTokens(kind as TokenKind, OBJECT_RANK + rank, key, count, true, isWhole);
    }
  }

  /** Takes the members of an object of counts that an event has, as the provider sent them. */
  takeCounts(name: string, members: ObjectMembers): void {
    const sent = new UsageCounts();
    takeMemberCounts(sent, members, countOf, (reason, member) =>
      this.#ignore(name, reason, member),
    );
    const tokens = sent.counts('anthropic').map((count) => partOf(name, count, EVENT_RANK));
    if (tokens.length > 0) this.#eventTokens = tokens;
  }

  /** Takes the time of an event that marks a token of the output. */
  takeToken(time: Instant | null): void {
    if (time === null) return;
    this.details ??= new DetailFacts();
    this.details.takeToken(time);
  }

  #takeCustomFields(
    rule: AttributeRule & { role: 'custom_fields' },
    value: OtlpValue | undefined,
  ): void {
    if (rule.name !== undefined) {
      this.#addCustomFields(rule.layer, [[rule.name, scalarOf(value)]]);
      return;
    }
    const list = within(value, rule.within ?? [])?.kvlistValue?.values;
    if (list === undefined || list === null) return;
    this.#addCustomFields(
      rule.layer,
      list.map((entry) => [entry.key ?? '', scalarOf(entry.value)]),
    );
  }

  #addCustomFields(layer: CustomFieldLayerName, fields: [string, unknown][]): void {
    this.#customFields ??= new Map();
    const found = this.#customFields.get(layer);
    if (found === undefined) this.#customFields.set(layer, fields);
    else for (const field of fields) found.push(field);
  }

  get model(): Best | undefined {
    if (this.#repeatsCall) return undefined;
    return this.#model ?? this.#modelElsewhere();
  }

  get tokens(): readonly TokenCount[] | undefined {
    if (this.#repeatsCall) return undefined;
    const isLast = this.#outputs?.rule.precedes !== true;
    const own = isLast ? (this.#tokens ?? this.#tokensOfOutputs()) : this.#withTokensOfOutputs();
    return own ?? this.#eventTokens;
  }

  get isModelCall(): boolean {
    return this.kind === 'generation' || this.kind === 'embedding';
  }

  /** The provider in the name of the model. */
  get provider(): string | undefined {
    const [provider, ...model] = this.isModelCall ? (this.#qualifiedModel?.split('/') ?? []) : [];
    return model.length === 0 ? undefined : provider;
  }

  /** The model that the outputs, the name or the parameters have, which stay where they are. */
  #modelElsewhere(): Best | undefined {
    if (!this.isModelCall) return undefined;
    const name = this.#qualifiedModel;
    const text =
      this.#modelCall()?.model ?? name?.slice(name.indexOf('/') + 1) ?? this.#requestedModel();
    return text ? { rank: NONE, key: undefined, text } : undefined;
  }

  #requestedModel(): string | undefined {
    const model = membersOfValue(this.#parameters)?.find(([name]) => name === 'model')?.[1];
    return typeof model === 'string' ? model : undefined;
  }

  #tokensOfOutputs(): readonly TokenCount[] | undefined {
    const { counts } = this.#modelCall() ?? {};
    const key = this.#outputs?.key;
    if (counts === undefined || counts.length === 0 || key === undefined) return undefined;
    return counts.map((count) => partOf(key, count, OBJECT_RANK));
  }

  /** The counts of the outputs; an attribute of the same kind leaves the metadata, as if it gave the count. */
  #withTokensOfOutputs(): readonly TokenCount[] | undefined {
    const [sent, found] = [this.#tokens ?? [], this.#tokensOfOutputs() ?? []];
    const all = sent.map((own) => ({
      ...own,
      count: found.find(({ kind }) => kind === own.kind)?.count ?? own.count,
    }));
    const more = found.filter(({ kind }) => !sent.some((own) => own.kind === kind));
    return all.length + more.length === 0 ? undefined : [...all, ...more];
  }

  /** The outputs are read once, and only those of a model call. */
  #modelCall(): CallOutput | undefined {
    if (this.#outputs === undefined || !this.isModelCall) return undefined;
    const { rule, key, text } = this.#outputs;
    if (this.#callOutput === undefined) {
      const note: NoteIgnored = (reason, member) => this.#ignore(key, reason, member);
      this.#callOutput = callOutputIn(text, rule, countOf, note) ?? null;
    }
    return this.#callOutput ?? undefined;
  }

  /** `scope`: the name of the span's instrumentation scope. */
  usageOf(scope: string | null): TokenUsage | null {
    const { tokens } = this;
    if (tokens === undefined) return null;
    const usage: Record<string, number> = {};
    let [isInputWhole, isOutputWhole] = [false, false];
    for (const { kind, count, isWhole } of tokens) {
      usage[kind] = count;
      if (kind === 'input_tokens') isInputWhole = isWhole;
      else if (kind === 'output_tokens') isOutputWhole = isWhole;
    }
    const isApart =
      CACHE_APART.some((begin) => scope?.startsWith(begin)) ||
      (scope === CACHE_APART_OF.scope && this.#isOf(CACHE_APART_OF.providers));
    const withCache = withCacheInInput(usage, { isApart, isWhole: isInputWhole });
    return completeUsage(withCache, isOutputWhole);
  }

  #isOf(providers: readonly string[]): boolean {
    const provider = this.details?.ownText('provider');
    return provider !== undefined && providers.includes(provider);
  }

  /** Merged from those of the resource and those of the span, which override them. */
  customFields(resource: SpanFacts | undefined): Record<string, string> | null {
    if (this.#customFields === undefined && resource?.hasCustomFields !== true) return null;
    return mergeCustomFields([
      ...(resource?.customFieldLayers() ?? []),
      ...this.customFieldLayers(),
    ]);
  }

  get hasCustomFields(): boolean {
    return this.#customFields !== undefined;
  }

  /** In the order of precedence; `metadata` overrides `extra.metadata`. */
  customFieldLayers(): [string, unknown][][] {
    const found = this.#customFields;
    if (found === undefined) return [];
    return CUSTOM_FIELD_LAYERS.filter((layer) => layer !== 'extra' || !found.has('metadata')).map(
      (layer) => found.get(layer) ?? [],
    );
  }

  /** Null if no attribute, event or status has a message, type or stack trace. */
  error(): ObservationError | null {
    const message = this.#errorMessage() ?? null;
    const type = this.type?.text ?? null;
    const stacktrace = this.stacktrace?.text ?? null;
    // LangSmith's Python client sends the text of a run's error as the message of an `Exception`.
    if (message !== null && isPythonText(message)) {
      const parts = errorOfText(message);
      return { ...parts, type: parts.type ?? type, stacktrace: parts.stacktrace ?? stacktrace };
    }
    return message === null && type === null && stacktrace === null
      ? null
      : { message, type, stacktrace };
  }

  /** The message of the level is last: it also remains in the metadata. */
  #errorMessage(): string | undefined {
    const ofLevel = this.isFailed ? this.#levelMessage : undefined;
    return this.message?.text ?? (ofLevel || undefined);
  }
}

/** A count of an object with more than it. */
function partOf(
  key: string,
  { kind, count, isWhole = false }: SentCount,
  rank: number,
): TokenCount {
  return { kind: kind as TokenKind, rank, key, count, isPart: true, isWhole };
}

function afterAttributes(rule: AttributeRule): AttributeRule {
  return 'rank' in rule ? { ...rule, rank: EVENT_RANK + rule.rank } : rule;
}

function isSpanId(text: string | undefined): text is string {
  return typeof text === 'string' && /^[0-9a-f]{16}$/.test(text);
}

function takeContent(
  content: Content,
  { rank, family }: AttributeRule & { role: 'input' | 'output' },
  key: string | undefined,
  bytes: number | undefined,
): void {
  if (rank > content.rank) return;
  const isSameFamily = family && rank === content.rank;
  content.bytes = isSameFamily ? sumOf(content.bytes, bytes) : bytes;
  content.rank = rank;
  content.key = family ? familyOf(key ?? '') : key;
  content.family = family;
}

function sumOf(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
}

function bytesOfText(value: OtlpValue | undefined): number | undefined {
  const text = value?.stringValue;
  return typeof text === 'string' ? Buffer.byteLength(text) : undefined;
}

/** `error: true` is no message. */
function textOf(value: Scalar, role: AttributeRule['role']): string {
  if (value === undefined || (role === 'message' && typeof value === 'boolean')) return '';
  return String(value);
}

/** Clients send counts as integers, doubles and decimal digits. */
export function countOf(value: unknown): number | undefined {
  if (typeof value === 'string' ? value.trim() === '' : !isNumber(value)) return undefined;
  const count = Number(value);
  return Number.isSafeInteger(count) && count >= 0 ? count : undefined;
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number' || typeof value === 'bigint';
}

/** The value at a path of keys through kvlists. */
function within(value: OtlpValue | undefined, path: readonly string[]): OtlpValue | undefined {
  let found = value;
  for (const key of path) {
    found = found?.kvlistValue?.values?.findLast((entry) => entry.key === key)?.value ?? undefined;
  }
  return found;
}
