// Live figures: what the server measures, a sample every two seconds while the panel is open.

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
    ["Tokens per second", token ? perSecond(1 / token) : "–"],
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
