import { createPrivateKey, X509Certificate } from 'node:crypto';

/** Node's TLS ignores text that is no certificate, and then trusts fewer authorities than the file should name. */
const BEGIN = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/g;
const BLOCK =
  /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]+-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g;

/** Why PEM text does not name authorities: it is empty, cut off or damaged; undefined if it is sound. */
export function authoritiesProblem(pem: string): string | undefined {
  const begun = pem.match(BEGIN)?.length ?? 0;
  const blocks = pem.match(BLOCK) ?? [];
  if (begun === 0) return 'it has no certificate';
  if (blocks.length !== begun) return `certificate ${blocks.length + 1} is incomplete`;
  const damaged = blocks.findIndex((block) => !isCertificate(block));
  return damaged === -1 ? undefined : `certificate ${damaged + 1} is damaged`;
}

function isCertificate(block: string): boolean {
  try {
    new X509Certificate(block);
    return true;
  } catch {
    return false;
  }
}

type PairProblem = { readonly of: 'cert' | 'key'; readonly problem: string };

/** Why a chain of certificates and a private key, both as PEM text, cannot serve together; undefined if they can. */
export function pairProblem(chain: string, key: string): PairProblem | undefined {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(chain);
  } catch {
    return { of: 'cert', problem: 'it does not begin with a sound certificate' };
  }
  try {
    const isPair = certificate.checkPrivateKey(createPrivateKey(key));
    return isPair ? undefined : { of: 'key', problem: 'it is the key of another certificate' };
  } catch {
    return { of: 'key', problem: 'it has no private key that can be read without a passphrase' };
  }
}
