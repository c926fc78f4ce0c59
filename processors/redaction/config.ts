import { z } from 'zod';
import { TEXT_FIELDS } from '../../src/model/texts.ts';
import { secret } from '../../src/schema/fields.ts';
import { re2Pattern } from '../../src/schema/pattern-field.ts';

/** Actions on a match. */
const ACTIONS = ['mask', 'hash', 'remove'] as const;
export type Action = (typeof ACTIONS)[number];

/** Names whose values are redacted if the configuration lists none. */
const NAMES = [
  ...['password', 'passwd', 'pwd', 'passphrase', 'authorization', 'cookie', 'secret', 'token'],
  ...['api_key', 'access_key', 'secret_key', 'private_key', 'credentials'],
];

/** Characters of an entry of `keys`. */
const MAX_ENTRY = 128;

/** Shorter keys do not protect an address or a number against being guessed. */
const MIN_HASH_KEY = 16;

function ruleAction(what: string, byDefault: Action | 'off' = 'mask') {
  return z
    .enum([...ACTIONS, 'off'])
    .default(byDefault)
    .describe(what);
}

const rules = z
  .strictObject({
    api_keys: ruleAction('Keys of model providers and common services, known by their prefixes.'),
    cloud_keys: ruleAction('Access keys of AWS, secret keys of AWS and Azure behind their names.'),
    jwt: ruleAction('JSON Web Tokens.'),
    private_keys: ruleAction('Private keys in PEM, such as those of service accounts of GCP.'),
    credit_cards: ruleAction('Numbers of payment cards with a valid check digit.'),
    email: ruleAction('E-mail addresses.'),
    iban: ruleAction('IBANs with valid check digits, in capitals.'),
    phone: ruleAction('Phone numbers: international ones, and as in North America.', 'off'),
  })
  .prefault({})
  .describe('The built-in rules and what each does: `mask`, `hash`, `remove`, or `off`.');

const pattern = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z][a-z0-9_]{0,63}$/, 'expected a name of small letters, digits and underscores')
    .describe('Names the pattern in messages.'),
  pattern: re2Pattern().describe('RE2 syntax. It may not match the empty text.'),
  action: z.enum(ACTIONS).default('mask').describe('`mask`, `hash` or `remove`.'),
});

const FIELDS = TEXT_FIELDS.filter((field) => field !== 'fixed');

export const config = z
  .strictObject({
    rules,
    keys: z
      .array(
        z
          .string()
          .regex(/[\p{L}\p{N}]/u, 'expected a letter or a digit')
          .max(MAX_ENTRY),
      )
      .default(NAMES)
      .describe(
        'Names whose values are redacted as a whole, at any depth, also in JSON and headers within texts. `token` also covers `access_token` and `accessToken`.',
      ),
    keys_action: z
      .enum(ACTIONS)
      .default('mask')
      .describe('The action on these values: `mask`, `hash` or `remove`.'),
    patterns: z.array(pattern).max(64).default([]).describe('Patterns of your own.'),
    fields: z
      .array(z.enum(FIELDS))
      .min(1)
      .default(FIELDS)
      .describe('The parts of an observation that are searched.'),
    hash_key: secret()
      .optional()
      .describe(
        'The key of the HMAC that the action `hash` makes; at least 16 characters, from the environment.',
      ),
  })
  .superRefine((value, context) => {
    const { hash_key = '' } = value;
    const user = firstThatHashes(value);
    if (user !== undefined && hash_key === '') {
      const message = `${user} has the action hash, which needs hash_key: set it from the environment`;
      context.addIssue({ code: 'custom', path: ['hash_key'], message });
    } else if (hash_key !== '' && hash_key.length < MIN_HASH_KEY) {
      const message = `hash_key has ${hash_key.length} characters: use at least ${MIN_HASH_KEY}`;
      context.addIssue({ code: 'custom', path: ['hash_key'], message });
    }
  });

export type RedactionConfig = z.output<typeof config>;

/** The first field of the configuration whose action is `hash`. */
function firstThatHashes(value: {
  readonly rules: Readonly<Record<string, Action | 'off'>>;
  readonly keys_action: Action;
  readonly patterns: readonly { readonly name: string; readonly action: Action }[];
}): string | undefined {
  const rule = Object.entries(value.rules).find(([, action]) => action === 'hash')?.[0];
  if (rule !== undefined) return `rules.${rule}`;
  if (value.keys_action === 'hash') return 'keys_action';
  const pattern = value.patterns.find(({ action }) => action === 'hash')?.name;
  return pattern === undefined ? undefined : `the pattern ${pattern}`;
}
