// The `openai` package for Node: the recorded calls of scripts/check-sdks. Called with the server's address.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

// Packages lie outside the repository, where NODE_PATH says.
const require = createRequire(import.meta.url);
const OpenAI = require('openai');
const { VERSION } = require('openai/version');

const [address] = process.argv.slice(2);
const client = new OpenAI({ baseURL: address, apiKey: 'key', maxRetries: 0 });
const model = 'deltafin-demo';
const user = (content) => [{ role: 'user', content }];
const chat = (content, options = {}) =>
  client.chat.completions.create({ model, messages: user(content), ...options });

const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const tools = [{
  type: 'function',
  function: { name: 'get_weather', description: 'Get the current weather for a city', parameters: city },
}];
const sum = {
  type: 'object',
  properties: { answer: { type: 'integer' } },
  required: ['answer'],
  additionalProperties: false,
};

async function chatAndStream() {
  const whole = await chat('What is 47 + 38?');
  const { message } = whole.choices[0];
  assert.equal(message.content, '47 + 38 = 85.');
  assert.ok(message.reasoning_content && whole._request_id.startsWith('req_'));
  const stream = await chat('What is 47 + 38?', {
    stream: true,
    stream_options: { include_usage: true },
  });
  let said = '';
  let usage;
  for await (const chunk of stream) {
    said += chunk.choices[0]?.delta.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(said, message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
}

async function toolsAndForms() {
  const low = { reasoning_effort: 'low', tools };
  const asked = 'What is the weather in Paris?';
  const { message } = (await chat(asked, low)).choices[0];
  const [call] = message.tool_calls;
  assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Paris' });
  const result = { role: 'tool', tool_call_id: call.id, content: 'rainy, 12 degrees' };
  const after = await chat('', { ...low, messages: [...user(asked), message, result] });
  assert.ok(after.choices[0].message.content);
  const streamed = client.chat.completions.stream({ model, messages: user(asked), ...low });
  const final = await streamed.finalChatCompletion();
  assert.equal(final.choices[0].message.tool_calls[0].function.name, 'get_weather');
  const format = { type: 'json_schema', json_schema: { name: 'sum', schema: sum, strict: true } };
  const reply = await chat('What is 47 + 38?', { response_format: format });
  assert.equal(typeof JSON.parse(reply.choices[0].message.content).answer, 'number');
  const cut = await chat('What is the capital of France?', { stop: ['Paris'] });
  assert.ok(!cut.choices[0].message.content.includes('Paris'));
  assert.equal((await chat('Hi', { max_tokens: 3 })).choices[0].finish_reason, 'length');
}

async function responses() {
  const whole = await client.responses.create({ model, input: 'What is 47 + 38?' });
  assert.equal(whole.output_text, '47 + 38 = 85.');
  const events = client.responses.stream({ model, input: 'What is 47 + 38?' });
  const final = await events.finalResponse();
  assert.equal(final.output_text, whole.output_text);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
}

async function errorsAndAbort() {
  const stranger = new OpenAI({ baseURL: address, apiKey: 'wrong', maxRetries: 0 });
  const hi = { model, messages: user('Hi') };
  await assert.rejects(stranger.chat.completions.create(hi), OpenAI.AuthenticationError);
  await assert.rejects(chat('Hi', { n: 2 }), { status: 400, param: 'n' });
  const running = await client.completions.create({
    model, prompt: 'Once upon a time', max_tokens: 20000, stream: true,
  });
  for await (const chunk of running) {
    assert.ok(chunk.choices);
    break;
  }
  for (let tries = 0; tries < 40; tries += 1) {
    try {
      return await chat('Hi', { max_tokens: 2 });
    } catch (error) {
      if (!(error instanceof OpenAI.RateLimitError)) throw error;
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  }
  throw new Error('the slot was not freed');
}

/** Turned away, it comes back when it was told to; what is wrong with a request it does not send again. */
async function retries() {
  const attempts = [];
  let onBusy = () => {};
  const watched = async (url, init) => {
    const response = await fetch(url, init);
    attempts.push([new Headers(init.headers).get('x-stainless-retry-count'), response.status]);
    if (response.status === 429) onBusy(Number(response.headers.get('retry-after')));
    return response;
  };
  const patient = new OpenAI({ baseURL: address, apiKey: 'key', maxRetries: 2, fetch: watched });
  const hi = { model, messages: user('Hi'), max_tokens: 2 };
  await patient.chat.completions.create(hi);
  const running = await client.completions.create({
    model, prompt: 'Once upon a time', max_tokens: 20000, stream: true,
  });
  onBusy = (seconds) => {
    assert.ok(seconds >= 1 && seconds <= 60);
    running.controller.abort();
  };
  await patient.chat.completions.create(hi);
  assert.deepEqual(attempts.splice(0), [['0', 200], ['0', 429], ['1', 200]]);
  await assert.rejects(patient.chat.completions.create({ ...hi, n: 2 }), OpenAI.BadRequestError);
  assert.deepEqual(attempts.splice(0), [['0', 400]]);
  const hasty = new OpenAI({ baseURL: address, apiKey: 'key', maxRetries: 1, timeout: 300 });
  const endless = { type: 'array', items: { type: 'integer' }, minItems: 100000 };
  const format = { type: 'json_schema', json_schema: { name: 'numbers', schema: endless } };
  const long = hasty.chat.completions.create({ model, messages: user('Hi'), response_format: format });
  await assert.rejects(long, OpenAI.APIConnectionTimeoutError);
  await patient.chat.completions.create(hi);
  const nowhere = new OpenAI({ baseURL: 'http://127.0.0.1:9/v1', apiKey: 'key', maxRetries: 1 });
  await assert.rejects(nowhere.chat.completions.create(hi), OpenAI.APIConnectionError);
}

await chatAndStream();
await toolsAndForms();
await responses();
await errorsAndAbort();
await retries();
console.log(`openai ${VERSION} for Node: all of it works`);
