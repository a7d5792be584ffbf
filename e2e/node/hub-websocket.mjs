// Loaded before a program that expects a global WebSocket, for Node before 22.

import { load } from './packages.mjs';

globalThis.WebSocket ??= load('ws');
