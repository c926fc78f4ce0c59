import { parseExact } from '../api/exact-json.ts';

/** A part of a message. */
export type MessagePart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  | Image
  | ToolCall
  | {
      readonly type: 'tool_result';
      readonly id: string | undefined;
      readonly name: string | undefined;
      readonly parts: readonly MessagePart[];
    }
  /** Anything else, shown as JSON. */
  | { readonly type: 'data'; readonly label: string; readonly value: unknown };

export type Image = { readonly type: 'image'; readonly url: string };

export type ToolCall = {
  readonly type: 'tool_call';
  readonly id: string | undefined;
  readonly name: string;
  /** JSON if the arguments are JSON, else their text. */
  readonly input: unknown;
  readonly result?: readonly MessagePart[];
};

type JsonRecord = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Characters of a text that is looked at as JSON. */
const MOST_JSON = 1_000_000;

/** The object or the list that a text is in JSON; undefined for any other text. */
export function jsonOf(text: string): object | undefined {
  if (text.length > MOST_JSON || !/^\s*[{[]/.test(text)) return undefined;
  try {
    return parseExact(text) as object;
  } catch {
    return undefined;
  }
}

/** A text that is not empty. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The parts of the content of a message: a text, or a list of parts. */
export function contentParts(content: unknown): MessagePart[] {
  if (content === undefined || content === null || content === '') return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (Array.isArray(content)) return content.flatMap(partsOf);
  return partsOf(content);
}

function partsOf(value: unknown): MessagePart[] {
  if (typeof value === 'string') return value === '' ? [] : [{ type: 'text', text: value }];
  if (!isRecord(value)) return value === null ? [] : [{ type: 'data', label: 'Part', value }];
  const { message_content: inner, tool_call: call } = value;
  // OpenInference.
  if (isRecord(inner)) return partsOf(inner);
  if (isRecord(call)) return partsOf({ ...call, type: 'tool_call' });
  if (typeof value['block_type'] === 'string') return partsOf(withType(value));
  const found =
    toolCall(value) ?? toolResult(value) ?? image(value) ?? reasoning(value) ?? text(value);
  if (found !== undefined) return [found];
  const label = textOf(value['type']) ?? 'Part';
  return [{ type: 'data', label, value }];
}

/** A block of LlamaIndex, whose type and tool have other names. */
function withType({ block_type: type, tool_name, tool_call_id, tool_kwargs, ...rest }: JsonRecord) {
  if (type !== 'tool_call') return { ...rest, type };
  return { ...rest, type, name: tool_name, call_id: tool_call_id, arguments: tool_kwargs };
}

const TEXT_TYPES = new Set(['text', 'input_text', 'output_text', 'refusal', 'summary_text']);

function text(value: JsonRecord): MessagePart | undefined {
  const { type } = value;
  if (type !== undefined && !(typeof type === 'string' && TEXT_TYPES.has(type))) return undefined;
  const found = value['text'] ?? value['content'] ?? value['refusal'];
  return typeof found === 'string' ? { type: 'text', text: found } : undefined;
}

function reasoning(value: JsonRecord): MessagePart | undefined {
  const { type, thought, summary } = value;
  const isReasoning = type === 'reasoning' || type === 'thinking' || thought === true;
  if (!isReasoning) return undefined;
  const own = value['text'] ?? value['thinking'] ?? value['content'];
  if (typeof own === 'string') return { type: 'reasoning', text: own };
  const texts = [summary, value['content']].flatMap(contentParts);
  const joined = texts.map((part) => ('text' in part ? part.text : '')).join('\n');
  return joined === '' ? undefined : { type: 'reasoning', text: joined };
}

const CALL_TYPES = new Set([
  ...['tool_call', 'tool_use', 'function', 'function_call', 'custom_tool_call', 'tool-call'],
  ...['server_tool_use', 'mcp_call'],
]);

function toolCall(value: JsonRecord): ToolCall | undefined {
  const { type, function: named, functionCall: gemini } = value;
  if (isRecord(gemini)) return callOf(gemini, gemini['args']);
  if (typeof type !== 'string' || !CALL_TYPES.has(type)) return undefined;
  if (isRecord(named)) return callOf({ ...named, ...idOf(value) }, named['arguments']);
  return callOf(value, value['arguments'] ?? value['args'] ?? value['input']);
}

function callOf(value: JsonRecord, input: unknown): ToolCall {
  const { id } = idOf(value);
  const name = textOf(value['name']) ?? textOf(value['toolName']) ?? 'tool';
  return { type: 'tool_call', id, name, input: parsed(input) };
}

/** OpenAI's responses have an id of the item beside the one of the call. */
function idOf(value: JsonRecord): { readonly id: string | undefined } {
  return {
    id: textOf(value['call_id']) ?? textOf(value['toolCallId']) ?? textOf(value['id']),
  };
}

function parsed(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return parseExact(value);
  } catch {
    return value;
  }
}

const RESULT_TYPES = new Set([
  ...['tool_result', 'tool_call_response', 'function_call_output', 'tool-result'],
  ...['custom_tool_call_output', 'web_search_tool_result'],
]);

function toolResult(value: JsonRecord): MessagePart | undefined {
  const { type, functionResponse: gemini } = value;
  if (isRecord(gemini)) return resultOf(gemini, gemini['response']);
  if (typeof type !== 'string' || !RESULT_TYPES.has(type)) return undefined;
  const found =
    value['content'] ?? value['output'] ?? value['result'] ?? value['response'] ?? value['results'];
  return resultOf({ ...value, id: value['tool_use_id'] ?? value['id'] }, found);
}

function resultOf(value: JsonRecord, given: unknown): MessagePart {
  const { id } = idOf(value);
  const isList = Array.isArray(given) && given.every((each) => isRecord(each) && 'type' in each);
  const parts: MessagePart[] =
    typeof given === 'string' || isList
      ? contentParts(given)
      : [{ type: 'data', label: 'Result', value: given }];
  return { type: 'tool_result', id, name: textOf(value['name']), parts };
}

/** Images by any address; only some of them can be shown. */
function image(value: JsonRecord): Image | undefined {
  const { image_url: url, source, image: given, inlineData, inline_data, type, data } = value;
  const direct = [url, given].find((each) => typeof each === 'string');
  if (typeof direct === 'string') return { type: 'image', url: direct };
  for (const holder of [url, given]) {
    if (!isRecord(holder)) continue;
    const inner = holder['url'] ?? (isRecord(holder['image']) ? holder['image']['url'] : undefined);
    if (typeof inner === 'string') return { type: 'image', url: inner };
  }
  for (const blob of [source, inlineData, inline_data]) {
    const found = isRecord(blob) ? blobUrl(blob) : undefined;
    if (found !== undefined) return { type: 'image', url: found };
  }
  const isBlob = type === 'blob' || type === 'image' || type === 'file' || type === 'image-data';
  if (!isBlob) return undefined;
  const own = blobUrl({ ...value, data: data ?? value['content'] });
  return own === undefined ? undefined : { type: 'image', url: own };
}

function blobUrl(value: JsonRecord): string | undefined {
  const { data, url } = value;
  if (typeof url === 'string') return url;
  const mime = value['media_type'] ?? value['mime_type'] ?? value['mimeType'] ?? value['mediaType'];
  if (typeof data !== 'string' || typeof mime !== 'string' || !mime.startsWith('image/')) {
    return undefined;
  }
  return `data:${mime};base64,${data}`;
}

/** The most bytes of an image that can be shown. */
export const IMAGE_BYTES = 5 * 1_048_576;

const SAFE_IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

/** The address of an image that holds the image itself, in a form that runs nothing; undefined for any other. */
export function safeImage(
  url: string,
): { readonly url: string; readonly size: number } | undefined {
  const size = Math.floor((url.length - url.indexOf(',') - 1) * 0.75);
  if (size >= IMAGE_BYTES || !SAFE_IMAGE.test(url)) return undefined;
  return { url, size };
}
