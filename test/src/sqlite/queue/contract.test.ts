import t from 'tap';
import { queueContract } from '../../../contract/queue.ts';
import { directoryQueues, storeQueues } from '../../../helper/places.ts';

t.test('a queue in a store keeps the contract', (t) => {
  queueContract(t, storeQueues);
  t.end();
});

t.test('a queue in a directory keeps the contract', (t) => {
  queueContract(t, directoryQueues);
  t.end();
});
