/** One process's metrics in Prometheus' text format. */
export type MetricPage = { readonly worker: string; readonly text: string };

type Family = { readonly head: string[]; readonly samples: string[] };

/**
 * Merges pages: every sample gets the label `worker`, and the samples of a metric follow one description, as
 * the format demands. Values are not summed; a query sums over the label.
 */
export function mergePages(pages: readonly MetricPage[]): string {
  const families = new Map<string, Family>();
  for (const { worker, text } of pages) {
    for (const [name, { head, samples }] of familiesOf(text)) {
      const known = families.get(name);
      const own = samples.map((sample) => labelled(sample, worker));
      if (known === undefined) families.set(name, { head, samples: own });
      else known.samples.push(...own);
    }
  }
  const lines = [...families.values()].flatMap(({ head, samples }) => [...head, ...samples]);
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

/** Splits a page into families. `# HELP` and `# TYPE` begin a family, and its samples follow. */
function familiesOf(text: string): Map<string, Family> {
  const families = new Map<string, Family>();
  let current: Family = { head: [], samples: [] };
  for (const line of text.split('\n')) {
    const described = /^# (?:HELP|TYPE) (\S+)/.exec(line)?.[1];
    if (described !== undefined) {
      const found: Family = families.get(described) ?? { head: [], samples: [] };
      families.set(described, found);
      found.head.push(line);
      current = found;
    } else if (line !== '' && !line.startsWith('#')) current.samples.push(line);
  }
  return families;
}

/** Adds the label to `name 1` and `name{a="b"} 1`, unless the sample has it. */
function labelled(sample: string, worker: string): string {
  const end = sample.search(/[{ ]/);
  const name = sample.slice(0, end);
  const label = `worker="${worker}"`;
  if (sample[end] !== '{') return `${name}{${label}}${sample.slice(end)}`;
  const rest = sample.slice(end + 1);
  if (/^(?:[^}]*,)?worker="/.test(rest)) return sample;
  return rest.startsWith('}') ? `${name}{${label}${rest}` : `${name}{${label},${rest}`;
}
