import { globSync, readFileSync } from 'node:fs';

/**
 * The mechanical part of the language rules in CONTRIBUTING.md. `test/language.test.ts` holds the tree to
 * it; `node test/helper/language.ts PATH…` prints the findings of some files or folders.
 */
export type Finding = { readonly file: string; readonly line: number; readonly message: string };

/** Words and phrases with a better term, in comments, strings and prose. */
const AVOIDED: readonly (readonly [RegExp, string])[] = [
  [/\banew\b/i, '"anew": say rebuild, retry or replace'],
  [/\b(nobody|somebody|whoever)\b/i, 'name the actor: a client, a component, a request'],
  [/\b(is|are|was|were|be|been|gets?|got) told\b/i, '"told": say reported, notified or answered'],
  [/\bstands?\b(?! (for|in for)\b)/i, '"stands": say is, is in, or holds'],
  [/\bstood\b/i, '"stood": say was'],
  [/\bnowhere\b/i, '"nowhere": name the places'],
  [/\bfor ever\b/i, '"for ever": say without a limit, indefinitely or never'],
  [/\bat hand\b/i, '"at hand": say available'],
  [/\bby itself\b/i, '"by itself": say independently or on its own'],
  [/\bmeanwhile\b/i, '"meanwhile": name the interval'],
  [/\bbesides\b/i, '"besides": say also or in addition'],
  [/\bof these\b/i, '"of these": name the things'],
  [/\bwhat came\b/i, '"what came": name it'],
  [/\b(who|what) comes after\b/i, '"comes after": name it'],
  [/\bbesieged\b/i, '"besieged": say overloaded'],
];

const BARE_SUBJECT = /^(What|Who|Whoever|Nobody|Somebody|Of these|Of this)\b(?![^.?]*\?)/;

export const LANGUAGE_FILES = [
  '{src,receivers,processors,exporters,connectors,extensions,test,bench,scripts,ui}/**/*.{ts,tsx,mjs}',
  '{docs,src,receivers,processors,exporters,connectors,extensions,test,bench,deploy}/**/*.md',
  '{config,deploy}/*.yaml',
  '*.md',
];

/** Every finding in the files, in their order. */
export function findingsIn(files: readonly string[]): Finding[] {
  return files
    .filter((file) => file !== 'test/helper/language.ts')
    .flatMap((file) => findingsOf(file, readFileSync(file, 'utf8')));
}

/** `text` is the file's content; `file` decides by its ending what of it is prose. */
export function findingsOf(file: string, text: string): Finding[] {
  const prose = /\.(md|yaml)$/.test(file) ? markdownProse(text) : codeProse(text);
  const findings: Finding[] = [];
  for (const { line, text, startsSentence } of prose) {
    for (const [pattern, message] of AVOIDED) {
      if (pattern.test(text)) findings.push({ file, line, message });
    }
    const sentences = text.split(/(?<=[.!]\s)|(?<=^\s*[-|*]\s)|(?<=\|\s)/);
    sentences.forEach((sentence, i) => {
      if ((i > 0 || startsSentence) && BARE_SUBJECT.test(sentence.trim())) {
        findings.push({
          file,
          line,
          message: `no named subject: "${sentence.trim().slice(0, 40)}"`,
        });
      }
    });
  }
  return /\.md$/.test(file) ? findings : [...findings, ...logFindings(file, text)];
}

type Prose = { readonly line: number; readonly text: string; readonly startsSentence: boolean };

function markdownProse(text: string): Prose[] {
  let isCode = false;
  let isExample = false;
  let before = '';
  return text.split('\n').flatMap((raw, i) => {
    if (/^\s*```/.test(raw)) isCode = !isCode;
    // The table of the rules themselves has texts to avoid.
    isExample = raw.startsWith('|') && (isExample || raw.startsWith('| instead of |'));
    const startsSentence = before === '' || /[.:]$/.test(before);
    before = raw.trim();
    if (isCode || isExample) return [];
    return [
      { line: i + 1, text: raw.replace(/`[^`]*`/g, '`').replaceAll('**', ''), startsSentence },
    ];
  });
}

/** Comments and string literals. A comment's first line, and a line after a full stop, starts a sentence. */
function codeProse(text: string): Prose[] {
  const found: Prose[] = [];
  let before = '';
  let isBlock = false;
  text.split('\n').forEach((raw, i) => {
    const block = /^\s*(\/\*\*?|\*)(?!\/)\s?(.*)$/.exec(raw);
    const comment =
      isBlock || /^\s*\/\*/.test(raw) ? block?.[2] : /(?:^|\s)\/\/ (.*)$/.exec(raw)?.[1];
    if (/^\s*\/\*/.test(raw)) isBlock = true;
    if (/\*\//.test(raw)) isBlock = false;
    if (comment !== undefined) {
      const words = comment
        .replace(/\*\/\s*$/, '')
        .replace(/`[^`]*`/g, '`')
        .trim();
      found.push({
        line: i + 1,
        text: words,
        startsSentence: before === '' || /[.:!]$/.test(before),
      });
      before = words;
      return;
    }
    before = '';
    if (/^\s*(import|export) .* from '/.test(raw)) return;
    for (const [, , words = ''] of raw.matchAll(/(['"`])((?:\\.|(?!\1).)*)\1/g)) {
      if (/\s/.test(words)) found.push({ line: i + 1, text: words, startsSentence: true });
    }
  });
  return found;
}

/** Log calls: a capitalised fragment without a final stop, static text, the error in `err`. */
function logFindings(file: string, text: string): Finding[] {
  if (/^(test|bench|scripts)\//.test(file)) return [];
  const findings: Finding[] = [];
  const call =
    /\blogger\??\.(?:debug|info|warn|error)\(\s*(\{[^{}]*\}|[\w.]+),\s*(['"`])((?:\\.|(?!\2).)*)\2/g;
  for (const match of text.matchAll(call)) {
    const [, fields = '', quote, message = ''] = match;
    const line = text.slice(0, match.index).split('\n').length;
    const add = (what: string) => findings.push({ file, line, message: `${what}: "${message}"` });
    if (!/^[A-Z]/.test(message)) add('a log message starts with a capital');
    if (/[.!]$/.test(message)) add('a log message has no final stop');
    if (quote === '`') add('a log message is static; its variable parts are fields');
    if (/[{,]\s*error\b/.test(fields)) add('the error is in the field `err`');
  }
  return findings;
}

if (import.meta.main) {
  const places = process.argv.slice(2);
  const files = LANGUAGE_FILES.flatMap((pattern) => globSync(pattern)).filter(
    (file) => places.length === 0 || places.some((place) => file.startsWith(place)),
  );
  const findings = findingsIn(files);
  for (const { file, line, message } of findings)
    process.stdout.write(`${file}:${line}  ${message}\n`);
  process.stdout.write(`${findings.length} findings in ${files.length} files\n`);
}
