import type { Socket } from 'node:net';
import { ApiError } from './errors.ts';

const { STATUS_CODES } = process.getBuiltinModule('node:http');

/** Answers invalid, slow or oversized HTTP on the raw socket, and closes the connection. */
export function damageAnswer(
  headers: Readonly<Record<string, string>>,
): (error: NodeJS.ErrnoException, socket: Socket) => void {
  return (error, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable || socket.bytesWritten > 0) {
      socket.destroy();
      return;
    }
    const { status, code, message } = refusalOf(error);
    const body = JSON.stringify({ code, message });
    const lines = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      'connection: close',
    ];
    socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
  };
}

function refusalOf(error: NodeJS.ErrnoException): ApiError {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError('request_timeout', 'The request did not arrive in time.');
    case 'HPE_HEADER_OVERFLOW':
      return new ApiError('headers_too_large', 'The headers exceed 16 KiB.');
    default:
      return new ApiError('invalid_request', 'The request is not valid HTTP/1.1.');
  }
}
