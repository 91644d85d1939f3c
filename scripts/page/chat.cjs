// One conversation after the other, in one page.

const assert = require("node:assert");
const { readFileSync } = require("node:fs");
const { answers, chunk, focused, idle, scripted, send, shows } = require("./browser.cjs");

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
  await page.click("#conversations li:nth-child(2) .delete");
  assert.equal(await page.locator("#conversations li").count(), 3, "once is not enough");
  await page.click("#conversations li:nth-child(2) .delete");
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

/** Nothing is lost, and what failed is not told to the model as something it said. */
async function refusals_are_told(page) {
  const error = { message: "the queue is full", type: "rate_limit_error", param: null, code: "server_busy" };
  const refuse = () => page.route("**/v1/chat/completions", (route) => route.fulfill({ status: 429, json: { error } }));
  await refuse();
  await page.click("#new");
  await send(page, "What is the capital of France?");
  await idle(page);
  assert.match(await page.locator("#status").innerText(), /the queue is full/);
  assert.match(await page.locator(".failed").innerText(), /the queue is full/);
  await page.unroute("**/v1/chat/completions");

  const script = await scripted(page);
  await send(page, "And Norway's?");
  await script.asked;
  assert.deepEqual(script.bodies[0].messages.map(({ role }) => role), ["user", "user"]);
  script.say({ content: "It is" });
  await shows(page, ".assistant:last-child .text", "It is");
  script.breaks();
  await idle(page);
  assert.match(await page.locator(".assistant:last-child .failed").innerText(), /the server cannot be reached|ended before/);
  await script.end();

  await shows(page, "#again", "Try again");
  await page.click("#again");
  await shows(page, "#status", "The answer is complete.");
  const [, whole] = await answers(page);
  assert.notEqual(whole, "It is");
  await refuse();
  await page.click("#again");
  await page.waitForFunction(() => /the queue is full/.test(document.querySelector("#status").textContent));
  await idle(page);
  assert.equal((await answers(page))[1], whole, "there is nothing new to take its place");
  await page.unroute("**/v1/chat/completions");
}

/** By keyboard alone: past the header and the list to an answer, and back to a button. */
async function the_keyboard_is_enough(page) {
  await page.click("#new");
  await page.focus(".skip");
  await page.keyboard.press("Enter");
  assert.equal(await focused(page), "prompt");
  await page.keyboard.type("What is the capital of Norway?");
  await page.keyboard.press("Enter");
  await idle(page);
  assert.match((await answers(page))[0], /Oslo/);
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "effort");
}


/** Buttons that go leave the keyboard in the composer, and an announcement is made once. */
async function what_happens_is_told_once_and_the_focus_stays(page) {
  const script = await scripted(page);
  await page.click("#new");
  await page.fill("#prompt", "Count.");
  await page.evaluate(() => {
    window.said = [];
    const status = document.querySelector("#status");
    new MutationObserver(() => window.said.push(status.textContent)).observe(status, { childList: true, characterData: true, subtree: true });
  });
  await page.focus("#send");
  await page.keyboard.press("Enter");
  await script.asked;
  assert.equal(await focused(page), "prompt");
  for (let number = 1; number <= 20; number++) {
    script.say({ content: `${number} ` });
    await page.waitForFunction((number) => document.querySelector(".assistant .text").textContent.trim().endsWith(String(number)), number);
  }
  await page.focus("#stop");
  await page.keyboard.press("Enter");
  await shows(page, "#status", "Stopped.");
  assert.equal(await focused(page), "prompt");
  assert.deepEqual(await page.evaluate(() => window.said.filter(Boolean)), ["Asking", "Answering", "Stopped."]);
  await script.end();
  await page.focus("#again");
  await page.keyboard.press("Enter");
  await shows(page, "#status", "The answer is complete.");
  assert.equal(await focused(page), "prompt");
}

/** A reply goes on while another conversation is looked at. */
async function another_conversation_ends_no_reply(page) {
  const script = await scripted(page);
  await page.click("#new");
  await send(page, "Count slowly.");
  await script.asked;
  script.say({ content: "One" });
  await shows(page, ".assistant .text", "One");
  await page.click("#new");
  await idle(page);
  assert.deepEqual(await answers(page), []);
  assert(!script.isGone());
  await page.click("#conversations li:first-child .open");
  await shows(page, ".assistant .text", "One");
  assert(await page.locator("#stop").isVisible());
  script.say({ content: ", two." });
  await shows(page, ".assistant .text", "One, two.");
  script.done();
  await shows(page, "#status", "The answer is complete.");
  await script.end();
}

/** However fast it comes, what is shown already stays as it is. */
async function a_fast_answer_is_shown_to_its_end(page) {
  const script = await scripted(page);
  await page.click("#new");
  await send(page, "Count far.");
  await script.asked;
  script.say({ content: "first\n\nsecond\n\n" });
  await page.waitForSelector(".assistant .text p:nth-child(2)");
  await page.evaluate(() => { document.querySelector(".assistant .text p").dataset.mark = "kept"; });
  const tokens = 20_000;
  for (let number = 1; number <= tokens; number++) script.say({ content: number % 20 ? `*${number}* ` : `${number}\n\n` });
  script.done();
  await shows(page, "#status", "The answer is complete.");
  assert.equal(await page.locator(".assistant .text [data-mark=kept]").count(), 1);
  await shows(page, ".assistant .text p:last-child", Array.from({ length: 20 }, (_, at) => tokens - 19 + at).join(" "));
  await script.end();
}

module.exports = {
  answer_is_streamed_and_thinking_is_folded,
  the_server_answers,
  stop_keeps_what_was_said_and_regenerate_takes_its_place,
  reload_keeps_conversations,
  export_has_the_words,
  hostile_text_stays_text,
  text_cannot_become_markup,
  refusals_are_told,
  the_keyboard_is_enough,
  what_happens_is_told_once_and_the_focus_stays,
  another_conversation_ends_no_reply,
  a_fast_answer_is_shown_to_its_end,
};
