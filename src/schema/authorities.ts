import { X509Certificate } from 'node:crypto';

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
