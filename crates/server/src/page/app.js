// What the user does: conversations to choose from, the composer, the key. It begins here.

let current;
/** Of the messages that are seen, in their order. */
const views = [];
/** Ids of what another tab is answering, as far as was heard. */
const elsewhere = new Set();

// What is seen -------------------------------------------------------------------------------

function show() {
  const log = $("log");
  const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  const run = runs.get(current), { messages } = current;
  messages.forEach((message, at) => {
    if (views[at]?.role !== message.role) {
      drop(at);
      views.push(view(message.role));
      log.append(views[at].node);
    }
    views[at].update(message, { isLive: run?.message === message, isElsewhere: !run && Boolean(message.open) && elsewhere.has(current.id) });
  });
  drop(messages.length);
  if (follows) log.scrollTop = log.scrollHeight;
  showList();
  showButtons();
  showKeeping();
}

function drop(from) {
  for (const { node } of views.splice(from)) node.remove();
}

let listed = "";
function showList() {
  const all = newestFirst();
  const told = JSON.stringify(all.map((one) => [one.id, one.title, one === current, runs.has(one)]));
  if (told === listed) return;
  listed = told;
  const [held, kind] = [document.activeElement.dataset.id, document.activeElement.className];
  $("conversations").replaceChildren(...all.map((one) => {
    const name = one.title || "Untitled";
    const choose = element("button", name, { type: "button", class: "open", title: name, "data-id": one.id });
    if (one === current) choose.setAttribute("aria-current", "true");
    if (runs.has(one)) choose.append(element("span", " (being answered)", { class: "soft" }));
    choose.onclick = () => open(one);
    return element("li", [choose, deletion(one, name)]);
  }));
  if (held) document.querySelector(`#conversations .${kind}[data-id="${held}"]`)?.focus();
}

/** Deletes when it is pressed twice. */
function deletion(one, name) {
  const drop = element("button", "×", { type: "button", class: "delete", "aria-label": `Delete ${name}`, "data-id": one.id });
  drop.onblur = () => { drop.textContent = "×"; };
  drop.onclick = () => {
    if (drop.textContent === "×") return void (drop.textContent = "Delete?");
    remove(one);
    if (one === current) enter(newest());
    show();
    $("new").focus();
  };
  return drop;
}

/** Where the keyboard goes when what it was on is gone: on a phone nothing is to spring up. */
const isTouched = () => matchMedia("(pointer: coarse)").matches;
const rest = () => $(isTouched() ? "log" : "prompt").focus({ preventScroll: true });

function showButtons() {
  const run = runs.get(current), last = current.messages.at(-1), held = document.activeElement;
  $("stop").hidden = !run;
  $("answer-now").hidden = !run?.isThinking;
  $("send").hidden = Boolean(run);
  $("again").hidden = Boolean(run) || !last;
  $("again").textContent = last?.failed || last?.role === "user" ? "Try again" : "Regenerate";
  if (held.hidden) rest();
}

function showKeeping() {
  const text = unkept();
  $("keeping").hidden = !text;
  if ($("keeping").textContent !== text) $("keeping").textContent = text;
}

// Conversations ------------------------------------------------------------------------------

const newest = () => newestFirst()[0] ?? fresh("max");

function enter(conversation) {
  current = conversation;
  $("effort").value = current.effort;
  drop(0);
  say(runs.get(current)?.status ?? "");
  show();
  $("log").scrollTop = $("log").scrollHeight;
}

function open(conversation) {
  enter(conversation);
  menu(false);
  rest();
}

function menu(isShown) {
  $("side").classList.toggle("shown", isShown);
  $("menu").setAttribute("aria-expanded", String(isShown));
}

/** What other tabs do. */
addEventListener("storage", ({ key, newValue }) => {
  if (key === HELLO) return keepAll();
  const ids = key === null ? [...seen.keys()] : key.startsWith(KEPT) ? [key.slice(KEPT.length)] : [];
  const before = current.id;
  for (const id of ids) {
    if (heard(id, newValue)) elsewhere[known.get(id)?.messages.at(-1)?.open ? "add" : "delete"](id);
  }
  if (current.messages.length && !known.has(current.id)) {
    enter(newest());
    say("That conversation was deleted in another tab.");
  } else show();
  if (current.id !== before && runs.has(current)) say("Another tab changed that conversation: this answer goes on in one of its own.");
});

// Asking -------------------------------------------------------------------------------------

/** Whether the conversation is there to go on with, as other tabs left it. */
function settled() {
  if (runs.has(current)) return false;
  const wasKnown = known.has(current.id);
  refresh(current);
  for (const message of current.messages.filter(({ open }) => open)) {
    delete message.open;
    message.end = LEFT;
  }
  if (wasKnown === known.has(current.id)) return true;
  enter(newest());
  return false;
}

function answer(former) {
  current.effort = $("effort").value;
  reply(current, former);
  $("log").scrollTop = $("log").scrollHeight;
}

$("composer").onsubmit = (event) => {
  event.preventDefault();
  const content = $("prompt").value.trim();
  if (!content || !settled()) return;
  $("prompt").value = "";
  current.messages.push({ role: "user", content });
  current.title ||= content.slice(0, 60);
  answer();
};
$("prompt").onkeydown = (event) => {
  // A phone has no other key for a new line.
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !isTouched()) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
};
$("stop").onclick = () => runs.get(current)?.abort.abort();
$("answer-now").onclick = () => {
  const body = JSON.stringify({ id: runs.get(current)?.id, action: "reasoning_end" });
  ask("/v1/chat/completions/control", { method: "POST", body }).catch(() => {});
};
$("again").onclick = () => {
  if (settled()) answer(current.messages.at(-1)?.role === "assistant" ? current.messages.pop() : undefined);
};
$("new").onclick = () => open(fresh($("effort").value));
$("menu").onclick = () => menu(!$("side").classList.contains("shown"));
addEventListener("keydown", ({ key }) => {
  if (key !== "Escape" || !$("side").classList.contains("shown")) return;
  menu(false);
  $("menu").focus();
});
$("key").onchange = () => {
  change(() => storage.setItem(KEY, $("key").value.trim()));
  greet();
};

// Beginning ----------------------------------------------------------------------------------

/** Asks for the model's name, until the server tells it. */
async function greet() {
  try {
    const response = await ask("/v1/models");
    if (!response.ok) throw await failure(response);
    $("model").textContent = (await response.json()).data[0].id;
    if ($("status").textContent.startsWith(UNASKED)) say("");
  } catch (error) {
    if (!runs.has(current)) say(`${UNASKED}${error.message}`);
    clearTimeout(greet.again);
    greet.again = setTimeout(greet, 5000);
  }
}
const UNASKED = "The server does not say its model: ";

addEventListener("pagehide", leave);
// A page may come back as it was left.
addEventListener("pageshow", show);
document.addEventListener("visibilitychange", () => { if (document.hidden) keepAll(); });
$("key").value = read(KEY) ?? "";
load();
enter(newest());
rest();
// Whoever answers one of these says so.
change(() => storage.setItem(HELLO, newId()));
greet();
