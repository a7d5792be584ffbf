// Read by the type checker and never run: what must be accepted, and after `@ts-expect-error` what must not be.

import { connect, HubError, RegistrationError } from '@patchboard/hub-client';
import type { Hub, Message, Options, State, WebSocketConstructor } from '@patchboard/hub-client';
import * as made from '../src/index.js';

// The types written by hand are those of the code.
export const same: typeof connect = made.connect;
export const sameError: typeof HubError = made.HubError;
export const sameRefusal: typeof RegistrationError = made.RegistrationError;

const least: Options = { name: 'notebook', description: 'I take notes.', onMessage: () => {} };
export const browser: WebSocketConstructor = WebSocket;

export const hub: Hub = connect({
  ...least,
  version: '1.0.0',
  capabilities: ['notes'] as const,
  url: 'ws://127.0.0.1:9473',
  token: 'secret',
  WebSocket,
  maxAttempts: Infinity,
  timers: { setTimeout, clearTimeout },
  async onMessage(message) {
    const { id, text, metadata, signal } = message;
    const reason: string | undefined = metadata.routingReason;
    const first: boolean = message.ack();
    message.reject();
    message.reject(`not ${text}`);
    message.notify('saved');
    message.notify({ title: id, body: reason ?? '', priority: 'low', expectsReply: true });
    // @ts-expect-error No such priority.
    message.notify({ body: 'x', priority: 'urgent' });
    // @ts-expect-error A message is what the user said.
    message.text = 'other';
    await fetch('http://127.0.0.1/', { signal });
    return first;
  },
  onState(state) {
    // @ts-expect-error Only some states have it.
    state.clientId;
  },
  onError(error) {
    const code: string = error.code;
    if (error instanceof RegistrationError && error.code === 'DUPLICATE_NAME') console.warn(code, error.message);
  },
});

export function describe(state: State): string {
  switch (state.name) {
    case 'connecting':
      return 'connecting';
    case 'registered':
      return state.clientId;
    case 'waiting':
      return `${state.attempt} ${state.delay} ${state.error.code}`;
    case 'closed':
      return state.error?.message ?? 'left';
  }
}

export const waits: Promise<void>[] = [hub.ready, hub.close()];
export const answered = (message: Message): boolean => message.answer !== null;

// @ts-expect-error Without a description nobody finds the app.
connect({ name: 'notebook', onMessage: () => {} });
// @ts-expect-error Without a handler there is no app.
connect({ name: 'notebook', description: 'I take notes.' });
// @ts-expect-error The state is told, not set.
hub.state = { name: 'closed' };
