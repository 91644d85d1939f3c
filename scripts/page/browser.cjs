// What the checks of the chat page share: the server, the browser, a server that speaks when it is told to.

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { createServer } = require("node:http");
const readline = require("node:readline");

const PATIENCE_MS = 120_000;

/** The server and its address, once it says that it serves. */
async function serve(program) {
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

/** A page in a browser of its own, whose faults and requests to elsewhere fail the check. */
async function open(browser, address, options = {}) {
  const context = await browser.newContext(options);
  return { context, ...await tab(context, address) };
}

async function tab(context, address) {
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
  return { page, faults };
}

const send = async (page, text) => {
  await page.fill("#prompt", text);
  await page.press("#prompt", "Enter");
};
const idle = (page) => page.waitForSelector("#send:not([hidden])");
const focused = (page) => page.evaluate(() => document.activeElement.id);
const answers = (page) => page.locator(".assistant .text").allInnerTexts();

const chunk = (delta) => `data: ${JSON.stringify({ id: "chatcmpl-1", choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;

/** A server that speaks when it is told to, in the place of the real one until `end`. */
async function scripted(page) {
  let response, isGone = false, heard;
  const bodies = [];
  const asked = new Promise((then) => { heard = then; });
  const server = createServer(async (request, answer) => {
    bodies.push(JSON.parse(Buffer.concat(await request.toArray()).toString()));
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
    bodies,
    say: (delta) => response.write(chunk(delta)),
    done: () => response.end("data: [DONE]\n\n"),
    breaks: () => response.destroy(),
    isGone: () => isGone,
    end: async () => { if (!page.isClosed()) await page.unroute("**/v1/chat/completions"); server.closeAllConnections(); server.close(); },
  };
}

const shows = (page, selector, text) =>
  page.waitForFunction(([selector, text]) => document.querySelector(selector)?.textContent.trim() === text, [selector, text]);

async function it_is_accessible(page) {
  // The policy stops scripts that are added to the page; the debugger's own world is none of them.
  await page.evaluate(readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run());
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(", ")}`);
  assert.deepEqual(told, []);
}

module.exports = { serve, open, tab, send, idle, focused, answers, chunk, scripted, shows, it_is_accessible };
