import { answerRequests } from '../../src/thread/thread.ts';

/** A thread that returns its input, fails or ends on request. */
answerRequests<unknown, unknown>((request) => {
  if (request === 'fail') throw new Error('as told');
  if (request === 'end') process.exit(1);
  return { reply: request };
});
