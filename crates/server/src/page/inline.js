// Spans of a line of text: code, strong, soft, links. One pass from left to right, whose time grows with
// the length alone: whoever opens waits on a short stack, and what is looked for ahead is remembered.

const element = (name, children = [], attributes = {}) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  // One by one: there may be more than a call takes arguments.
  for (const child of [children].flat()) made.append(child);
  return made;
};

const SPECIAL = /\\[\\`*_[\]]|`+|\*+|_+|\[|https?:\/\//g;
const BARE = /https?:\/\/[^\s<>()]*[^\s<>().,;:!?'"]/y;
const TARGET = /\(([^()\s]+)\)/y;
/** Emphasis inside emphasis; of more that is open, the oldest is plain text. */
const OPEN_MAX = 8;

const isWord = (letter) => /\w/.test(letter ?? "");
const isSpace = (letter) => letter === undefined || /\s/.test(letter);

/** Where `what` is next, for places that only grow. */
function ahead(text, what) {
  let found = -1;
  return (from) => {
    if (found < from) found = text.indexOf(what, from);
    if (found < 0) found = Infinity;
    return found;
  };
}

/** Where each run of backticks is closed by one of the same length. */
function closings(text) {
  const closed = new Map(), open = new Map();
  for (const { 0: ticks, index } of text.matchAll(/`+/g)) {
    const last = open.get(ticks.length);
    if (last !== undefined) closed.set(last, index);
    open.set(ticks.length, index);
  }
  return closed;
}

function inline(text, hasLinks = true) {
  const nodes = [], open = [];
  const closed = closings(text), bracket = ahead(text, "]"), newline = ahead(text, "\n");
  let at = 0, barren = -1;
  const add = (node, end) => { nodes.push(node); at = end; };

  /** The run of stars or underscores at `at` closes what waits, and opens what is left of it. */
  const emphasis = (run) => {
    const before = text[at - 1], after = text[at + run.length];
    let left = run.length;
    if (!isSpace(before)) for (let size; (size = wrapped(run[0], left, after)); ) left -= size;
    const opens = !isSpace(after) && left <= 3 && (left === 2 || !isWord(before)) && !(run[0] === "_" && left > 1);
    for (const size of opens ? [2, 1].filter((one) => left & one) : []) {
      open.push({ mark: run[0], size, place: nodes.length });
      if (open.length > OPEN_MAX) open.shift();
      nodes.push(run[0].repeat(size));
      left -= size;
    }
    if (left) nodes.push(run[0].repeat(left));
    at += run.length;
  };
  /** Three close what is nearest, others what is of their size. */
  const wrapped = (mark, left, after) => {
    const which = open.findLastIndex((one) =>
      one.mark === mark && (left === 3 || one.size === left) && one.place < nodes.length - 1 && (one.size === 2 || !isWord(after)));
    if (which < 0) return 0;
    const { size, place } = open[which];
    open.length = which;
    nodes.push(element(size === 2 ? "strong" : "em", nodes.splice(place).slice(1)));
    return size;
  };

  const link = () => {
    const end = bracket(at);
    TARGET.lastIndex = end + 1;
    const target = end < newline(at) && end > at + 1 && end !== barren && TARGET.exec(text);
    if (!target) {
      barren = end;
      return add("[", at + 1);
    }
    const whole = text.slice(at, TARGET.lastIndex);
    add(isSafe(target[1]) ? anchor(inline(text.slice(at + 1, end), false), target[1]) : whole, TARGET.lastIndex);
  };

  for (;;) {
    SPECIAL.lastIndex = at;
    const found = SPECIAL.exec(text);
    if (!found || found.index > at) nodes.push(text.slice(at, found?.index));
    if (!found) return nodes.filter((node) => node !== "");
    const [mark] = found;
    at = found.index;
    if (mark[0] === "\\") add(mark[1], at + 2);
    else if (mark[0] === "`") {
      const end = closed.get(at), code = text.slice(at + mark.length, end);
      if (end === undefined) add(mark, at + mark.length);
      else add(element("code", code.trim() || code), end + mark.length);
    } else if (mark[0] === "h") {
      BARE.lastIndex = at;
      const address = hasLinks && BARE.exec(text)?.[0];
      if (address) add(anchor(address, address), at + address.length);
      else add(mark, at + mark.length);
    } else if (mark !== "[") emphasis(mark);
    else if (hasLinks) link();
    else add("[", at + 1);
  }
}

const isSafe = (target) => /^(https?:\/\/|mailto:)/i.test(target);
const anchor = (label, target) => element("a", label, { href: target, target: "_blank", rel: "noopener noreferrer" });
