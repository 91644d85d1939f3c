// Replies: each conversation may have one under way, whether it is the one that is seen or not.

/** What is under way, by conversation. */
const runs = new Map();

const headers = () => {
  const key = $("key").value.trim();
  return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
};
const ask = (path, options = {}) => fetch(path, { headers: headers(), ...options }).catch(lost);

function lost(error) {
  throw error.name === "AbortError" ? error : new Error("the server cannot be reached");
}

/** The events of a stream; comments come as strings. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read().catch(lost);
      if (done) throw new Error("the connection ended before the answer did");
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        if (part === "data: [DONE]") return;
        if (part.startsWith(": ")) yield part.slice(2);
        else if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function failure(response) {
  const told = await response.json().catch(() => null);
  const words = told?.error?.message ?? `the server answered ${response.status}`;
  return new Error(response.status === 401 ? `${words}. The key can be given under Conversations.` : words);
}

const ENDS = { length: "cut: the token limit was reached", tool_calls: "it asks for a tool, which this page has not" };

function take(asked, run, event) {
  const { message } = run;
  if (typeof event === "string") return waits(asked, message, event);
  if (event.error) throw new Error(event.error.message);
  run.id = event.id;
  const choice = event.choices[0];
  const { reasoning_content: reasoning, content } = choice?.delta ?? {};
  if (reasoning || content) message.first ??= performance.now() - run.began;
  if (reasoning !== undefined) {
    message.reasoning = (message.reasoning ?? "") + reasoning;
    run.isThinking = reasoning !== "";
  } else if (content) {
    message.content += content;
    run.isThinking = false;
  }
  if (reasoning !== undefined || content) tell(asked, run.isThinking ? "Thinking" : "Answering");
  if (choice?.finish_reason) message.end = ENDS[choice.finish_reason] ?? "";
  if (event.usage) message.figures = figures(event.usage, message.first, performance.now() - run.began);
}

/** Signs of life: of interest before the first word. */
function waits(asked, message, comment) {
  const [, ahead] = /^queued (.*)/.exec(comment) ?? [];
  const [, progress] = /^keep-alive (.*)/.exec(comment) ?? [];
  if (ahead) tell(asked, `Waiting, before us: ${ahead}`);
  else if (progress) tell(asked, `Still working: ${progress}`);
  else if (message.first === undefined) tell(asked, "Still working");
}

const perSecond = (rate) => rate >= 100 ? rate.toFixed(0) : rate.toPrecision(3);

function figures({ prompt_tokens, completion_tokens, prompt_tokens_details }, first, whole) {
  const rate = completion_tokens > 1 ? (completion_tokens - 1) / ((whole - first) / 1000) : 0;
  const cached = prompt_tokens_details?.cached_tokens;
  return [
    `${prompt_tokens} prompt tokens${cached ? `, ${cached} reused` : ""}`,
    `${completion_tokens} generated`,
    Number.isFinite(first) && `first after ${(first / 1000).toFixed(2)} s`,
    rate && `${perSecond(rate)} tokens/s`,
  ].filter(Boolean).join(" · ");
}

/** What the model is told was said. A reply that came to nothing was not. */
const turns = (messages) => messages.filter(({ role, content }) => role === "user" || content)
  .map(({ role, content, reasoning }) => role === "assistant" && reasoning ? { role, content, reasoning_content: reasoning } : { role, content });

/** Tells how a reply is getting on, to whom it concerns. */
function tell(asked, text) {
  runs.get(asked).status = text;
  if (asked === current) say(text);
}

/** Answers what was asked last. Of a reply that it takes the place of, nothing is lost until there is a new one. */
async function reply(asked, former) {
  const message = { role: "assistant", content: "", open: true };
  const run = { message, abort: new AbortController(), began: performance.now(), isThinking: false };
  const messages = turns(asked.messages);
  asked.messages.push(message);
  known.set(asked.id, asked);
  runs.set(asked, run);
  tell(asked, "Asking");
  save(asked);
  show();
  const isOn = () => runs.get(asked) === run;
  const paint = paced(16, () => { if (isOn() && asked === current) show(); });
  const keep = paced(1000, () => { if (isOn()) { save(asked); showKeeping(); } });
  try {
    const body = { messages, stream: true, stream_options: { include_usage: true }, reasoning_effort: asked.effort };
    const response = await ask("/v1/chat/completions", { method: "POST", body: JSON.stringify(body), signal: run.abort.signal });
    if (!response.ok) throw await failure(response);
    for await (const event of events(response)) {
      if (!isOn()) return;
      take(asked, run, event);
      paint();
      keep();
    }
    tell(asked, message.end ? `The answer ended: ${message.end}.` : "The answer is complete.");
  } catch (error) {
    if (!isOn()) return;
    message.failed = error.name !== "AbortError";
    message.end = message.failed ? `Failed: ${error.message}` : "stopped";
    tell(asked, message.failed ? message.end : "Stopped.");
  }
  delete message.open;
  if (former?.content && !message.content && !message.reasoning) asked.messages.splice(-1, 1, former);
  save(asked);
  runs.delete(asked);
  if (asked !== current && known.has(asked.id)) say(`${asked.title}: ${run.status}`);
  show();
}

/** What is under way is kept, as far as it came. */
function keepAll() {
  for (const asked of runs.keys()) save(asked);
}

/** The page goes: what was under way ends here, and nothing that comes of that is told. */
function leave() {
  for (const [asked, { message, abort }] of runs) {
    delete message.open;
    message.end = LEFT;
    save(asked);
    abort.abort();
  }
  runs.clear();
}
