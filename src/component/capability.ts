declare const offered: unique symbol;
/**
 * A typed name for something that an extension or the service offers, e.g. `STORE` in src/store. Every use
 * names the constant, so that its references lead from each user to each provider:
 *
 *   factory:    provides: [STORE]           configuration: store: ref(STORE)
 *   extension:  offers: [offer(STORE, s)]   component:     host.extension(config.store, STORE)
 */
export type Capability<T> = { readonly name: string; readonly [offered]?: T };

export function capability<T>(name: string): Capability<T> {
  return { name };
}

/** A capability with the value that is offered for it. */
export type Offer = { readonly capability: Capability<unknown>; readonly value: unknown };

export function offer<T>(capability: Capability<T>, value: NoInfer<T>): Offer {
  return { capability, value };
}

/** Every value offered for the capability, in the order of the offers. */
export function findOffers<T>(offers: readonly Offer[], wanted: Capability<T>): T[] {
  return offers.flatMap(({ capability, value }) => (capability === wanted ? [value as T] : []));
}

/** The value offered for the capability; undefined if none of the offers is for it. */
export function findOffer<T>(offers: readonly Offer[], wanted: Capability<T>): T | undefined {
  return offers.find(({ capability }) => capability === wanted)?.value as T | undefined;
}
