/**
 * The environment of a process without coverage, which costs half as much again as the process. tap adds its own options to
 * `NODE_OPTIONS` even if they are empty, so the others switch it off.
 */
export const PLAIN = {
  NODE_OPTIONS: '',
  NODE_V8_COVERAGE: '',
  _TAPJS_PROCESSINFO_COVERAGE_: '0',
  _TAPJS_PROCESSINFO_EXCLUDE_: '/./',
};
