// Markdown into nodes. Promises: only elements named here are made, text only becomes text nodes,
// and links lead to http, https or mailto; whatever is not understood stays as it is written.

const element = (name, children = [], attributes = {}) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...[children].flat());
  return made;
};

// The first construct that matches at the leftmost place wins; inside code nothing is read.
const INLINE = /(`+)([^]*?[^`])\1(?!`)|\*\*([^]+?)\*\*|(?<![\w*])[*_](?![\s*_])([^]*?[^\s*_])[*_](?![\w*])|\[([^\]\n]+)\]\(([^()\s]+)\)|(https?:\/\/[^\s<>()]*[^\s<>().,;:!?'"])/;

function inline(text) {
  const nodes = [];
  for (let found; (found = INLINE.exec(text)); ) {
    const [whole, , code, strong, soft, label, target, bare] = found;
    if (found.index) nodes.push(text.slice(0, found.index));
    if (code !== undefined) nodes.push(element("code", code.trim() || code));
    else if (strong !== undefined) nodes.push(element("strong", inline(strong)));
    else if (soft !== undefined) nodes.push(element("em", inline(soft)));
    else nodes.push(link(whole, label, target ?? bare));
    text = text.slice(found.index + whole.length);
  }
  if (text) nodes.push(text);
  return nodes;
}

function link(whole, label, target) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return whole;
  return element("a", label ?? target, { href: target, target: "_blank", rel: "noopener noreferrer" });
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const ROW = /^\s*\|.*\|\s*$/;
const cells = (row) => row.trim().slice(1, -1).split("|").map((cell) => cell.trim());

/** The blocks of a text, which may still be growing. */
export function markdown(text) {
  const lines = text.split("\n");
  const blocks = [];
  let at = 0;
  const take = (isMore) => {
    const taken = [];
    while (at < lines.length && isMore(lines[at])) taken.push(lines[at++]);
    return taken;
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (!line.trim()) at++;
    else if (fence) {
      at++;
      const code = take((next) => !next.trim().startsWith(fence[1]));
      at++;
      const label = fence[2] ? `Code, ${fence[2]}` : "Code";
      blocks.push(element("pre", element("code", code.join("\n")), { tabindex: 0, role: "region", "aria-label": label }));
    } else if (heading) {
      at++;
      // The page has the first two levels for itself.
      blocks.push(element(`h${Math.min(heading[1].length + 2, 6)}`, inline(heading[2])));
    } else if (RULE.test(line)) {
      at++;
      blocks.push(element("hr"));
    } else if (/^\s*>/.test(line)) {
      const quoted = take((next) => /^\s*>/.test(next)).map((next) => next.replace(/^\s*> ?/, ""));
      blocks.push(element("blockquote", markdown(quoted.join("\n"))));
    } else if (ITEM.test(line)) blocks.push(list(take((next) => ITEM.test(next) || /^\s{2,}\S/.test(next))));
    else if (ROW.test(line) && /^[\s|:-]+$/.test(lines[at + 1] ?? "")) blocks.push(table(take((next) => ROW.test(next))));
    else {
      const first = at;
      const plain = take((next) => next.trim() && (at === first || !(FENCE.test(next) || ITEM.test(next) || /^(#{1,6}\s|\s*>)/.test(next))));
      blocks.push(element("p", inline(plain.join("\n"))));
    }
  }
  return blocks;
}

function list(lines) {
  const indent = ITEM.exec(lines[0])[1].length;
  const ordered = /\d/.test(ITEM.exec(lines[0])[2]);
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && (item[1].length <= indent || !items.length)) items.push([item[3]]);
    else items.at(-1).push(line.slice(Math.min(indent + 2, line.search(/\S/))));
  }
  const start = Number.parseInt(ITEM.exec(lines[0])[2], 10);
  return element(ordered ? "ol" : "ul", items.map((item) => {
    const [first, ...rest] = item;
    return element("li", [...inline(first), ...markdown(rest.join("\n"))]);
  }), ordered && start !== 1 ? { start } : {});
}

function table([head, , ...rows]) {
  const row = (kind) => (line) => element("tr", cells(line).map((cell) => element(kind, inline(cell))));
  return element("table", [element("thead", row("th")(head)), element("tbody", rows.map(row("td")))]);
}
