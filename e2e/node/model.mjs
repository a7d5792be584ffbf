// A model server for tests: OpenAI Chat Completions, streamed, by script.
//
//   const model = await startModel(t, ['Hel', 'lo'], [call('ls', {})]);
//   const server = await startServer(t, { config: model.config() });
//
// A reply is a list of steps: text, a tool call, or a promise to wait for. With the script at its end it echoes.

import { once } from 'node:events';
import http from 'node:http';

export const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

export const call = (name, input) => ({ call: { name, input } });

/** A promise and what resolves it. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}

export async function startModel(t, ...script) {
  const model = new Model(script);
  model.server.listen(0, '127.0.0.1');
  await once(model.server, 'listening');
  t.after(() => {
    model.server.close();
    model.server.closeAllConnections();
  });
  return model;
}

class Model {
  constructor(script) {
    this.script = script;
    this.requests = [];
    this.server = http.createServer((request, response) => {
      this.respond(request, response).catch((error) => response.destroy(error));
    });
  }

  config(more = '') {
    const { port } = this.server.address();
    return `[providers.main]\nkind = "openai"\nbase_url = "http://127.0.0.1:${port}/v1"\nmodel = "stub-model"\n${more}`;
  }

  async respond(request, response) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const body = JSON.parse(Buffer.concat(pieces).toString());
    // Whether the client hung up before the answer was complete.
    const gone = once(response, 'close').then(() => !response.writableFinished);
    this.requests.push({ body, gone });
    const steps = this.script.shift() ?? ['echo: ', body.messages.at(-1).content];
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const say = (delta, finish = null) => {
      const chunk = { id: 'x', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }] };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    let calls = 0;
    for (const step of steps) {
      if (typeof step === 'string') {
        say({ content: step });
      } else if (step.call) {
        const { name, input } = step.call;
        const made = { name, arguments: JSON.stringify(input) };
        say({ tool_calls: [{ index: calls, id: `call_${calls}`, type: 'function', function: made }] });
        calls += 1;
      } else {
        await Promise.race([step, gone]);
      }
    }
    say({}, calls > 0 ? 'tool_calls' : 'stop');
    response.end(`data: ${JSON.stringify({ id: 'x', choices: [], usage: USAGE })}\n\ndata: [DONE]\n\n`);
  }
}
