/**
 * The files whose coverage tap measures: all those that a test file loads, or none. Measuring takes up to half of the CPU of a test
 * that computes much, so it is left out of tests whose code other tests measure: those of daemons, which are processes without
 * coverage, and those that run the same code thousands of times.
 */
const UNMEASURED = [
  /^test\/e2e\//,
  /^test\/processors\/redaction\/properties\.test\.ts$/,
  /^test\/src\/model\/otlp\/weight\.test\.ts$/,
  /^test\/src\/read\/export\/memory\.test\.ts$/,
];

// biome-ignore lint/style/noDefaultExport: tap takes the default export.
export default function coverageMap(testFile: string): [] | null {
  return UNMEASURED.some((pattern) => pattern.test(testFile)) ? null : [];
}
