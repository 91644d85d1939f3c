// The messages of a conversation, as they are seen and heard.

const $ = (id) => document.getElementById(id);

/** Tells what happens; what is told already is not told again. */
function say(text) {
  if ($("status").textContent !== text) $("status").textContent = text;
}

const LEFT = "stopped: the page was closed or loaded anew";

/** Shows a message; `update` shows what became of it. */
function view(role) {
  const text = element("div", [], { class: "text" });
  const thought = element("div", [], { class: "thought" });
  const summary = element("summary");
  const details = element("details", [summary, thought]);
  const figures = element("p", [], { class: "figures" });
  const isUser = role === "user";
  const heading = element("h2", isUser ? "You" : "Deltafin");
  const node = element("article", isUser ? [heading, text] : [heading, details, text, figures], { class: `said ${role}` });
  const show = growing(text), think = appended(thought);
  const update = (message, { isLive, isElsewhere }) => {
    if (isUser) return void (text.textContent = message.content);
    show(message.content);
    think(message.reasoning ?? "");
    details.hidden = !message.reasoning;
    const isGoing = isLive || isElsewhere;
    node.classList.toggle("live", isGoing);
    summary.textContent = isGoing && !message.content ? "Thinking…" : "Thought";
    const end = isElsewhere ? "being answered in another tab" : !isLive && message.open ? LEFT : message.end;
    figures.textContent = [message.figures, end].filter(Boolean).join(" · ");
    figures.classList.toggle("failed", Boolean(message.failed));
  };
  return { node, role, update };
}

/** Shows a text that grows, and adds only what is new. */
function appended(node) {
  let shown = "";
  return (text) => {
    if (text === shown) return;
    if (!text.startsWith(shown)) node.replaceChildren(shown = "");
    node.append(text.slice(shown.length));
    shown = text;
  };
}

/** Calls `act` soon, but no more often than every `least_ms`, and never for more than a fifth of the time. */
function paced(least_ms, act) {
  let timer = 0, due = 0;
  const run = () => {
    timer = 0;
    const began = performance.now();
    act();
    const ended = performance.now();
    due = ended + Math.max(least_ms, 4 * (ended - began));
  };
  return () => { timer ||= setTimeout(run, Math.max(0, due - performance.now())); };
}
