// Drives the chat page of `deltafin serve`. Called by scripts/check-page with the program and the
// path of a screenshot; CHROMIUM names the browser.

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { createServer } = require("node:http");
const readline = require("node:readline");
const { chromium } = require("playwright-core");

const [program, screenshot] = process.argv.slice(2);
const PATIENCE_MS = 120_000;

/** The server and its address, once it says that it serves. */
async function serve() {
  const server = spawn(program, ["serve", "--model", "demo", "--port", "0", "--replay", "0"], { stdio: ["ignore", "ignore", "pipe"] });
  const lines = readline.createInterface({ input: server.stderr });
  for await (const line of lines) {
    const found = /serving \S+ on (http:\S+)\/v1/.exec(line);
    if (found) {
      server.stderr.resume();
      return { server, address: found[1] };
    }
  }
  throw new Error("the server did not start");
}

/** A page whose faults and requests to elsewhere fail the check. */
async function open(browser, address, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const faults = [];
  page.on("pageerror", (error) => faults.push(`script: ${error.message}`));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    if (!/^(blob|data):/.test(request.url()) && !request.url().startsWith(address)) faults.push(`request: ${request.url()}`);
  });
  page.on("console", (message) => { if (message.type() === "error") faults.push(`console: ${message.text()}`); });
  await page.goto(address);
  await page.waitForFunction(() => document.querySelector("#model").textContent !== "");
  return { page, context, faults };
}

const send = async (page, text) => {
  await page.fill("#prompt", text);
  await page.press("#prompt", "Enter");
};
const idle = (page) => page.waitForSelector("#send:not([hidden])");
const answers = (page) => page.locator(".assistant .text").allInnerTexts();

const chunk = (delta) => `data: ${JSON.stringify({ id: "chatcmpl-1", choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;

/** A server that speaks when it is told to, in the place of the real one until `end`. */
async function scripted(page) {
  let response, isGone = false, heard;
  const asked = new Promise((then) => { heard = then; });
  const server = createServer((request, answer) => {
    request.resume();
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.write(chunk({ role: "assistant", content: "" }));
    answer.on("close", () => { isGone = true; });
    response = answer;
    heard();
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const url = `http://127.0.0.1:${server.address().port}/`;
  await page.route("**/v1/chat/completions", (route) => route.continue({ url }));
  return {
    asked,
    say: (delta) => response.write(chunk(delta)),
    done: () => response.end("data: [DONE]\n\n"),
    isGone: () => isGone,
    end: async () => { await page.unroute("**/v1/chat/completions"); server.closeAllConnections(); server.close(); },
  };
}

const shows = (page, selector, text) =>
  page.waitForFunction(([selector, text]) => document.querySelector(selector)?.textContent.trim() === text, [selector, text]);

async function answer_is_streamed_and_thinking_is_folded(page) {
  const script = await scripted(page);
  await send(page, "Count.");
  await script.asked;
  script.say({ reasoning_content: "I count" });
  await shows(page, ".thought", "I count");
  await shows(page, ".assistant summary", "Thinking…");
  assert(!(await page.locator(".thought").isVisible()), "thinking is folded");
  assert(await page.locator("#answer-now").isVisible());
  script.say({ reasoning_content: " to two." });
  await shows(page, ".thought", "I count to two.");
  script.say({ reasoning_content: "" });
  script.say({ content: "One" });
  await shows(page, ".assistant .text", "One");
  await shows(page, ".assistant summary", "Thought");
  assert(!(await page.locator("#answer-now").isVisible()));
  await page.click(".assistant summary");
  assert(await page.locator(".thought").isVisible());
  script.say({ content: ", two." });
  await shows(page, ".assistant .text", "One, two.");
  script.done();
  await shows(page, "#status", "The answer is complete.");
  await script.end();
}

async function the_server_answers(page) {
  await page.click("#new");
  await send(page, "What is 47 + 38?");
  await shows(page, "#status", "The answer is complete.");
  assert.deepEqual(await answers(page), ["47 + 38 = 85."]);
  assert.match(await page.locator(".figures").innerText(), /\d+ generated · first after .* tokens\/s/);
}

async function stop_keeps_what_was_said_and_regenerate_takes_its_place(page) {
  const script = await scripted(page);
  await page.click("#new");
  await page.selectOption("#effort", "none");
  await send(page, "What is the capital of France?");
  await script.asked;
  script.say({ content: "The cap" });
  await shows(page, ".assistant .text", "The cap");
  await page.click("#stop");
  await idle(page);
  assert.match(await page.locator(".figures").innerText(), /stopped/);
  assert.deepEqual(await answers(page), ["The cap"]);
  assert(script.isGone(), "the server is left alone");
  await script.end();
  await page.click("#again");
  await shows(page, "#status", "The answer is complete.");
  const [whole, ...more] = await answers(page);
  assert.equal(more.length, 0, "the answer takes the place of the old one");
  assert.match(whole, /Paris/);
  assert.equal(await page.locator(".assistant details:not([hidden])").count(), 0, "nothing was thought");
}

async function reload_keeps_conversations(page) {
  const before = await answers(page);
  await page.reload();
  await page.waitForSelector(".assistant .text");
  assert.deepEqual(await answers(page), before);
  assert.equal(await page.locator("#conversations li").count(), 3);
  await page.click("#conversations li:nth-child(2) .open");
  assert.deepEqual(await answers(page), ["47 + 38 = 85."]);
  await page.click("#conversations li:nth-child(2) [aria-label^=Delete]");
  assert.equal(await page.locator("#conversations li").count(), 2);
}

async function export_has_the_words(page) {
  for (const [button, name] of [["#export-md", "conversation.md"], ["#export-json", "conversation.json"]]) {
    const coming = page.waitForEvent("download");
    await page.click(button);
    const download = await coming;
    assert.equal(download.suggestedFilename(), name);
    assert.match(readFileSync(await download.path(), "utf8"), /capital of France/);
  }
}

const HOSTILE = `<img src=x onerror="alert(1)"><script>alert(2)</script>
[a link](javascript:alert(3)) and [another](https://example.org/x)

**bold** and \`<b>code</b>\`

\`\`\`html
<script>alert(4)</script>
\`\`\`

| a | b |
|---|---|
| 1 | <svg onload=alert(5)> |

- one
  - two
`;

/** A reply that the browser gets in the server's place. */
async function hostile_text_stays_text(page) {
  const body = chunk({ reasoning_content: HOSTILE }) + chunk({ reasoning_content: "" }) + chunk({ content: HOSTILE }) + "data: [DONE]\n\n";
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body }));
  await page.click("#new");
  await send(page, HOSTILE);
  await page.waitForSelector(".assistant table");
  await idle(page);
  const made = await page.evaluate(() => {
    const names = [...document.querySelectorAll("#log *")].map((node) => node.localName);
    return [...new Set(names)].sort();
  });
  for (const absent of ["img", "script", "svg", "b"]) assert(!made.includes(absent), absent);
  for (const present of ["pre", "code", "table", "strong", "ul", "li"]) assert(made.includes(present), present);
  const text = await page.locator(".assistant .text").innerText();
  for (const kept of ["<img src=x onerror=\"alert(1)\">", "<script>alert(4)</script>", "<svg onload=alert(5)>"]) {
    assert(text.includes(kept), kept);
  }
  const links = await page.locator("#log a").evaluateAll((all) => all.map((link) => link.href));
  assert.deepEqual(links, ["https://example.org/x"]);
  await page.unroute("**/v1/chat/completions");
}

/** Even with markup in hand, the policy lets no text become some. */
async function text_cannot_become_markup(page) {
  const refused = await page.evaluate(() => {
    try {
      document.createElement("div").innerHTML = "<i>x</i>";
      return false;
    } catch {
      return true;
    }
  });
  assert(refused, "innerHTML must be refused by the policy");
}

async function refusals_are_told(page) {
  const error = { message: "the queue is full", type: "rate_limit_error", param: null, code: "server_busy" };
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ status: 429, json: { error } }));
  await page.click("#new");
  await send(page, "Hello");
  await idle(page);
  assert.match(await page.locator("#status").innerText(), /the queue is full/);
  await page.unroute("**/v1/chat/completions");
}

/** What the panel says: names to figures. */
const figures = (page) => page.evaluate(() => {
  const texts = (selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent);
  const values = texts("#figures dd");
  return Object.fromEntries(texts("#figures dt").map((name, at) => [name, values[at]]));
});

async function live_figures_come(page) {
  await page.click("#panel-toggle");
  await page.waitForSelector("#figures dd");
  const told = await figures(page);
  assert.equal(told.State, "idle");
  assert.equal(told["Requests waiting"], "0");
  assert.match(told["Tokens per second"], /^\d/);
  assert.match(told["Time to first token"], /^\d.* s$/);
  assert.match(told["Tokens generated"], /^[1-9]/);
  for (const share of ["Prompt tokens reused", "Experts found in memory"]) assert.match(told[share], /^\d.* %$/, share);
  assert.match(told["Read from memory"], /^\d.* MB, 0\.0 kB\/s$/);
  assert.equal(told["Limited by"], "–");
}

/** Counters of a model that is read from two drives: so many seconds and tokens after it began. */
function counters(seconds, done) {
  return Object.entries({
    up: 1, busy: 1, queue_depth: 2, prefill_tokens: 1000, prefill_done_tokens: done, generated_tokens_total: 7,
    prompt_tokens_total: 1000, cached_prompt_tokens_total: 250, expert_hits_total: 60, expert_late_total: 10, expert_misses_total: 30,
    token_seconds_sum: 8, token_seconds_count: 4, time_to_first_token_seconds_sum: 120, time_to_first_token_seconds_count: 1,
    'wait_seconds_total{for="spine"}': 0.1 * seconds, 'wait_seconds_total{for="experts"}': 0.6 * seconds,
    'drive_read_bytes_total{drive="0",folder="/a drive"}': 3e9 * seconds, 'drive_busy_seconds_total{drive="0",folder="/a drive"}': 0.5 * seconds,
    'drive_read_bytes_total{drive="1",folder="/b"}': 0, 'drive_busy_seconds_total{drive="1",folder="/b"}': 0,
  }).map(([name, value]) => `deltafin_${name} ${value}\n`).join("");
}

async function live_figures_say_what_is_read_and_what_limits(page) {
  const began = Date.now();
  await page.route("**/metrics", (route) => {
    const seconds = (Date.now() - began) / 1000;
    route.fulfill({ contentType: "text/plain", body: counters(seconds, Math.round(100 + 10 * seconds)) });
  });
  // Nothing of the other model's is left.
  await page.reload();
  await page.click("#panel-toggle");
  await page.waitForFunction(() => /about .* left/.test(document.querySelector("#figures").innerText));
  const told = await figures(page);
  assert.equal(told.State, "generating");
  assert.equal(told["Tokens per second"], "0.500");
  assert.equal(told["Time to first token"], "2.0 min");
  assert.match(told["Prompt taken in"], /^1\d\d of 1000, 1\d\.\d %, about \S+ (min|s) left$/);
  assert.equal(told["Prompt tokens reused"], "25.0 %");
  assert.equal(told["Experts found in memory"], "60.0 %");
  const near = (text, pattern, wanted) => {
    const found = Number(pattern.exec(text)?.[1]);
    assert(Math.abs(found / wanted - 1) < 0.2, `${text} is not about ${wanted}`);
  };
  near(told["Read from drive /a drive"], /GB, (\S+) GB\/s$/, 3);
  near(told["Utilisation of drive /a drive"], /^(\S+) %$/, 50);
  assert.equal(told["Utilisation of drive /b"], "0.0 %");
  near(told["Limited by"], /^reading: (\S+) % of the time waits for experts$/, 70);
  await page.unroute("**/metrics");
}

async function it_is_accessible(page) {
  // The policy stops scripts that are added to the page; the debugger's own world is none of them.
  await page.evaluate(readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run());
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(", ")}`);
  assert.deepEqual(told, []);
}

/** By keyboard alone: past the header and the list to an answer, and back to a button. */
async function the_keyboard_is_enough(page) {
  await page.click("#new");
  await page.focus(".skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
  await page.keyboard.type("What is the capital of Norway?");
  await page.keyboard.press("Enter");
  await idle(page);
  assert.match((await answers(page))[0], /Oslo/);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "effort");
}

async function check(browser, address) {
  const { page, context, faults } = await open(browser, address, { viewport: { width: 1100, height: 720 } });
  for (const part of [
    answer_is_streamed_and_thinking_is_folded,
    the_server_answers,
    stop_keeps_what_was_said_and_regenerate_takes_its_place,
    reload_keeps_conversations,
    export_has_the_words,
    hostile_text_stays_text,
    it_is_accessible,
    the_keyboard_is_enough,
    live_figures_come,
    live_figures_say_what_is_read_and_what_limits,
    it_is_accessible,
  ]) {
    await part(page);
    console.log(`ok: ${part.name.replaceAll("_", " ")}`);
  }
  assert.deepEqual(faults, []);
  // What is refused is an error in the browser's console, too: checked last.
  await refusals_are_told(page);
  await text_cannot_become_markup(page);
  await context.close();
}

async function check_phone(browser, address) {
  const { page, context, faults } = await open(browser, address, { viewport: { width: 360, height: 640 }, colorScheme: "dark" });
  await send(page, "What is the capital of France?");
  await idle(page);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(overflow, 0, "nothing sticks out at the side");
  await it_is_accessible(page);
  await page.click("#menu");
  assert(await page.locator("#conversations").isVisible());
  await it_is_accessible(page);
  await page.click("#conversations .open");
  assert(!(await page.locator("#conversations").isVisible()));
  assert.deepEqual(faults, []);
  await context.close();
  console.log("ok: a phone, in the dark");
}

async function picture(browser, address) {
  const { page, context } = await open(browser, address, { viewport: { width: 960, height: 560 } });
  await send(page, "What is the capital of France?");
  await idle(page);
  await send(page, "What is 47 + 38?");
  await idle(page);
  await page.click(".assistant:last-child summary");
  await page.click("#panel-toggle");
  await page.waitForSelector("#figures dd");
  await page.screenshot({ path: screenshot });
  await context.close();
}

(async () => {
  const { server, address } = await serve();
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  try {
    await check(browser, address);
    await check_phone(browser, address);
    await picture(browser, address);
  } finally {
    await browser.close();
    server.kill();
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
