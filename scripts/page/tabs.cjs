// Several tabs of one browser, pages that are closed in the middle, and browsers that keep nothing.

const assert = require("node:assert");
const { answers, idle, open, scripted, send, shows, tab } = require("./browser.cjs");

const LISTED = "#conversations li";
const lists = (page, count) => page.waitForFunction(([listed, count]) => document.querySelectorAll(listed).length === count, [LISTED, count]);
const stored = (page) => page.evaluate(() => Object.entries(localStorage).flatMap(([key, text]) => key.startsWith("deltafin.conversation.") ? [text] : []).join());
const LEFT = "stopped: the page was closed or loaded anew";

async function tabs_keep_each_others_conversations(browser, address) {
  const { page: one, context, faults } = await open(browser, address);
  const { page: other, faults: others } = await tab(context, address);
  await send(one, "What is the capital of France?");
  await shows(one, "#status", "The answer is complete.");
  await lists(other, 1);
  await send(other, "What is the capital of Norway?");
  await shows(other, "#status", "The answer is complete.");
  await one.reload();
  await lists(one, 2);
  // What is deleted in one is gone in both, also where it is looked at.
  await one.click(`${LISTED} [title*=Norway]`);
  await one.click(`${LISTED}:has([title*=Norway]) .delete`);
  await one.click(`${LISTED}:has([title*=Norway]) .delete`);
  await shows(other, "#status", "That conversation was deleted in another tab.");
  await send(other, "What is 47 + 38?");
  await shows(other, "#status", "The answer is complete.");
  for (const page of [one, other]) {
    await page.reload();
    await lists(page, 1);
    assert.match((await answers(page))[1], /85/);
  }
  assert.deepEqual([...faults, ...others], []);
  await context.close();
}

async function an_answer_in_one_tab_outlasts_changes_in_another(browser, address) {
  const { page: one, context, faults } = await open(browser, address);
  const script = await scripted(one);
  await send(one, "Count.");
  await script.asked;
  script.say({ content: "One" });
  await shows(one, ".assistant .text", "One");
  const { page: other } = await tab(context, address);
  await shows(other, ".assistant .text", "One");
  await shows(other, ".figures", "being answered in another tab");
  await send(other, "What is 47 + 38?");
  await shows(other, "#status", "The answer is complete.");
  script.say({ content: ", two." });
  await lists(one, 2);
  script.done();
  await shows(one, "#status", "The answer is complete.");
  await lists(other, 2);
  for (const page of [one, other]) {
    await page.reload();
    await lists(page, 2);
    const all = [];
    for (const choice of await page.locator(`${LISTED} .open`).all()) {
      await choice.click();
      all.push((await answers(page)).join(" | "));
    }
    assert.deepEqual(all.sort(), ["One | 47 + 38 = 85.", "One, two."]);
  }
  assert.deepEqual(faults, []);
  await script.end();
  await context.close();
}

/** A token may be minutes away: what has come is kept, whatever becomes of the page. */
async function what_has_come_outlasts_the_page(browser, address) {
  const { page, context, faults } = await open(browser, address);
  const script = await scripted(page);
  await send(page, "What is the capital of France?");
  await script.asked;
  script.say({ reasoning_content: "I wonder" });
  await shows(page, ".assistant summary", "Thinking…");
  const { page: other } = await tab(context, address);
  await other.waitForFunction(() => Object.values(localStorage).some((text) => text.includes("I wonder")));
  await page.reload();
  await shows(page, ".thought", "I wonder");
  await shows(page, ".assistant summary", "Thought");
  await shows(page, ".figures", LEFT);
  await script.end();

  const again = await scripted(page);
  await page.click("#again");
  await again.asked;
  again.say({ reasoning_content: "" });
  again.say({ content: "Per" });
  await other.waitForFunction(() => Object.values(localStorage).some((text) => text.includes("Per")));
  await page.close();
  await again.end();
  const { page: next } = await tab(context, address);
  await shows(next, ".assistant .text", "Per");
  await shows(next, ".figures", LEFT);
  await next.click("#again");
  await shows(next, "#status", "The answer is complete.");
  assert.match((await answers(next)).join(), /^The capital.*Paris\.$/);
  assert.deepEqual(faults, []);
  await context.close();
}

/** A crash leaves no last word: nothing goes on for ever. */
async function a_page_that_ended_without_a_word_goes_on_nowhere(browser, address) {
  const { page, context } = await open(browser, address);
  await page.evaluate(() => {
    const messages = [{ role: "user", content: "Why?" }, { role: "assistant", content: "", reasoning: "Well", open: true }];
    localStorage.setItem("deltafin.conversation.1-2", JSON.stringify({ changed: 1, id: "1-2", title: "Why?", effort: "max", messages }));
    localStorage.setItem("deltafin.conversation.3-4", "not JSON");
  });
  await page.reload();
  await lists(page, 1);
  await shows(page, ".assistant summary", "Thought");
  await shows(page, ".figures", LEFT);
  assert(await page.locator("#again").isVisible());
  await context.close();
}

async function a_browser_that_keeps_nothing_can_chat(browser, address) {
  const context = await browser.newContext();
  await context.addInitScript(() => {
    Object.defineProperty(window, "localStorage", { get() { throw new DOMException("denied", "SecurityError"); } });
  });
  const { page, faults } = await tab(context, address);
  assert.match(await page.locator("#keeping").innerText(), /^This browser keeps no conversations/);
  await send(page, "What is 47 + 38?");
  await shows(page, "#status", "The answer is complete.");
  assert.deepEqual(await answers(page), ["47 + 38 = 85."]);
  await page.click("#new");
  await lists(page, 1);
  await page.fill("#key", "k");
  await page.press("#key", "Enter");
  assert.deepEqual(faults, []);
  await context.close();
}

async function a_full_browser_loses_nothing(browser, address) {
  const { page, context, faults } = await open(browser, address);
  await send(page, "What is the capital of France?");
  await shows(page, "#status", "The answer is complete.");
  const { page: other } = await tab(context, address);
  await other.evaluate(() => {
    for (let letters = 1 << 23; letters >= 1; letters >>= 1) {
      try {
        localStorage.setItem(`filled ${letters}`, "x".repeat(letters));
      } catch {
        // A smaller one may fit.
      }
    }
  });
  await page.click("#new");
  await send(page, "What is 47 + 38?");
  await shows(page, "#status", "The answer is complete.");
  assert.match(await page.locator("#keeping").innerText(), /^This browser has no room left/);
  assert.deepEqual(await answers(page), ["47 + 38 = 85."]);
  await other.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("filled")).forEach((key) => localStorage.removeItem(key)));
  await page.click(`${LISTED}:has([title*=France]) .delete`);
  await page.click(`${LISTED}:has([title*=France]) .delete`);
  assert(!(await page.locator("#keeping").isVisible()));
  assert.match(await stored(page), /47 \+ 38 = 85/);
  assert.deepEqual(faults, []);
  await context.close();
}

module.exports = {
  tabs_keep_each_others_conversations,
  an_answer_in_one_tab_outlasts_changes_in_another,
  what_has_come_outlasts_the_page,
  a_page_that_ended_without_a_word_goes_on_nowhere,
  a_browser_that_keeps_nothing_can_chat,
  a_full_browser_loses_nothing,
};
