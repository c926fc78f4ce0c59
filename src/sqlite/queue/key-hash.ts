import { hash } from 'node:crypto';

/** Identifies a key of a project. */
export function keyHash(projectId: string, key: string): Buffer {
  return hash('sha256', `${projectId}\0${key}`, 'buffer');
}
