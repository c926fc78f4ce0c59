import { z } from 'zod';

/** `allowed_hosts` of a management listener. */
export function allowedHosts() {
  return z
    .array(z.string().regex(/^(\*|[^\s:/?#@*]+)$/, { error: 'must be a name without port, or *' }))
    .default([])
    .describe(
      'Further names that a `Host` header may have, beside IP addresses, loopback names and the name in the endpoint; `*` accepts all. Other names are refused (421), against DNS rebinding.',
    );
}
