import { answerRequests } from '../../src/thread/thread.ts';

/** A thread that gives back what it gets, fails or ends as it is told. */
answerRequests<unknown, unknown>((request) => {
  if (request === 'fail') throw new Error('as told');
  if (request === 'end') process.exit(1);
  return { reply: request };
});
