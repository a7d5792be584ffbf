// @ts-check
// The protocol's frames, as text and as what they mean. Nothing here knows a socket.

import { HubError } from './errors.js';

/** The hub closes the connection on anything larger. */
export const LARGEST_FRAME = 1024 * 1024;

/** @typedef {{ id: string, text: string, timestamp: string, metadata: import('../index.js').Metadata }} Delivery */
/**
 * @typedef {{ kind: 'registered', clientId: string }
 *   | { kind: 'refused', code: string, message: string }
 *   | { kind: 'message', delivery: Delivery }
 *   | { kind: 'error', code: string, message: string }
 *   | { kind: 'other' }} Frame
 */

/** @param {object} payload */
export function registration(payload) {
  return JSON.stringify({ type: 'registration', payload });
}

/**
 * @param {string} messageId
 * @param {'ack' | 'reject' | 'notification'} type
 * @param {object} payload
 */
export function response(messageId, type, payload) {
  return JSON.stringify({ type: 'response', payload: { messageId, type, payload } });
}

/**
 * @param {unknown} data
 * @returns {Frame}
 */
export function read(data) {
  const { type, payload } = object(parse(data), 'the frame');
  switch (type) {
    case 'registration_response': {
      const { success, clientId, code, message } = object(payload, 'the registration response');
      if (success === true) return { kind: 'registered', clientId: String(clientId ?? '') };
      return { kind: 'refused', ...problem(code, message) };
    }
    case 'message': {
      const { id, text, timestamp, metadata } = object(payload, 'the message');
      if (typeof id !== 'string' || id === '') throw malformed('the message has no `id`');
      if (typeof text !== 'string') throw malformed('the message has no `text`');
      const known = metadata !== null && typeof metadata === 'object' ? metadata : {};
      return { kind: 'message', delivery: { id, text, timestamp: String(timestamp ?? ''), metadata: known } };
    }
    case 'error': {
      const { code, message } = object(payload, 'the error');
      return { kind: 'error', ...problem(code, message) };
    }
    default:
      // A newer hub may say more than this client knows.
      return { kind: 'other' };
  }
}

/** @param {unknown} data */
function parse(data) {
  if (typeof data !== 'string') throw malformed('the frame is not text');
  try {
    return JSON.parse(data);
  } catch (error) {
    throw malformed('the frame is not JSON', error);
  }
}

/**
 * @param {unknown} value
 * @param {string} what
 * @returns {Record<string, any>}
 */
function object(value, what) {
  if (value === null || typeof value !== 'object') throw malformed(`${what} is not an object`);
  return value;
}

/**
 * @param {unknown} code
 * @param {unknown} message
 */
function problem(code, message) {
  const known = typeof code === 'string' && code !== '' ? code : 'UNKNOWN';
  return { code: known, message: typeof message === 'string' && message !== '' ? message : known };
}

/**
 * @param {string} message
 * @param {unknown} [cause]
 */
function malformed(message, cause) {
  return new HubError('MALFORMED_FRAME', message, cause === undefined ? undefined : { cause });
}
