/**
 * Points at which a crash test kills the process, as `kill -9` does: `TRACECTL_FAILPOINT=<name>:exit`, or
 * `<name>:exit@<n>` for the n-th pass. queue/README.md lists the names. Without the variable a point costs one comparison.
 */
const armed = parse(process.env.TRACECTL_FAILPOINT);
let passed = 0;

export function failpoint(name: string): void {
  if (armed === undefined || armed.name !== name) return;
  passed++;
  if (passed === armed.at) process.kill(process.pid, 'SIGKILL');
}

function parse(text: string | undefined): { name: string; at: number } | undefined {
  const match = /^([a-z_]+):exit(?:@(\d+))?$/.exec(text ?? '');
  if (match === null) return undefined;
  return { name: match[1] ?? '', at: Number(match[2] ?? 1) };
}
