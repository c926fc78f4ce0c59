import type { ObservationError } from './observation.ts';

/**
 * The parts of the text with which LangSmith's clients and LangChain send an error:
 *
 *   Python           ValueError('x')\n\nTraceback (most recent call last):\n…   LangChain leaves out the empty line
 *   Python, async    ValueError('x')\n\nNoneType: None\n                        the client formats it outside of the handler
 *   JS               TypeError: x
 *   LangChain JS     x\n\nTypeError: x\n    at …
 *
 * Any other text is a message.
 */
export function errorOfText(text: string): ObservationError {
  return pythonError(text) ?? javaScriptStack(text) ?? namedError(text) ?? messageOnly(text);
}

function messageOnly(message: string): ObservationError {
  return { message, type: null, stacktrace: null };
}

const TRACEBACK = 'Traceback (most recent call last):';
/** Python prints this line in place of the traceback of no error. */
const NO_TRACEBACK = '\nNoneType: None';
/** The beginning of the traceback of a group. */
const GROUP = '+ Exception Group ';
/** Longer beginnings are not taken apart. */
const MAX_HEAD = 32_768;

/** Whether the message of an error is a whole text of Python, with a traceback or the line in its place. */
export function isPythonText(message: string): boolean {
  return message.includes(TRACEBACK) || headOfAsync(message) !== undefined;
}

/** The text before the line in place of a traceback. */
function headOfAsync(text: string): string | undefined {
  const trimmed = text.slice(-NO_TRACEBACK.length - 1).trimEnd();
  if (!trimmed.endsWith(NO_TRACEBACK)) return undefined;
  return text.trimEnd().slice(0, -NO_TRACEBACK.length).trimEnd() || undefined;
}

function pythonError(text: string): ObservationError | undefined {
  const head = headOfAsync(text);
  if (head === undefined || head.length > MAX_HEAD) return errorWithTraceback(text);
  return raisedError(head, null) ?? namedError(head) ?? messageOnly(head);
}

function errorWithTraceback(text: string): ObservationError | undefined {
  const at = tracebackIn(text);
  const before = at === -1 ? text : text.slice(0, at);
  if (before.length > MAX_HEAD) return undefined;
  const trimmed = before.trimEnd();
  const isGroup = at !== -1 && trimmed.endsWith(GROUP.trimEnd());
  const head = (isGroup ? trimmed.slice(0, -GROUP.length + 1) : trimmed).trim();
  const stacktrace = at === -1 ? null : text.slice(isGroup ? before.lastIndexOf(GROUP) : at);
  if (head === '' && stacktrace !== null) return { ...lastLine(stacktrace), stacktrace };
  const raised = raisedError(head, stacktrace);
  if (stacktrace === null) return isErrorName(raised?.type ?? '') ? raised : undefined;
  return raised ?? { ...(namedError(head) ?? messageOnly(head)), stacktrace };
}

/** An error as Python prints it: its type, and its arguments in parentheses. */
function raisedError(text: string, stacktrace: string | null): ObservationError | undefined {
  const raised = /^([A-Za-z_][\w.]{0,255})\(([\s\S]*)\)$/.exec(text);
  if (raised === null) return undefined;
  return { message: argumentText(raised[2] ?? ''), type: raised[1] ?? null, stacktrace };
}

/** Further places are not looked at. */
const MAX_PLACES = 16;

/**
 * The place of the traceback; -1 without one. A message may have another one in it, as those of interpreters of code do: that is
 * neither at the start of a line nor behind the parenthesis of the error.
 */
function tracebackIn(text: string): number {
  const first = text.indexOf(TRACEBACK);
  let at = first;
  for (let places = 0; at !== -1 && places < MAX_PLACES; places++) {
    const isOwn = at === 0 || text[at - 1] === '\n' || text[at - 1] === ')';
    if (isOwn || text.endsWith(GROUP, at)) return at;
    at = text.indexOf(TRACEBACK, at + 1);
  }
  // An error that ends with its parenthesis has nothing behind it.
  return /^[A-Za-z_][\w.]{0,255}\(/.test(text) && text.trimEnd().endsWith(')') ? -1 : first;
}

/** The last line of a traceback: `ValueError: x`. */
function lastLine(stacktrace: string): ObservationError {
  const line = stacktrace.trimEnd().slice(-MAX_HEAD).split('\n').at(-1) ?? '';
  const named = /^([A-Za-z_][\w.]{0,255})(?:: ([\s\S]*))?$/.exec(line);
  if (named === null) return messageOnly(line);
  return { message: named[2] ?? null, type: named[1] ?? null, stacktrace: null };
}

/** The content of the only argument, if it is a text; else the arguments as Python prints them. */
function argumentText(text: string): string {
  const quote = text[0];
  if ((quote !== "'" && quote !== '"') || text.length < 2 || !text.endsWith(quote)) return text;
  const content = text.slice(1, -1);
  const plain = content.replace(/\\[\s\S]/g, '');
  if (plain.includes(quote) || plain.includes('\\')) return text;
  return content.replace(/\\([nrt\\'"])/g, (_, name: string) => ESCAPES[name] ?? name);
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };

function javaScriptStack(text: string): ObservationError | undefined {
  const stack = stackIn(text.slice(0, MAX_HEAD));
  if (stack === -1) return undefined;
  const head = text.slice(0, stack);
  const end = head.trimEnd().length;
  // LangChain repeats the message before the stack, which begins with the type and the message. It may end with a line break.
  for (let at = head.indexOf('\n\n'); at !== -1; at = head.indexOf('\n\n', at + 1)) {
    NAME.lastIndex = at + 2;
    const type = NAME.exec(head)?.[1];
    if (type === undefined || !isErrorName(type)) continue;
    const message = head.slice(NAME.lastIndex);
    const before = head.slice(0, at).trimEnd();
    // A head has thousands of places, of which few have a message of the right length.
    if (before.length !== Math.max(0, end - NAME.lastIndex)) continue;
    if (message.trimEnd() === before) return { message, type, stacktrace: text.slice(at + 2) };
  }
  const named = namedError(head);
  return named === undefined ? undefined : { ...named, stacktrace: text };
}

/** The beginning of a text with the name of an error. */
const NAME = /([A-Za-z_$][\w$.]{0,255}): /y;

/**
 * The line break before the first line of a stack, which is `at …` behind white space; -1 without one. A regular expression such as
 * `\n\s+at ` takes the square of the line breaks of a text.
 */
function stackIn(text: string): number {
  for (let at = text.indexOf('at '); at !== -1; at = text.indexOf('at ', at + 1)) {
    let start = at;
    while (start > 0 && /\s/.test(text[start - 1] ?? '')) start--;
    const lineBreak = text.slice(start, Math.max(start, at - 1)).indexOf('\n');
    if (lineBreak !== -1) return start + lineBreak;
  }
  return -1;
}

function namedError(text: string): ObservationError | undefined {
  const named = /^([A-Za-z_$][\w$.]{0,255}): ([\s\S]*)$/.exec(text);
  if (named === null || !isErrorName(named[1] ?? '')) return undefined;
  return { message: named[2] ?? null, type: named[1] ?? null, stacktrace: null };
}

/** A word before a colon is the name of an error only if it sounds like one. */
function isErrorName(name: string): boolean {
  return /(?:Error|Exception|Interrupt|Timeout|Exit|Warning)$/.test(name);
}
