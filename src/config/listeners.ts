import { type Endpoint, parseEndpoint } from '../schema/fields.ts';
import type { Draft } from './draft.ts';
import { isUsed } from './references.ts';
import { visit } from './shape.ts';
import type { Path } from './tree.ts';
import { nodeAt, pathText } from './tree.ts';

type Claim = {
  readonly path: Path;
  readonly endpoint: Endpoint;
  /** As written. */
  readonly shown: string;
  /** Only receivers of different types share a listener. */
  readonly receiverType: string | undefined;
  /** A gRPC port is never shared. */
  readonly isGrpc: boolean;
  /** A default address, which yields to a written one. */
  readonly isDefault: boolean;
};

/** Finds two listeners on one port before the start does. */
export function checkListeners(draft: Draft): void {
  const claims = claimsOf(draft);
  for (const [index, claim] of claims.entries()) {
    const rival = claims.slice(0, index).find((earlier) => collide(earlier, claim));
    if (rival === undefined) continue;
    const severity = claim.isDefault ? 'warning' : 'error';
    draft.report(
      severity,
      claim.path,
      `${claim.shown} is taken by ${pathText(rival.path)}; ${reasonFor(claim, rival)}, give one another port`,
    );
  }
}

function reasonFor(claim: Claim, rival: Claim): string {
  if (claim.isGrpc !== rival.isGrpc) return 'gRPC shares its port with no other listener';
  return claim.receiverType !== undefined && claim.receiverType === rival.receiverType
    ? `two receivers of type ${claim.receiverType} would serve the same requests`
    : 'the two cannot share a listener';
}

function claimsOf(draft: Draft): Claim[] {
  const claims: Claim[] = [];
  const add = (value: unknown, claim: Omit<Claim, 'endpoint' | 'shown'>) => {
    const shown = String(value);
    const endpoint = parseEndpoint(shown);
    if (endpoint !== undefined && endpoint.port !== 0) claims.push({ ...claim, endpoint, shown });
  };
  for (const section of ['receivers', 'extensions'] as const) {
    for (const { id, factory, config } of draft[section].values()) {
      if (config === undefined || !isUsed(draft, section, id)) continue;
      visit(factory.config, config, (field, value, marks) => {
        if (marks.listens === undefined) return;
        add(value, {
          path: [section, id, ...field],
          receiverType: factory.kind === 'receiver' ? factory.type : undefined,
          isGrpc: marks.listens === 'grpc',
          isDefault: false,
        });
      });
    }
  }
  const { metrics } = draft.service.telemetry;
  const path: Path = ['service', 'telemetry', 'metrics', 'address'];
  if (metrics.level !== 'none') {
    const isDefault = nodeAt(draft.root, path) === undefined;
    add(metrics.address, { path, receiverType: undefined, isGrpc: false, isDefault });
  }
  return claims;
}

const EVERY_INTERFACE = ['0.0.0.0', '::'];

function collide(a: Claim, b: Claim): boolean {
  if (a.endpoint.port !== b.endpoint.port) return false;
  const [hostA, hostB] = [normalized(a.endpoint.host), normalized(b.endpoint.host)];
  if (hostA === hostB) return !sharesListener(a, b);
  return EVERY_INTERFACE.includes(hostA) || EVERY_INTERFACE.includes(hostB);
}

function sharesListener(a: Claim, b: Claim): boolean {
  if (a.receiverType === undefined || b.receiverType === undefined) return false;
  if (a.isGrpc || b.isGrpc) return false;
  // One receiver may name an endpoint more than once, for several protocols.
  return a.receiverType !== b.receiverType || a.path[1] === b.path[1];
}

function normalized(host: string): string {
  return host.toLowerCase() === 'localhost' ? '127.0.0.1' : host.toLowerCase();
}
