// The chat page. Conversations live in this browser; the server keeps none.

const $ = (id) => document.getElementById(id);
const STORED = "deltafin.conversations", KEY = "deltafin.key";
const say = (text) => { $("status").textContent = text; };

// Conversations ------------------------------------------------------------------------------

const load = () => {
  try {
    const stored = JSON.parse(localStorage.getItem(STORED) ?? "[]");
    return Array.isArray(stored) ? stored.filter((one) => Array.isArray(one?.messages)) : [];
  } catch {
    return [];
  }
};
const fresh = () => ({ id: crypto.getRandomValues(new Uint32Array(2)).join("-"), title: "", effort: "max", messages: [] });

let conversations = load();
let current = conversations[0] ?? fresh();
let running = null;

function keep() {
  current.effort = $("effort").value;
  if (current.messages.length) conversations = [current, ...conversations.filter((one) => one.id !== current.id)];
  try {
    localStorage.setItem(STORED, JSON.stringify(conversations));
  } catch {
    say("This browser has no room left: delete a conversation to keep new ones.");
  }
}

function open(conversation) {
  running?.abort.abort();
  current = conversation;
  $("effort").value = current.effort;
  show();
  $("side").classList.remove("shown");
  $("menu").setAttribute("aria-expanded", "false");
  $("prompt").focus();
}

function remove(conversation) {
  conversations = conversations.filter((one) => one.id !== conversation.id);
  if (conversation.id === current.id) open(conversations[0] ?? fresh());
  keep();
  showList();
  $("new").focus();
}

function showList() {
  $("conversations").replaceChildren(...conversations.map((one) => {
    const name = one.title || "Untitled";
    const choose = element("button", name, { type: "button", class: "open", title: name });
    if (one.id === current.id) choose.setAttribute("aria-current", "true");
    choose.onclick = () => open(one);
    const drop = element("button", "×", { type: "button", "aria-label": `Delete ${name}` });
    drop.onclick = () => remove(one);
    return element("li", [choose, drop]);
  }));
}

// Messages -----------------------------------------------------------------------------------

function blocks(text) {
  try {
    return markdown(text);
  } catch {
    // Nested too deeply to be meant.
    return [element("p", text)];
  }
}

/** One message; `update` shows what was added to it since. */
function view(message) {
  const text = element("div", [], { class: "text" });
  const thought = element("div", [], { class: "thought" });
  const summary = element("summary", "Thinking");
  const details = element("details", [summary, thought]);
  const figures = element("p", [], { class: "figures" });
  const isUser = message.role === "user";
  const heading = element("h2", isUser ? "You" : "Deltafin");
  const node = element("article", isUser ? [heading, text] : [heading, details, text, figures], { class: `said ${message.role}` });
  const shown = {};
  const update = () => {
    if (isUser) text.textContent = message.content;
    else if (shown.content !== message.content) text.replaceChildren(...blocks(message.content));
    if (shown.reasoning !== message.reasoning) thought.textContent = message.reasoning ?? "";
    Object.assign(shown, { content: message.content, reasoning: message.reasoning });
    details.hidden = !message.reasoning;
    summary.textContent = message.thinking ? "Thinking…" : "Thought";
    figures.textContent = [message.figures, message.end].filter(Boolean).join(" · ");
    figures.classList.toggle("failed", Boolean(message.failed));
  };
  update();
  return { node, update };
}

function show() {
  $("log").replaceChildren(...current.messages.map((message) => view(message).node));
  $("log").scrollTop = $("log").scrollHeight;
  showList();
  showButtons();
}

function showButtons() {
  $("stop").hidden = $("answer-now").hidden = !running;
  $("send").hidden = Boolean(running);
  $("again").hidden = Boolean(running) || current.messages.at(-1)?.role !== "assistant";
  if (running) $("answer-now").hidden = !running.message.thinking;
}

// Asking -------------------------------------------------------------------------------------

const headers = () => {
  const key = localStorage.getItem(KEY);
  return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
};
const ask = (path, options = {}) => fetch(path, { headers: headers(), ...options });

/** The events of a stream; comments come as strings. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (part.startsWith(": ")) yield part.slice(2);
      else if (part.startsWith("data: ") && part !== "data: [DONE]") yield JSON.parse(part.slice(6));
    }
  }
}

async function failure(response) {
  const told = await response.json().catch(() => null);
  const words = told?.error?.message ?? `the server answered ${response.status}`;
  return new Error(response.status === 401 ? `${words}. The key can be given under Conversations.` : words);
}

const ENDS = { length: "cut: the token limit was reached", tool_calls: "it asks for a tool, which this page has not" };

function take(message, event, began) {
  if (typeof event === "string") return say(event.replace("keep-alive", "Still working:").replace(/^queued/, "Waiting, before us:"));
  if (event.error) throw new Error(event.error.message);
  running.id = event.id;
  const choice = event.choices[0];
  const { reasoning_content: reasoning, content } = choice?.delta ?? {};
  if (reasoning || content) message.first ??= performance.now() - began;
  if (reasoning !== undefined) {
    message.reasoning = (message.reasoning ?? "") + reasoning;
    message.thinking = reasoning !== "";
    say(message.thinking ? "Thinking" : "Answering");
  } else if (content) {
    message.content += content;
    message.thinking = false;
    say("Answering");
  }
  if (choice?.finish_reason) message.end = ENDS[choice.finish_reason] ?? "";
  if (event.usage) message.figures = figures(event.usage, message.first, performance.now() - began);
}

function figures({ prompt_tokens, completion_tokens, prompt_tokens_details }, first, whole) {
  const rate = completion_tokens > 1 ? (completion_tokens - 1) / ((whole - first) / 1000) : 0;
  const cached = prompt_tokens_details?.cached_tokens;
  return [
    `${prompt_tokens} prompt tokens${cached ? `, ${cached} reused` : ""}`,
    `${completion_tokens} generated`,
    Number.isFinite(first) && `first after ${(first / 1000).toFixed(2)} s`,
    rate && `${rate.toPrecision(3)} tokens/s`,
  ].filter(Boolean).join(" · ");
}

async function reply() {
  const message = { role: "assistant", content: "" };
  const { node, update } = view(message);
  const asked = current;
  const turns = asked.messages.map(({ role, content, reasoning }) =>
    role === "assistant" && reasoning ? { role, content, reasoning_content: reasoning } : { role, content });
  running = { abort: new AbortController(), message };
  asked.messages.push(message);
  node.classList.add("live");
  $("log").append(node);
  showButtons();
  say("Asking");
  let frame = 0;
  const paint = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      const log = $("log");
      const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
      update();
      showButtons();
      if (follows) log.scrollTop = log.scrollHeight;
    });
  };
  try {
    const began = performance.now();
    const body = { messages: turns, stream: true, stream_options: { include_usage: true }, reasoning_effort: asked.effort };
    const response = await ask("/v1/chat/completions", { method: "POST", body: JSON.stringify(body), signal: running.abort.signal });
    if (!response.ok) throw await failure(response);
    for await (const event of events(response)) {
      take(message, event, began);
      paint();
    }
    say("The answer is complete.");
  } catch (error) {
    message.end = error.name === "AbortError" ? "stopped" : `Failed: ${error.message}`;
    message.failed = error.name !== "AbortError";
    say(message.failed ? message.end : "Stopped.");
  }
  message.thinking = false;
  running = null;
  node.classList.remove("live");
  update();
  keep();
  if (asked === current) showButtons();
}

$("composer").onsubmit = (event) => {
  event.preventDefault();
  const content = $("prompt").value.trim();
  if (!content || running) return;
  $("prompt").value = "";
  const message = { role: "user", content };
  current.messages.push(message);
  current.title ||= content.slice(0, 60);
  keep();
  showList();
  $("log").append(view(message).node);
  $("log").scrollTop = $("log").scrollHeight;
  reply();
};
$("prompt").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
};
$("stop").onclick = () => { running?.abort.abort(); $("prompt").focus(); };
$("answer-now").onclick = () => {
  const body = JSON.stringify({ id: running?.id, action: "reasoning_end" });
  ask("/v1/chat/completions/control", { method: "POST", body }).catch(() => {});
};
$("again").onclick = () => {
  if (running || current.messages.at(-1)?.role !== "assistant") return;
  current.messages.pop();
  keep();
  show();
  reply();
};
$("effort").onchange = keep;
$("new").onclick = () => open({ ...fresh(), effort: $("effort").value });
$("menu").onclick = () => {
  const shown = $("side").classList.toggle("shown");
  $("menu").setAttribute("aria-expanded", String(shown));
};
$("key").value = localStorage.getItem(KEY) ?? "";
$("key").onchange = () => { localStorage.setItem(KEY, $("key").value.trim()); greet(); };

// Export -------------------------------------------------------------------------------------

function download(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  element("a", [], { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
$("export-json").onclick = () => download("conversation.json", "application/json", JSON.stringify(current, null, 2));
$("export-md").onclick = () => {
  const parts = current.messages.map(({ role, content, reasoning }) => {
    const thought = reasoning ? `> ${reasoning.replaceAll("\n", "\n> ")}\n\n` : "";
    return `## ${role === "user" ? "You" : "Deltafin"}\n\n${thought}${content}\n`;
  });
  download("conversation.md", "text/markdown", `# ${current.title}\n\n${parts.join("\n")}`);
};

// Live figures -------------------------------------------------------------------------------

const bytes = (count) => {
  const unit = count >= 1e9 ? [1e9, "GB"] : count >= 1e6 ? [1e6, "MB"] : [1e3, "kB"];
  return `${(count / unit[0]).toFixed(1)} ${unit[1]}`;
};

/** Samples of Prometheus' text form: name with labels to value. */
function samples(text) {
  const lines = text.split("\n").filter((line) => line && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]));
}

const duration = (seconds) => seconds >= 90 ? `${(seconds / 60).toFixed(1)} min` : `${seconds.toPrecision(2)} s`;
const part = (some, all) => (all ? `${((100 * some) / all).toFixed(1)} %` : "–");

/** What was counted from one sample to another: a figure is there when the server measures it. */
function between(now, then) {
  const seconds = (now.at - then.at) / 1000;
  const get = (name) => now.values.get(`deltafin_${name}`);
  const grown = (name) => get(name) - (then.values.get(`deltafin_${name}`) ?? 0);
  const drives = [...now.values.keys()].flatMap((name) => {
    const labels = /^deltafin_drive_read_bytes_total(\{drive="\d+",folder="(.*)"\})$/.exec(name);
    return labels ? [{ labels: labels[1], folder: labels[2].replace(/\\(.)/g, "$1") }] : [];
  });
  return { seconds, get, grown, drives };
}

/** How far the prompt is, and for how long it goes on like this. */
function prefill({ seconds, get, grown }) {
  const done = get("prefill_done_tokens"), total = get("prefill_tokens");
  if (!get("busy") || !total || done >= total) return [];
  const rate = grown("prefill_done_tokens") / seconds;
  const left = rate > 0 ? `, about ${duration((total - done) / rate)} left` : "";
  return [["Prompt taken in", `${done} of ${total}, ${part(done, total)}${left}`]];
}

/** The mean of late, which stays when a reply is over; at first that since the server began. */
const lately = {};
function mean(name, { get, grown }) {
  const count = grown(`${name}_count`), all = get(`${name}_count`);
  if (count > 0) lately[name] = grown(`${name}_sum`) / count;
  else if (all > 0) lately[name] ??= get(`${name}_sum`) / all;
  return lately[name];
}

/** Bytes by where they come from, and how busy each drive is. */
function reads({ seconds, get, grown, drives }) {
  return network({ seconds, get, grown }).concat(drives.flatMap(({ labels, folder }) => {
    const read = `drive_read_bytes_total${labels}`;
    const source = folder === "memory" ? "memory" : `drive ${folder}`;
    const rows = [[`Read from ${source}`, `${bytes(get(read))}, ${bytes(grown(read) / seconds)}/s`]];
    if (folder !== "memory") {
      const busy = Math.min(grown(`drive_busy_seconds_total${labels}`), seconds);
      rows.push([`Utilisation of ${source}`, part(busy, seconds)]);
    }
    return rows;
  }));
}

/** What comes over the network first, where experts do. */
function network({ seconds, get, grown }) {
  const fetched = get("network_bytes_total");
  if (fetched === undefined) return [];
  const waits = get("network_waits_total");
  const rate = `${bytes(fetched)}, ${bytes(grown("network_bytes_total") / seconds)}/s`;
  return [["Fetched over the network", waits ? `${rate}, asked again ${waits} times` : rate]];
}

/** Where the time goes: into waiting for weights, or into arithmetic. */
function limit({ seconds, get, grown }) {
  if (get('wait_seconds_total{for="spine"}') === undefined) return [];
  const [spine, experts] = ["spine", "experts"].map((what) => grown(`wait_seconds_total{for="${what}"}`));
  if (!get("busy")) return [["Limited by", "–"]];
  const share = Math.min((spine + experts) / seconds, 1);
  const what = spine > experts ? "the weights of every token" : "experts";
  return [["Limited by", share > 0.5 ? `reading: ${part(share, 1)} of the time waits for ${what}` : `computing: ${part(share, 1)} of the time waits for reads`]];
}

function told(now, then) {
  const measured = between(now, then), { get } = measured;
  const token = mean("token_seconds", measured), first = mean("time_to_first_token_seconds", measured);
  const hits = get("expert_hits_total");
  const asked = hits + get("expert_late_total") + get("expert_misses_total");
  return [
    ["State", get("busy") ? "generating" : get("up") ? "idle" : "loading"],
    ["Requests waiting", get("queue_depth")],
    ["Tokens per second", token ? (1 / token).toPrecision(3) : "–"],
    ["Time to first token", first === undefined ? "–" : duration(first)],
    ...prefill(measured),
    ["Tokens generated", get("generated_tokens_total")],
    ["Prompt tokens reused", part(get("cached_prompt_tokens_total"), get("prompt_tokens_total"))],
    ...(hits === undefined ? [] : [["Experts found in memory", part(hits, asked)]]),
    ...reads(measured),
    ...limit(measured),
  ];
}

/** The samples of the last while: a slow model does nothing from one to the next. */
const SAMPLES_MAX = 6;
let history = [];
async function sample() {
  if ($("panel").hidden || document.hidden) return;
  try {
    const response = await ask("/metrics");
    if (!response.ok) throw await failure(response);
    const now = { at: performance.now(), values: samples(await response.text()) };
    const isBusy = ({ values }) => values.get("deltafin_busy");
    // What was before a generation began, or after it ended, says nothing about it.
    if (history.length && isBusy(history.at(-1)) !== isBusy(now)) history = history.slice(-1);
    const rows = told(now, history[0] ?? { at: now.at - 1000, values: now.values });
    history = [...history, now].slice(-SAMPLES_MAX);
    $("figures").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", name), element("dd", String(value ?? "–"))]));
  } catch (error) {
    history = [];
    $("figures").replaceChildren(element("dt", "Server"), element("dd", error.message));
  }
}
$("panel-toggle").onclick = () => {
  $("panel").hidden = !$("panel").hidden;
  $("panel-toggle").setAttribute("aria-expanded", String(!$("panel").hidden));
  sample();
};
setInterval(sample, 2000);

// Beginning ----------------------------------------------------------------------------------

async function greet() {
  try {
    const response = await ask("/v1/models");
    if (!response.ok) throw await failure(response);
    $("model").textContent = (await response.json()).data[0].id;
    say("");
  } catch (error) {
    say(`The server cannot be asked: ${error.message}`);
  }
}
addEventListener("beforeunload", keep);
open(current);
greet();
