// Markdown into nodes. Promises: only elements named here are made, text only becomes text nodes,
// and links lead to http, https or mailto; whatever is not understood stays as it is written. The time
// grows with the length, and a text that grows is read anew only from its last block on.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+([^]*)/;
const HEADING = /^(#{1,6})\s+([^]*)/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const QUOTE = /^\s*>/;
const ROW = /^\s*\|.*\|\s*$/;

/** Quotes and lists in each other; what is deeper is a plain paragraph. */
const DEPTH_MAX = 12;

/** The blocks of a text: their nodes, and the lines where they begin. */
function blocks(lines, depth = 0) {
  const made = [];
  let at = 0;
  const add = (end, node) => {
    made.push({ node, first: at });
    at = end;
  };
  while (at < lines.length) {
    const line = lines[at];
    const heading = HEADING.exec(line), fence = fenced(line);
    if (!line.trim()) at++;
    else if (fence) code(fence, lines, at, add);
    // The page has the first two levels for itself.
    else if (heading) add(at + 1, element(`h${Math.min(heading[1].length + 2, 6)}`, inline(heading[2])));
    else if (RULE.test(line)) add(at + 1, element("hr"));
    else if (QUOTE.test(line) && depth < DEPTH_MAX) quote(lines, at, depth, add);
    else if (ITEM.test(line) && depth < DEPTH_MAX) list(lines, at, depth, add);
    else if (ROW.test(line) && /^[\s|:-]+$/.test(lines[at + 1] ?? "")) table(lines, at, add);
    else {
      const end = until(lines, at + 1, (next) => !next.trim() || fenced(next) || ITEM.test(next) || HEADING.test(next) || QUOTE.test(next));
      add(end, element("p", inline(lines.slice(at, end).join("\n"))));
    }
  }
  return made;
}

/** The first line from `at` on that `isEnd` is true for. */
function until(lines, at, isEnd) {
  while (at < lines.length && !isEnd(lines[at])) at++;
  return at;
}

const within = (lines, depth) => blocks(lines, depth + 1).map(({ node }) => node);

/** The marks that begin a block of code, and its language. What ends in its own line is a span. */
function fenced(line) {
  const found = FENCE.exec(line);
  const isSpan = found?.[1][0] === "`" && line.includes("`", line.indexOf("`") + found[1].length);
  return isSpan ? null : found;
}

function code([, marks, language], lines, at, add) {
  const isEnd = (line) => line.trim().length >= marks.length && line.trim().replaceAll(marks[0], "") === "";
  const end = until(lines, at + 1, isEnd);
  const label = language ? `Code, ${language}` : "Code";
  const text = element("code", lines.slice(at + 1, end).join("\n"));
  add(end + 1, element("pre", text, { tabindex: 0, role: "region", "aria-label": label }));
}

function quote(lines, at, depth, add) {
  const end = until(lines, at, (line) => !QUOTE.test(line));
  add(end, element("blockquote", within(lines.slice(at, end).map((line) => line.replace(/^\s*> ?/, "")), depth)));
}

function list(lines, at, depth, add) {
  const [, { length: indent }, mark] = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(mark), items = [];
  let end = at, width = 0;
  // It goes on past empty lines when an item or an indented line follows.
  for (let next = at; next < lines.length; next++) {
    const line = lines[next], blanks = line.search(/\S/);
    if (blanks < 0) continue;
    const item = ITEM.exec(line);
    const isOwn = item && blanks <= indent + 1;
    if (isOwn ? isOrdered !== /\d/.test(item[2]) || RULE.test(line) : blanks < 2) break;
    if (isOwn) {
      width = blanks + item[2].length + 1;
      items.push([item[3]]);
    } else {
      for (let empty = end; empty < next; empty++) items.at(-1).push("");
      items.at(-1).push(line.slice(Math.min(width, blanks)));
    }
    end = next + 1;
  }
  const start = Number.parseInt(mark, 10);
  add(end, element(isOrdered ? "ol" : "ul", items.map((item) => {
    const [first, ...rest] = within(item, depth);
    // The words of an item stand by its mark.
    return element("li", [...(first?.localName === "p" ? first.childNodes : [first ?? ""]), ...rest]);
  }), isOrdered && start !== 1 ? { start } : {}));
}

function table(lines, at, add) {
  const end = until(lines, at, (line) => !ROW.test(line));
  const [head, , ...rows] = lines.slice(at, end);
  const cells = (row) => row.trim().slice(1, -1).split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const row = (kind) => (line) => element("tr", cells(line).map((cell) => element(kind, inline(cell))));
  const all = element("table", [element("thead", row("th")(head)), element("tbody", rows.map(row("td")))]);
  // A wide one is moved sideways, by keys as well.
  add(end, element("div", all, { tabindex: 0, role: "region", "aria-label": "Table" }));
}

/** Shows a text that grows in `node`. Blocks before the last one that begins in a whole line stay as they are. */
export function growing(node) {
  let shown = "", from = 0, kept = 0;
  return (text) => {
    if (!text.startsWith(shown)) from = kept = 0;
    shown = text;
    const lines = text.slice(from).split("\n");
    const made = blocks(lines);
    while (node.childNodes.length > kept) node.lastChild.remove();
    for (const { node: block } of made) node.append(block);
    const last = made.findLastIndex(({ first }) => first < lines.length - 1);
    if (last > 0) {
      kept += last;
      for (const line of lines.slice(0, made[last].first)) from += line.length + 1;
    }
  };
}
