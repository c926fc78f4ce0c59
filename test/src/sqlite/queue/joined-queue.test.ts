import t from 'tap';
import { queueContract } from '../../../contract/queue.ts';
import { joinedQueues } from '../../../helper/places.ts';

t.test('a queue joined with leftovers keeps the contract', (t) => {
  queueContract(t, joinedQueues);
  t.end();
});
