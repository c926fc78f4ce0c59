import { Load } from './load.ts';

/** Sends one small event after another until its input ends; prints how long the answers took. */
const port = Number(process.argv[2]);
const key = process.argv[3] ?? '';
const body =
  '{"events":[{"id":"p","trace_id":"probe","operation":"start","kind":"span","status":"running"}]}';
const request = Buffer.from(
  'POST /api/v1/observations/batch HTTP/1.1\r\nhost: localhost\r\n' +
    `authorization: Bearer ${key}\r\ncontent-type: application/json\r\n` +
    `content-length: ${body.length}\r\n\r\n${body}`,
);

const load = await Load.open(port, 1);
for (let i = 0; i < 50; i++) await load.run([request]);
process.stdout.write('ready\n');

const latencies: number[] = [];
let ended = false;
process.stdin.resume();
process.stdin.once('end', () => {
  ended = true;
});
while (!ended) {
  latencies.push(...(await load.run([request])));
  await new Promise((resolve) => setTimeout(resolve, 2));
}
load.close();
latencies.sort((a, b) => a - b);
const at = (q: number) =>
  latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * q))];
process.stdout.write(JSON.stringify({ p50: at(0.5), p99: at(0.99), max: at(1) }));
