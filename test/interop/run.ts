import { parseArgs } from 'node:util';
import * as chains from './chains.ts';
import * as faults from './faults.ts';
import { Lab } from './lab.ts';
import * as page from './page.ts';
import { findPython, findToolchain } from './toolchain.ts';

/**
 * Tests tracectl with the real OpenTelemetry Collector and SDKs:
 *
 *   npm run test:interop [-- --only text]
 *
 * Needs Go with its module proxy, unless the Collector is built already; without both it prints so and exits
 * with 0. The first build takes about three minutes on two cores (seven at most), the steps about two.
 */
type Step = {
  readonly name: string;
  /** A longer step fails. */
  readonly seconds: number;
  readonly work: (lab: Lab) => Promise<void>;
};

const { values } = parseArgs({ options: { only: { type: 'string' } } });
const print = (text: string) => void process.stdout.write(`${text}\n`);

const toolchain = await findToolchain(print);
if ('missing' in toolchain) {
  print(`INTEROPERABILITY WAS NOT RUN: ${toolchain.missing}`);
} else {
  const python = await findPython(print);
  const steps = allSteps(typeof python === 'string' ? python : undefined);
  let failed = 0;
  for (const step of steps) {
    if (values.only !== undefined && !step.name.includes(values.only)) continue;
    if (!(await runStep(step, new Lab(toolchain)))) failed++;
  }
  if (typeof python !== 'string') print(`NOT RUN: the SDK for Python: ${python.missing}`);
  print(failed === 0 ? 'interoperability: ok' : `interoperability: ${failed} steps failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

function allSteps(python: string | undefined): Step[] {
  const step = (name: string, work: Step['work'], seconds = 60): Step => ({ name, seconds, work });
  const transports = ['http', 'grpc'] as const;
  return [
    step('every field over HTTP: tracectl, Collector, file', chains.everyFieldOverHttp),
    step('unknown fields', chains.unknownFields),
    step('native events: tracectl, Collector, file', chains.nativeEvents),
    ...(['http/protobuf', 'http/json', 'grpc'] as const).map((transport) =>
      step(`SDK for JavaScript, ${transport}: tracectl, Collector`, (lab) =>
        chains.sdkForJavaScript(lab, transport),
      ),
    ),
    ...(python === undefined ? [] : transports).map((transport) =>
      step(`SDK for Python, ${transport}: tracectl, Collector`, (lab) =>
        chains.sdkForPython(lab, transport, python ?? ''),
      ),
    ),
    ...transports.flatMap((transport) => [
      step(`telemetrygen, ${transport}: tracectl, Collector, file`, (lab) =>
        chains.telemetrygenLoad(lab, transport),
      ),
      step(`Collector, ${transport}: tracectl, Collector, file`, (lab) =>
        chains.betweenCollectors(lab, transport),
      ),
      step(`Collector, ${transport}: tracectl, store`, (lab) =>
        chains.intoTheStore(lab, transport),
      ),
    ]),
    step('the next collector has every fault in turn', faults.faultsOfTheNext, 90),
    step('partial success', faults.partialSuccessToDeadLetter),
    step('tracectl is killed', faults.killingOurs),
    step('the next collector is killed', faults.killingTheNext),
    step('a collector before tracectl is killed, and tracectl too', faults.killingTheFirst),
    step('the page: a Collector in front', page.collectorInFront),
    step('the page of clients: a Collector', page.clientsPage),
    step('the page: large requests, gRPC', page.largeRequests),
    step('the page: tracectl in front', page.tracectlInFront),
    step('the page: TLS to a Collector', page.tlsToACollector),
    step('the page: TLS from a Collector', page.tlsFromACollector),
    step('a collector retries 429 and 503, and drops 402 and 413', faults.answersToACollector),
  ];
}

async function runStep({ name, seconds, work }: Step, lab: Lab): Promise<boolean> {
  const started = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const message = `took longer than ${seconds} s`;
    timer = setTimeout(() => reject(new Error(message)), seconds * 1000);
  });
  try {
    await Promise.race([work(lab), late]);
    print(`ok      ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`);
    return true;
  } catch (error) {
    print(`FAILED  ${name}: ${error instanceof Error ? error.stack : String(error)}`);
    print(lab.output());
    return false;
  } finally {
    clearTimeout(timer);
    await lab.close();
  }
}
