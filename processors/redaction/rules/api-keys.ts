import { type Finding, matchEnd } from './finding.ts';

/**
 * The shapes of API keys: a prefix that names the provider, and random characters behind it. Keys without a
 * prefix (Mistral, Cohere) are found by the name in front of them; see secret-names.ts.
 */
type Shape = {
  readonly prefix: string | readonly string[];
  /** Source of the random part; its length is bounded, so that a scan stays linear. */
  readonly rest: string;
  /**
   * The prefix also occurs in words and identifiers (`risk-`, `hf_`), so the rest must hold a digit or letters
   * of both cases. Fewer than one in ten million random keys of 20 characters has neither.
   */
  readonly isMixed?: boolean;
};

/** Further characters are added when the match is certain. */
const MAX_REST = 80;
const letters = (min: number) => `[A-Za-z0-9]{${min},${MAX_REST}}`;
const token = (min: number) => `[\\w-]{${min},${MAX_REST}}`;

const SLACK = Array.from('abcdeoprs', (kind) => `xox${kind}-`);
const GITLAB = ['pat', 'ptt', 'dt', 'rt', 'cbt', 'oas', 'soat', 'agent'].map(
  (kind) => `gl${kind}-`,
);

const SHAPES: readonly Shape[] = [
  // OpenAI, Anthropic, OpenRouter, Langfuse; then OpenAI's older keys and providers that follow them.
  { prefix: 'sk-', rest: `(?:proj|svcacct|admin|ant|or|lf)-${token(16)}` },
  { prefix: 'sk-', rest: `(?:[a-z]{2,10}-)?${letters(16)}`, isMixed: true },
  { prefix: 'pk-lf-', rest: token(16) },
  // Google: API keys and OAuth clients.
  { prefix: 'AIza', rest: token(30) },
  { prefix: 'GOCSPX-', rest: token(20) },
  // Hugging Face, Groq, xAI, Replicate, Perplexity.
  { prefix: 'hf_', rest: letters(20), isMixed: true },
  { prefix: 'gsk_', rest: letters(20), isMixed: true },
  { prefix: 'xai-', rest: letters(20), isMixed: true },
  { prefix: 'r8_', rest: letters(20), isMixed: true },
  { prefix: 'pplx-', rest: letters(20), isMixed: true },
  // NVIDIA, Together, Tavily, Jina.
  { prefix: 'nvapi-', rest: token(20) },
  { prefix: 'tgp_v1_', rest: token(20) },
  { prefix: 'tvly-', rest: token(16) },
  { prefix: 'jina_', rest: letters(20), isMixed: true },
  // LangSmith.
  { prefix: 'lsv2_', rest: token(20) },
  { prefix: 'ls__', rest: letters(20), isMixed: true },
  // GitHub, GitLab, npm, PyPI, Docker, DigitalOcean.
  { prefix: ['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'], rest: letters(20) },
  { prefix: 'github_pat_', rest: token(20) },
  { prefix: GITLAB, rest: token(16) },
  { prefix: 'npm_', rest: letters(30), isMixed: true },
  { prefix: 'pypi-', rest: token(32), isMixed: true },
  { prefix: 'dckr_pat_', rest: token(16) },
  { prefix: 'dop_v1_', rest: letters(20) },
  // Slack, Stripe, SendGrid, Twilio.
  { prefix: [...SLACK, 'xapp-'], rest: token(10), isMixed: true },
  { prefix: ['sk_live_', 'sk_test_', 'rk_live_', 'rk_test_'], rest: letters(16) },
  { prefix: 'whsec_', rest: '[A-Za-z0-9+/=]{20,256}' },
  { prefix: 'SG.', rest: '[\\w-]{16,64}\\.[\\w-]{16,128}' },
  { prefix: 'SK', rest: '[0-9a-f]{32}' },
  // The keys of tracectl's own projects.
  { prefix: 'ws_', rest: letters(40), isMixed: true },
];

/** Every prefix, as plain text. */
export const KEY_PREFIXES: readonly string[] = [...new Set(SHAPES.flatMap(({ prefix }) => prefix))];

const CERTAIN = union(SHAPES.filter(({ isMixed }) => isMixed !== true));
const MIXED = union(SHAPES.filter(({ isMixed }) => isMixed === true));

function union(shapes: readonly Shape[]): RegExp {
  const sources = shapes.map(({ prefix, rest }) => {
    const prefixes = [prefix].flat().map((text) => text.replace('.', '\\.'));
    return `(?:${prefixes.join('|')})(?:${rest})`;
  });
  return new RegExp(sources.join('|'), 'g');
}

export function findApiKeys(text: string): Finding[] {
  const found: Finding[] = [];
  for (const { index, 0: key } of text.matchAll(CERTAIN)) found.push(withTail(text, index, key));
  MIXED.lastIndex = 0;
  for (let match = MIXED.exec(text); match !== null; match = MIXED.exec(text)) {
    const { index, 0: key } = match;
    const rest = key.slice(key.search(/[-_]/) + 1);
    if (isMixed(rest)) found.push(withTail(text, index, key));
    else MIXED.lastIndex = index + 1;
  }
  return found;
}

function isMixed(rest: string): boolean {
  return /[0-9]/.test(rest) || (/[a-z]/.test(rest) && /[A-Z]/.test(rest));
}

/** Characters that could belong to the key count as its part: none of a longer key is left over. */
function withTail(text: string, start: number, key: string): Finding {
  const end = start + key.length;
  return { start, end: matchEnd(TAIL, text, end) ?? end };
}

const TAIL = /[\w-]*/y;
