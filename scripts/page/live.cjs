// The live panel.

const assert = require("node:assert");

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

module.exports = { live_figures_come, live_figures_say_what_is_read_and_what_limits };
