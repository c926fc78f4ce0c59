import { Cause } from './candidates.ts';
import { findApiKeys } from './rules/api-keys.ts';
import { findEmails, findPhones } from './rules/contact.ts';
import type { Finding } from './rules/finding.ts';
import { findIbans } from './rules/iban.ts';
import { findCards } from './rules/payment-cards.ts';
import { findAwsKeyIds, findJwts, findPrivateKeys } from './rules/tokens.ts';

/** The built-in rules, as the configuration names them. */
export const RULE_NAMES = [
  'api_keys',
  'cloud_keys',
  'jwt',
  'private_keys',
  'credit_cards',
  'email',
  'iban',
  'phone',
] as const;
export type RuleName = (typeof RULE_NAMES)[number];

/** A built-in rule, and the cause of the prefilter that calls for it. */
export type RedactionRule = {
  readonly name: RuleName;
  readonly cause: number;
  /**
   * Every match in a part of a text. `isCut` says that the text goes on behind it. A match of an open-ended rule
   * then ends with the part if its own end is not in it.
   */
  find(text: string, isCut: boolean): readonly Finding[];
  readonly isOpenEnded?: boolean;
};

export const RULES: readonly RedactionRule[] = [
  { name: 'api_keys', cause: Cause.API_KEY, find: findApiKeys },
  { name: 'cloud_keys', cause: Cause.RUN, find: findAwsKeyIds },
  { name: 'jwt', cause: Cause.JWT, find: findJwts },
  { name: 'private_keys', cause: Cause.PRIVATE_KEY, find: findPrivateKeys, isOpenEnded: true },
  { name: 'credit_cards', cause: Cause.RUN, find: findCards },
  { name: 'email', cause: Cause.EMAIL, find: findEmails },
  { name: 'iban', cause: Cause.RUN, find: findIbans },
  { name: 'phone', cause: Cause.PHONE, find: findPhones },
];

/**
 * Names of the rule `cloud_keys`: the secret keys of AWS and Azure have no form that tells them from other
 * Base64, but they are only useful beside such a name.
 */
export const CLOUD_NAMES: readonly string[] = [
  'secret_access_key',
  'aws_secret_key',
  'aws_session_token',
  'account_key',
  'shared_access_key',
];
