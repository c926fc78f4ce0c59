import fc from 'fast-check';
import t from 'tap';
import { RULE_NAMES, type RuleName } from '../../../processors/redaction/rules.ts';
import { redacted, redactedText } from './redacting.ts';
import { API_KEYS, iban, SECRETS, withCheckDigit } from './secrets.ts';

const RUNS = 300;
const ALL = { rules: { phone: 'mask' } };
/** Bytes of a text that are searched at once, and those that two pieces share. */
const PIECE = 131_072;
const OVERLAP = 24_576;

/** Text around a secret: everything that occurs in a JSON string, well-formed. */
const around = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 30 }),
  fc.string({ unit: fc.constantFrom(...'{}[]:,"\'\\/ \n@-_=+.aZ0n'), maxLength: 40 }),
  fc.lorem({ maxCount: 60 }),
);

/** Neighbours that would make another number of a secret. */
const TOUCHING: Readonly<Partial<Record<RuleName, { before: RegExp; after: RegExp }>>> = {
  credit_cards: { before: /[0-9a-fA-F.-]$/, after: /^[0-9a-fA-F.-]/ },
  iban: { before: /[A-Z0-9]$/, after: /^[A-Z0-9]/ },
  phone: { before: /[\w+.-]$/, after: /^[\w-]/ },
};

/** A JSON string in which each character may be spelled by an escape. */
function spelled(text: string, choices: readonly number[]): string {
  const characters = Array.from(text, (character, i) => {
    const choice = choices[i % choices.length] ?? 0;
    if (choice === 3 && character === '/') return '\\/';
    if (choice === 0 || choice === 3) return JSON.stringify(character).slice(1, -1);
    const escapes = Array.from({ length: character.length }, (_, unit) => {
      const hex = character.charCodeAt(unit).toString(16).padStart(4, '0');
      return `\\u${choice === 1 ? hex : hex.toUpperCase()}`;
    });
    return escapes.join('');
  });
  return `"${characters.join('')}"`;
}

/** How a text is written into a body: each level is a JSON string in the one around it. */
const spelling = fc.array(
  fc.array(fc.constantFrom(0, 0, 0, 1, 2, 3), { minLength: 1, maxLength: 16 }),
  { minLength: 1, maxLength: 3 },
);

function nested(text: string, levels: readonly (readonly number[])[]): string {
  return levels.reduceRight<string>((inner, choices, i) => {
    const value = spelled(inner, choices);
    return i === 0 ? value : `{"arguments": ${value}}`;
  }, text);
}

/** The text again; throws if a level is no JSON any more. */
function unnested(json: string, levels: number): string {
  let text = String(JSON.parse(json));
  for (let i = 1; i < levels; i++) text = (JSON.parse(text) as { arguments: string }).arguments;
  return text;
}

function isApart(rule: RuleName, before: string, after: string): boolean {
  const touching = TOUCHING[rule];
  return touching === undefined || !(touching.before.test(before) || touching.after.test(after));
}

for (const rule of RULE_NAMES) {
  t.test(`${rule}: no secret is left, wherever it is and however it is escaped`, async () => {
    fc.assert(
      fc.property(SECRETS[rule], around, around, spelling, (secret, before, after, levels) => {
        fc.pre(isApart(rule, before, after));
        const value = nested(before + secret + after, levels);
        const body = `{"events":[{"inputs":{"x":${value}}}]}`;
        const result = redacted('native', body, ALL).toString();
        const left = unnested(result.slice(26, -4), levels.length);
        return !left.includes(secret) && Buffer.byteLength(result) === Buffer.byteLength(body);
      }),
      { numRuns: RUNS },
    );
  });
}

for (const [provider, keys] of Object.entries(API_KEYS)) {
  t.test(`finds every API key of ${provider}`, async () => {
    fc.assert(
      fc.property(keys, (key) => !redactedText(`key: "${key}".`).includes(key)),
      { numRuns: 50 },
    );
  });
}

t.test('every secret stays if its rule is off', async () => {
  const rules = Object.fromEntries(RULE_NAMES.map((name) => [name, 'off']));
  const secret = fc.oneof(...Object.values(SECRETS));
  fc.assert(
    fc.property(secret, (text) => redactedText(`a ${text} z`, { rules, keys: [] }).includes(text)),
    { numRuns: RUNS },
  );
});

t.test('a text without a match stays byte for byte', async () => {
  const letters = fc.constantFrom(...'abcdefghijklmnopqrstuvwxyzABC 0123456.,!?éß漢🙂\n"\\/');
  const text = fc.array(fc.string({ unit: letters, maxLength: 12 }), { maxLength: 40 });
  fc.assert(
    fc.property(text, spelling, (words, levels) => {
      const body = `{"events":[{"name":"a","inputs":${nested(words.join(' '), levels)}}]}`;
      return redacted('native', body).toString() === body;
    }),
    { numRuns: RUNS },
  );
});

t.test('a number with a wrong check digit is no card', async () => {
  fc.assert(
    fc.property(SECRETS.credit_cards, fc.integer({ min: 1, max: 9 }), (card, more) => {
      const wrong = card.slice(0, -1) + ((Number(card.at(-1)) + more) % 10);
      return redactedText(`pay ${wrong} now`) === `pay ${wrong} now`;
    }),
    { numRuns: RUNS },
  );
});

t.test('digits of a foreign issuer are no card, whatever their check digit is', async () => {
  const digits = fc.string({
    unit: fc.constantFrom(...'0123456789'),
    minLength: 14,
    maxLength: 17,
  });
  fc.assert(
    fc.property(fc.constantFrom('0', '1', '7', '8', '9'), digits, (first, rest) => {
      const number = withCheckDigit(first + rest);
      return redactedText(number) === number;
    }),
    { numRuns: RUNS },
  );
});

t.test('an IBAN with wrong check digits stays', async () => {
  const bban = fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 18, maxLength: 18 });
  fc.assert(
    fc.property(bban, fc.integer({ min: 1, max: 96 }), (account, more) => {
      const right = iban('DE', account);
      const check = (Number(right.slice(2, 4)) + more) % 97;
      const wrong = `DE${String(check).padStart(2, '0')}${account}`;
      const rules = { credit_cards: 'off' };
      return redactedText(wrong, { rules }) === wrong || check + 97 === Number(right.slice(2, 4));
    }),
    { numRuns: RUNS },
  );
});

t.test('the hash of a secret does not depend on how it is escaped', async () => {
  const written = { rules: { email: 'hash' }, hash_key: '0123456789abcdef' };
  const hashOf = (text: string, levels: readonly (readonly number[])[]) => {
    const body = `{"events":[{"inputs":${nested(`<${text}>`, levels)}}]}`;
    return /\[HASH:[0-9a-f]{16}\]/.exec(redacted('native', body, written).toString())?.[0];
  };
  fc.assert(
    fc.property(SECRETS.email, spelling, (text, levels) => {
      const hash = hashOf(text, [[0]]);
      return hash !== undefined && hashOf(text, levels) === hash;
    }),
    { numRuns: RUNS },
  );
});

t.test('a match across the edge of two pieces is redacted once', async (t) => {
  const ticket = 'TCK-123456';
  // One starts with the same text in every match, the other does not.
  for (const pattern of ['TCK-[0-9]{6}', '[T]CK-[0-9]{6}']) {
    const settings = {
      ...{ keys: [], hash_key: 'x'.repeat(16) },
      patterns: [{ name: 'ticket', pattern, action: 'hash' }],
    };
    for (const filler of ['x', '\n', '\u0001', 'é', '\\n', '😀']) {
      const ofFiller = Buffer.byteLength(JSON.stringify(filler)) - 2;
      // The text ends two pieces after the edge, however many bytes a filler has.
      const after = filler.repeat(Math.ceil((2 * PIECE) / ofFiller));
      for (const edge of [PIECE, PIECE + OVERLAP]) {
        for (let before = -6; before <= 12; before += 3) {
          const count = Math.floor((edge - before) / ofFiller);
          const text = filler.repeat(count) + ticket + after;
          const result = redactedText(text, settings);
          const [hash = '', ...others] = result.match(/\[HASH:[0-9a-f]{16}\]/g) ?? [];
          if (others.length === 0 && result === text.replace(ticket, hash)) continue;
          t.fail(`${pattern} ${JSON.stringify(filler)} ${edge} ${before}`);
        }
      }
    }
  }
  t.pass('all are');
});
