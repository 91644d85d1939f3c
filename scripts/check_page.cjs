// Drives the chat page of `deltafin serve`. Called by scripts/check-page with the program and the
// path of a screenshot; CHROMIUM names the browser.

const assert = require("node:assert");
const { chromium } = require("playwright-core");
const { chunk, idle, it_is_accessible, open, send, serve } = require("./page/browser.cjs");
const chat = require("./page/chat.cjs");
const live = require("./page/live.cjs");
const tabs = require("./page/tabs.cjs");

const [program, screenshot] = process.argv.slice(2);

const ok = ({ name }) => console.log(`ok: ${name.replaceAll("_", " ")}`);

async function check(browser, address) {
  const { page, context, faults } = await open(browser, address, { viewport: { width: 1100, height: 720 } });
  for (const part of [
    chat.answer_is_streamed_and_thinking_is_folded,
    chat.the_server_answers,
    chat.stop_keeps_what_was_said_and_regenerate_takes_its_place,
    chat.reload_keeps_conversations,
    chat.export_has_the_words,
    chat.hostile_text_stays_text,
    it_is_accessible,
    chat.the_keyboard_is_enough,
    chat.a_fast_answer_is_shown_to_its_end,
    chat.what_happens_is_told_once_and_the_focus_stays,
    chat.another_conversation_ends_no_reply,
    live.live_figures_come,
    live.live_figures_say_what_is_read_and_what_limits,
    it_is_accessible,
  ]) {
    await part(page);
    ok(part);
  }
  assert.deepEqual(faults, []);
  // What is refused is an error in the browser's console, too: checked last.
  await chat.refusals_are_told(page);
  await chat.text_cannot_become_markup(page);
  await context.close();
}

/** Words of a wide table stay whole, and what is typed is seen. */
async function wide_text_fits(page) {
  const row = `|${" considerable |".repeat(12)}\n`;
  const body = chunk({ content: row + `|${"---|".repeat(12)}\n` + row }) + "data: [DONE]\n\n";
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body }));
  await send(page, "A table, please.");
  await page.waitForSelector(".assistant td");
  await idle(page);
  const height = (selector) => page.evaluate((selector) => document.querySelector(selector).clientHeight, selector);
  assert((await height("td")) < 60, "a word of a table is on one line");
  const low = await height("#prompt");
  await page.fill("#prompt", "line\n".repeat(6));
  assert((await height("#prompt")) > low + 40, "the composer grows with its text");
  await page.fill("#prompt", "");
  await it_is_accessible(page);
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
  await wide_text_fits(page);
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
  const { server, address } = await serve(program);
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  try {
    await check(browser, address);
    for (const part of Object.values(tabs)) {
      await part(browser, address);
      ok(part);
    }
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
