import { z } from 'zod';
import type { DeadLetter, QueueAdmin } from '../queue/queue.ts';
import { ControlError, readArguments } from './protocol.ts';

/** The dead-letter commands of a running daemon. Ids are unique per queue, so each command names a queue. */
export const DEAD_LETTER_COMMANDS = {
  'dead_letters.list': list,
  'dead_letters.show': show,
  'dead_letters.check': check,
  'dead_letters.replay': replay,
  'dead_letters.drop': drop,
} as const;
export type DeadLetterCommand = keyof typeof DEAD_LETTER_COMMANDS;

type Queues = ReadonlyMap<string, QueueAdmin>;

/** The JSON of a dead letter. */
export type ShownDeadLetter = {
  readonly queue: string;
  readonly id: number;
  readonly exporter: string;
  readonly batch_id: string;
  readonly project_id: string;
  readonly items: number;
  readonly bytes: number;
  readonly code: string;
  readonly message: string;
  readonly failed_at: string;
};

const listArguments = z.strictObject({
  queue: z.string().optional(),
  exporter: z.string().optional(),
  limit: z.number().int().min(1).max(1000).optional(),
  after: z.number().int().optional(),
});
const oneArguments = z.strictObject({ queue: z.string().optional(), id: z.number().int() });
const manyArguments = z.strictObject({
  queue: z.string().optional(),
  ids: z.union([z.literal('all'), z.array(z.number().int()).min(1)]),
});

async function list(queues: Queues, args: unknown): Promise<{ dead_letters: ShownDeadLetter[] }> {
  const { queue, exporter, limit = 100, after } = readArguments(listArguments, args);
  // Each queue numbers its own letters, so a page of several has no place at which another one begins.
  const isOne = queue !== undefined || after !== undefined;
  const meant = isOne ? [chosen(queues, queue)] : [...queues];
  const found = await Promise.all(
    meant.map(async ([id, each]) => {
      const letters = await each.deadLetters({
        limit,
        ...(exporter === undefined ? {} : { branch: exporter }),
        ...(after === undefined ? {} : { after }),
      });
      return letters.map((letter) => shown(id, letter));
    }),
  );
  const letters = found.flat();
  // Those of one queue keep the order of their ids, by which a client pages: a letter that failed again has a higher id.
  return { dead_letters: meant.length === 1 ? letters : oldestFirst(letters).slice(0, limit) };
}

/** Letters of several queues in one list. */
export function oldestFirst<Letter extends Pick<ShownDeadLetter, 'failed_at'>>(
  letters: readonly Letter[],
): Letter[] {
  const time = (letter: Letter): number => Date.parse(letter.failed_at);
  return letters.toSorted((a, b) => time(a) - time(b));
}

async function show(queues: Queues, args: unknown): Promise<ShownDeadLetter> {
  const { queue, id } = readArguments(oneArguments, args);
  const [name, each] = chosen(queues, queue);
  const [letter] = await each.deadLetters({ limit: 1, after: id - 1 });
  if (letter?.id === id) return shown(name, letter);
  throw new ControlError('unknown_dead_letter', `the queue ${name} has no dead letter ${id}`);
}

/** Refuses what `replay` and `drop` refuse before they change anything, and changes nothing. */
async function check(queues: Queues, args: unknown): Promise<object> {
  const { queue } = readArguments(manyArguments, args);
  chosen(queues, queue);
  return {};
}

async function replay(queues: Queues, args: unknown): Promise<{ replayed: number }> {
  const { queue, ids } = readArguments(manyArguments, args);
  return { replayed: await chosen(queues, queue)[1].replay(ids) };
}

async function drop(queues: Queues, args: unknown): Promise<{ dropped: number }> {
  const { queue, ids } = readArguments(manyArguments, args);
  return { dropped: await chosen(queues, queue)[1].drop(ids) };
}

function chosen(queues: Queues, id: string | undefined): [string, QueueAdmin] {
  const meant = [...queues].filter(([each]) => id === undefined || each === id);
  const [only] = meant;
  if (only !== undefined && meant.length === 1) return only;
  if (queues.size === 0) throw new ControlError('no_queue', 'this daemon has no queue');
  const choice = [...queues.keys()].join(', ');
  throw new ControlError('unknown_queue', `several queues: name one with --queue: ${choice}`);
}

function shown(queue: string, letter: DeadLetter): ShownDeadLetter {
  return {
    queue,
    id: letter.id,
    exporter: letter.branch,
    batch_id: letter.batchId,
    project_id: letter.projectId,
    items: letter.items,
    bytes: letter.bytes,
    code: letter.reason.code,
    message: letter.reason.message,
    failed_at: new Date(letter.failedAt).toISOString(),
  };
}
