import { createHash, createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

/** The secrets of the web UI: ids of sessions and one-time codes. */
export type UiSecrets = {
  /** 256 random bits and a tag that only the holder of the admin token can make. Needs no escapes in a link or cookie. */
  make(kind: SecretKind): string;
  /** Whether the text was made with this admin token, so that a guess costs no request to the store. */
  isOwn(kind: SecretKind, secret: string): boolean;
  /** Names the admin token, without revealing it to a reader of the store. */
  readonly binding: Buffer;
  /** Distinguishes the cookies of daemons on one host: a browser sends a cookie to every port. */
  readonly suffix: string;
};

type SecretKind = 'session' | 'code';

const RANDOM_BYTES = 32;
const TAG_BYTES = 16;
const deriveKey = promisify<string, string, number, Buffer>(scrypt);

/** The same on every replica with this admin token and store. The derivation is slow, because a token may be short. */
export async function uiSecrets(token: string, organizationId: string): Promise<UiSecrets> {
  const key = await deriveKey(token, organizationId, 32);
  const tagOf = (kind: string, random: Buffer): Buffer =>
    createHmac('sha256', key).update(`${kind}\n`).update(random).digest().subarray(0, TAG_BYTES);
  return {
    make(kind) {
      const random = randomBytes(RANDOM_BYTES);
      return Buffer.concat([random, tagOf(kind, random)]).toString('base64url');
    },
    isOwn(kind, secret) {
      const bytes = Buffer.from(secret, 'base64url');
      if (bytes.length !== RANDOM_BYTES + TAG_BYTES) return false;
      if (bytes.toString('base64url') !== secret) return false;
      const tag = tagOf(kind, bytes.subarray(0, RANDOM_BYTES));
      return timingSafeEqual(tag, bytes.subarray(RANDOM_BYTES));
    },
    binding: tagOf('binding', Buffer.alloc(0)),
    suffix: hashSecret(organizationId).toString('hex').slice(0, 8),
  };
}

/** The stored form of a secret. */
export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
