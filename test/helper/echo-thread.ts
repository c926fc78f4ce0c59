import { threadId } from 'node:worker_threads';
import { answerRequests } from '../../src/thread/thread.ts';

/** A thread that returns its input or its id, fails, or ends, as requested. */
answerRequests<unknown, unknown>((request) => {
  if (request === 'fail') throw new Error('as requested');
  if (request === 'thread id') return { reply: threadId };
  if (request === 'end') process.exit(1);
  return { reply: request };
});
