import type { LedgerCheck } from './rows.ts';

/** Usage of a project and key, in the ledger or in batches. */
export type KeyUsage = {
  readonly project: string;
  readonly key: string;
  readonly events: number;
  readonly bytes: number;
};

/** The same of an hour, counted from the epoch. */
export type HourUsage = KeyUsage & { readonly organization: string; readonly hour: number };

type Totals = { -readonly [Field in keyof LedgerCheck]: LedgerCheck[Field] };

/** The sums of a ledger and of the batches beside it, added up page by page. */
export class LedgerTotals {
  readonly #totals = new Map<string, Totals>();

  addLedger(usage: KeyUsage): void {
    const totals = this.#of(usage);
    totals.events += usage.events;
    totals.bytes += usage.bytes;
  }

  addBatches(usage: KeyUsage): void {
    const totals = this.#of(usage);
    totals.keptEvents += usage.events;
    totals.keptBytes += usage.bytes;
  }

  #of({ project, key }: KeyUsage): Totals {
    const name = JSON.stringify([project, key]);
    let totals = this.#totals.get(name);
    if (totals === undefined) {
      totals = { project, key, events: 0, bytes: 0, keptEvents: 0, keptBytes: 0 };
      this.#totals.set(name, totals);
    }
    return totals;
  }

  /** Adds the sums of a page that another one of this class added up. */
  add({ project, key, events, bytes, keptEvents, keptBytes }: LedgerCheck): void {
    this.addLedger({ project, key, events, bytes });
    this.addBatches({ project, key, events: keptEvents, bytes: keptBytes });
  }

  checks(): readonly LedgerCheck[] {
    return [...this.#totals.values()];
  }
}
