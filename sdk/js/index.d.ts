/** Puts an app on the hub. Throws a `TypeError` when an option cannot be right; everything later goes to callbacks. */
export function connect(options: Options): Hub;

export interface Options {
  /**
   * What users call the app: a letter, then letters, digits, `-` and `_`, at most 64. `name: text` goes straight to it.
   */
  name: string;
  /** What the app is for, in plain words, at most 1024 characters. The hub chooses by it. */
  description: string;
  version?: string;
  /** Hints for the choice, such as `['tasks', 'reminders']`. */
  capabilities?: readonly string[];
  /** `ws://127.0.0.1:9473` unless told otherwise. */
  url?: string;
  /** For hubs that let in only apps they know. */
  token?: string;
  /** For places without a global one, such as Node before 22: the `WebSocket` of the package `ws`. */
  WebSocket?: WebSocketConstructor;
  /**
   * Handles one message. When it returns, the message is acknowledged; when it throws, the message is rejected with
   * the error's text; unless `ack` or `reject` was called before.
   */
  onMessage(message: Message): unknown;
  /** Every change of the connection. */
  onState?(state: State): void;
  /** What went wrong and is nobody's answer; `console.error` unless told otherwise. */
  onError?(error: HubError): void;
  /** How often to try again in a row before giving up; for ever unless told otherwise. */
  maxAttempts?: number;
  /** How long to wait for the hub's answer to a registration; 10 000 ms unless told otherwise. */
  registrationTimeout?: number;
  /** Handlers at work at the same time; a message beyond that is rejected as busy. 64 unless told otherwise. */
  maxRunning?: number;
  /**
   * Answers kept while there is no connection; beyond that the oldest is dropped and reported. 256 unless told
   * otherwise.
   */
  maxQueued?: number;
  /** Acknowledged messages remembered, so that none is handled twice. 1000 unless told otherwise. */
  maxRemembered?: number;
  /** Other timers than the global ones. */
  timers?: Timers;
}

export interface Hub {
  readonly state: State;
  /** Settles once: when the app is registered for the first time, or with the reason why it never will be. */
  readonly ready: Promise<void>;
  /** Leaves the hub for good. Handlers at work see their `signal` abort. */
  close(): Promise<void>;
}

export type State =
  | { readonly name: 'connecting' }
  | { readonly name: 'registered'; readonly clientId: string }
  /** Tries again after `delay` ms, for the `attempt`th time in a row. */
  | { readonly name: 'waiting'; readonly attempt: number; readonly delay: number; readonly error: HubError }
  /** For good: by `close()`, or with an error after the last attempt. */
  | { readonly name: 'closed'; readonly error?: HubError };

/** Its functions can be taken off it and called alone. */
export interface Message {
  /** The same for every app and every attempt of one utterance. */
  readonly id: string;
  /** The user's own words, without the app's name in front. */
  readonly text: string;
  /** When this attempt was sent, ISO 8601. */
  readonly timestamp: string;
  readonly metadata: Metadata;
  /** Aborts when the connection is closed for good; not when it is merely lost. */
  readonly signal: AbortSignal;
  /** What was answered so far. */
  readonly answer: 'ack' | 'reject' | null;
  /** The app takes the message. Gives `false` when it was answered before; the first answer stands. */
  ack(): boolean;
  /** The app does not want the message, so another may have it. Gives `false` when it was answered before. */
  reject(reason?: string): boolean;
  /** Shows something to the user, as often as needed, before or after `ack`. A string is the body. */
  notify(notification: Notification | string): void;
}

export interface Metadata {
  readonly inputMethod?: 'voice' | 'text';
  /** The user named the app. */
  readonly directRouted?: boolean;
  /** How sure speech recognition was, from 0 to 1. */
  readonly confidence?: number;
  /** Why the hub chose this app. */
  readonly routingReason?: string;
  readonly [key: string]: unknown;
}

/** Needs a title or a body. */
export interface Notification {
  /** The app's name unless told otherwise. */
  title?: string;
  body?: string;
  priority?: 'low' | 'normal' | 'high';
  /** It is a question: what the user says next comes to this app first. */
  expectsReply?: boolean;
}

/**
 * `code` says what happened:
 *
 * - `DISCONNECTED`: the connection could not be made or was lost.
 * - `REGISTRATION_TIMEOUT`: the hub did not answer the registration.
 * - `GAVE_UP`: the last attempt failed; `cause` says why.
 * - `CLOSED`: `close()` was called before the first registration.
 * - `HANDLER_FAILED`: `onMessage` threw; `cause` is what it threw.
 * - `ANSWERS_DROPPED`: too many answers while there was no connection.
 * - `MALFORMED_FRAME`: the hub sent what this client cannot read.
 * - anything else comes from the hub, such as `VALIDATION_ERROR` for a frame that it could not read.
 */
export class HubError extends Error {
  constructor(code: string, message: string, options?: { cause?: unknown });
  readonly code: string;
}

/** The hub did not let the app in. Another attempt follows by itself. */
export class RegistrationError extends HubError {
  readonly code: RegistrationCode;
}

export type RegistrationCode =
  | 'INVALID_NAME'
  | 'INVALID_DESCRIPTION'
  | 'DUPLICATE_NAME'
  | 'ALREADY_REGISTERED'
  | 'VALIDATION_ERROR'
  | (string & {});

export interface Timers {
  setTimeout(callback: () => void, milliseconds: number): unknown;
  clearTimeout(timer: any): void;
}

export interface WebSocketConstructor {
  new (url: string): WebSocketLike;
}

/** What of a `WebSocket` is used. */
export interface WebSocketLike {
  readonly readyState: number;
  readonly bufferedAmount: number;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  send(data: string): void;
  close(code?: number, reason?: string): void;
}
