/**
 * A thread that returns the freed memory of the whole process to the system, and ends. It fails where Node has no foreign functions
 * or the C library no `malloc_trim`.
 */
import { dlopen } from 'node:ffi';

const { functions } = dlopen(null, { malloc_trim: { arguments: ['u64'], return: 'i32' } });
functions.malloc_trim(0n);
