/**
 * The cipher suites that `cipher_suites` may name, by their names of IANA, which the Collector uses, with those of
 * OpenSSL. They apply to TLS 1.2: TLS 1.3 has suites of its own, all authenticated.
 */
export const CIPHER_SUITES = {
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: 'ECDHE-ECDSA-AES128-GCM-SHA256',
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: 'ECDHE-RSA-AES128-GCM-SHA256',
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: 'ECDHE-ECDSA-AES256-GCM-SHA384',
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: 'ECDHE-RSA-AES256-GCM-SHA384',
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-ECDSA-CHACHA20-POLY1305',
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-RSA-CHACHA20-POLY1305',
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: 'ECDHE-ECDSA-AES128-SHA',
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: 'ECDHE-RSA-AES128-SHA',
  TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: 'ECDHE-ECDSA-AES256-SHA',
  TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA: 'ECDHE-RSA-AES256-SHA',
} as const;

export type CipherSuite = keyof typeof CIPHER_SUITES;

export const SUITE_NAMES = Object.keys(CIPHER_SUITES) as [CipherSuite, ...CipherSuite[]];

/** Forward secrecy and authenticated encryption: no suite in CBC mode. */
export const DEFAULT_SUITES: readonly CipherSuite[] = SUITE_NAMES.filter(
  (name) => !name.includes('_CBC_'),
);
