import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import type { RuleName } from '../../../processors/redaction/rules.ts';

/** Generated secrets of every built-in rule, made by their definitions and not by the product's patterns. */

const DIGITS = '0123456789';
const LOWER = 'abcdefghijklmnopqrstuvwxyz';
const UPPER = LOWER.toUpperCase();
const ALPHANUMERIC = UPPER + LOWER + DIGITS;
const BASE64URL = `${ALPHANUMERIC}-_`;
const HEX = '0123456789abcdef';

function characters(alphabet: string, min: number, max = min): fc.Arbitrary<string> {
  return fc.string({ unit: fc.constantFrom(...alphabet), minLength: min, maxLength: max });
}

/** Characters as random as a generator makes them: a digit, a small letter and a capital occur. */
function random(min: number, max = min, alphabet = ALPHANUMERIC): fc.Arbitrary<string> {
  return characters(alphabet, min - 3, max - 3).map((text) => `x7Q${text}`);
}

function joined(...parts: readonly (string | fc.Arbitrary<string>)[]): fc.Arbitrary<string> {
  const all = parts.map((part) => (typeof part === 'string' ? fc.constant(part) : part));
  return fc.tuple(...all).map((texts) => texts.join(''));
}

/** By provider, so that a test can name the one that is missed. */
export const API_KEYS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  openai: joined('sk-', random(48)),
  openai_project: joined('sk-proj-', random(60, 156, BASE64URL)),
  anthropic: joined('sk-ant-api03-', random(93, 93, BASE64URL), 'AA'),
  openrouter: joined('sk-or-v1-', characters(HEX, 64)),
  deepseek: joined(
    'sk-',
    characters(HEX, 31).map((hex) => `7${hex}`),
  ),
  langfuse_secret: fc.uuid().map((id) => `sk-lf-${id}`),
  langfuse_public: fc.uuid().map((id) => `pk-lf-${id}`),
  google: joined('AIza', random(35, 35, BASE64URL)),
  hugging_face: joined('hf_', random(34)),
  groq: joined('gsk_', random(52)),
  xai: joined('xai-', random(80)),
  replicate: joined('r8_', random(37)),
  perplexity: joined('pplx-', random(48)),
  langsmith: joined('lsv2_pt_', characters(HEX, 32), '_', characters(HEX, 10)),
  github: joined(fc.constantFrom('ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'), random(36)),
  github_fine: joined('github_pat_', random(22), '_', random(59)),
  gitlab: joined('glpat-', random(20, 20, BASE64URL)),
  slack: joined('xoxb-', characters(DIGITS, 12), '-', characters(DIGITS, 13), '-', random(24)),
  stripe: joined('sk_live_', random(24, 99)),
  sendgrid: joined('SG.', random(22, 22, BASE64URL), '.', random(43, 43, BASE64URL)),
  twilio: joined('SK', characters(HEX, 32)),
  npm: joined('npm_', random(36)),
  pypi: joined('pypi-AgEIcHlwaS5vcmc', random(100, 160, BASE64URL)),
  tracectl: joined('ws_', random(49)),
};

const base64url = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

const jwt = fc
  .tuple(fc.uuid(), fc.nat(), fc.constantFrom('HS256', 'RS256'))
  .map(([sub, exp, alg]) => {
    const signed = `${base64url({ alg, typ: 'JWT' })}.${base64url({ sub, exp })}`;
    return `${signed}.${createHmac('sha256', 'key').update(signed).digest('base64url')}`;
  });

const privateKey = fc
  .tuple(
    fc.constantFrom('', 'RSA ', 'EC ', 'OPENSSH ', 'ENCRYPTED '),
    fc.array(characters(`${ALPHANUMERIC}+/`, 64), { minLength: 1, maxLength: 30 }),
    characters(`${ALPHANUMERIC}+/`, 4, 60),
  )
  .map(([type, lines, last]) =>
    [
      `-----BEGIN ${type}PRIVATE KEY-----`,
      ...lines,
      `${last}==`,
      `-----END ${type}PRIVATE KEY-----`,
    ].join('\n'),
  );

const ISSUERS: readonly (readonly [prefix: string, length: number])[] = [
  ...[['4', 16] as const, ['4', 19] as const, ['51', 16] as const, ['55', 16] as const],
  ...[['2221', 16] as const, ['2720', 16] as const, ['34', 15] as const, ['37', 15] as const],
  ...[['6011', 16] as const, ['65', 16] as const, ['36', 14] as const, ['3528', 16] as const],
  ['62', 16],
];

/** The digit that makes the sum of all, every second one doubled, a multiple of ten. */
export function withCheckDigit(digits: string): string {
  for (const last of DIGITS) {
    const all = `${digits}${last}`;
    const sum = [...all].toReversed().reduce((total, digit, i) => {
      const value = Number(digit) * (i % 2 === 1 ? 2 : 1);
      return total + (value > 9 ? value - 9 : value);
    }, 0);
    if (sum % 10 === 0) return all;
  }
  throw new Error('no check digit fits');
}

const card = fc
  .constantFrom(...ISSUERS)
  .chain(([prefix, length]) =>
    characters(DIGITS, length - prefix.length - 1).map((rest) => withCheckDigit(prefix + rest)),
  );

const groupedCard = fc.tuple(card, fc.constantFrom(' ', '-')).map(([digits, separator]) => {
  const isShort = digits.length < 16;
  const groups = isShort ? /^(.{4})(.{6})(.+)$/ : /^(.{4})(.{4})(.{4})(.{4})(.*)$/;
  const [, ...parts] = groups.exec(digits) ?? [];
  return parts.filter((part) => part !== '').join(separator);
});

/** With the check digits that make the number, its first four characters at its end, 1 modulo 97. */
export function iban(country: string, bban: string): string {
  const numeric = [...`${bban}${country}00`]
    .map((character) => String(Number.parseInt(character, 36)))
    .join('');
  const check = String(98n - (BigInt(numeric) % 97n)).padStart(2, '0');
  return `${country}${check}${bban}`;
}

const ibans = fc
  .constantFrom(['DE', 18] as const, ['GB', 18] as const, ['NO', 11] as const, ['MT', 27] as const)
  .chain(([country, length]) =>
    characters(country === 'DE' ? DIGITS : UPPER + DIGITS, length).map((bban) =>
      iban(country, bban),
    ),
  );

const groupedIban = ibans.map((text) => text.replace(/(.{4})(?=.)/g, '$1 '));

const email = fc
  .tuple(
    joined(characters(LOWER, 1, 10), fc.constantFrom('', '.', '+', '_', '-'), random(3, 12)),
    characters(LOWER + DIGITS, 2, 20),
    fc.constantFrom('com', 'co.uk', 'example', 'museum', 'de'),
  )
  .map(([local, domain, end]) => `${local}@a${domain}.${end}`);

const phone = fc.oneof(
  characters(DIGITS, 9, 11).map((digits) => `+49${digits}`),
  characters(DIGITS, 9).map((digits) => `+49 17${digits.slice(0, 2)} ${digits.slice(2)}`),
  characters(DIGITS, 7).map((digits) => `(415) 2${digits.slice(1, 3)}-${digits.slice(3)}`),
);

export const SECRETS: Readonly<Record<RuleName, fc.Arbitrary<string>>> = {
  api_keys: fc.oneof(...Object.values(API_KEYS)),
  cloud_keys: joined(fc.constantFrom('AKIA', 'ASIA'), characters(`${UPPER}234567`, 16)),
  jwt,
  private_keys: privateKey,
  credit_cards: fc.oneof(card, groupedCard),
  email,
  iban: fc.oneof(ibans, groupedIban),
  phone,
};
