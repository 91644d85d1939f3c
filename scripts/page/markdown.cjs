// The page's Markdown, in node: what it makes, that a text that grows ends the same, and that no text takes long.
// Called by scripts/check-page; `node scripts/page/markdown.cjs` alone does the same.

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const PAGE = join(__dirname, "../../crates/server/src/page");
/** What a quadratic reading of the long texts would take many times over, on a slow machine as well. */
const PATIENCE_MS = 30_000;

/** As much of a document as the page's Markdown needs; counts what is made. */
let made = 0;
class Node {
  constructor(localName) { Object.assign(this, { localName, childNodes: [], attributes: [] }); made++; }
  setAttribute(name, value) { this.attributes.push([name, value]); }
  append(...nodes) {
    for (const node of nodes) {
      if (node instanceof Node) {
        if (node.parent) node.remove();
        node.parent = this;
      }
      this.childNodes.push(node);
    }
  }
  get lastChild() { return this.childNodes.at(-1); }
  remove() {
    const { childNodes } = this.parent;
    childNodes.splice(childNodes.lastIndexOf(this), 1);
    this.parent = undefined;
  }
}
globalThis.document = { createElement: (name) => new Node(name) };

const escaped = (text) => text.replace(/[&<>]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[letter]);
function html(node) {
  if (typeof node === "string") return escaped(node);
  const attributes = node.attributes.filter(([name]) => ["href", "start"].includes(name)).map(([name, value]) => ` ${name}="${value}"`);
  return `<${node.localName}${attributes.join("")}>${node.childNodes.map(html).join("")}</${node.localName}>`;
}

async function page() {
  const source = ["inline.js", "markdown.js"].map((name) => readFileSync(join(PAGE, name), "utf8")).join("");
  return import(`data:text/javascript,${encodeURIComponent(source)}`);
}

function shown(growing, ...texts) {
  const node = new Node("div");
  const show = growing(node);
  for (const text of texts) show(text);
  return node.childNodes.map(html).join("");
}

const CASES = [
  ["plain\nlines", "<p>plain\nlines</p>"],
  ["*soft* **strong** ***both*** `code`", "<p><em>soft</em> <strong>strong</strong> <strong><em>both</em></strong> <code>code</code></p>"],
  ["**strong with *soft* inside** and *soft with **strong** inside*", "<p><strong>strong with <em>soft</em> inside</strong> and <em>soft with <strong>strong</strong> inside</em></p>"],
  ["*soft with _soft_ inside*", "<p><em>soft with <em>soft</em> inside</em></p>"],
  ["2 * 3 * 4, a*b*c, snake_case_name, __init__", "<p>2 * 3 * 4, a*b*c, snake_case_name, __init__</p>"],
  ["这是**粗体**字", "<p>这是<strong>粗体</strong>字</p>"],
  ["**not closed, *nor this", "<p>**not closed, *nor this</p>"],
  ["a \\*star\\*", "<p>a *star*</p>"],
  ["``a ` b`` and `*no*`, `open", "<p><code>a ` b</code> and <code>*no*</code>, `open</p>"],
  ["[`a` *b*](https://a.example/x) https://b.example/y.", '<p><a href="https://a.example/x"><code>a</code> <em>b</em></a> <a href="https://b.example/y">https://b.example/y</a>.</p>'],
  ["[x](javascript:alert(1)) [y](data:text/html,1) [z] (no)", "<p>[x](javascript:alert(1)) [y](data:text/html,1) [z] (no)</p>"],
  ["[https://a.example/ b](https://c.example/)", '<p><a href="https://c.example/">https://a.example/ b</a></p>'],
  ["# One\n###### Six #", "<h3>One</h3><h6>Six #</h6>"],
  ["a\n\n---\n\n> b\n> > c", "<p>a</p><hr></hr><blockquote><p>b</p><blockquote><p>c</p></blockquote></blockquote>"],
  ["```js\na\n\n# b\n```\nc", "<pre><code>a\n\n# b</code></pre><p>c</p>"],
  ["````\n```js\nx\n```\n````\nc", "<pre><code>```js\nx\n```</code></pre><p>c</p>"],
  ["```one line``` of text\n\nand more", "<p><code>one line</code> of text</p><p>and more</p>"],
  ["- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"],
  ["3. a\n\n4. b\n   goes on", '<ol start="3"><li>a</li><li>b\ngoes on</li></ol>'],
  ["- a\n1. b", "<ul><li>a</li></ul><ol><li>b</li></ol>"],
  ["1. a:\n\n   ```sh\n   one\n\n   - two\n   ```\n\n2. b", "<ol><li>a:<pre><code>one\n\n- two</code></pre></li><li>b</li></ol>"],
  ["| a | b |\n|---|---|\n| `1` | 2 \\| 3 |", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td><code>1</code></td><td>2 | 3</td></tr></tbody></table></div>"],
  ["<b>&amp;</b>", "<p>&lt;b&gt;&amp;amp;&lt;/b&gt;</p>"],
];

function it_makes_what_is_meant(growing) {
  for (const [text, wanted] of CASES) assert.equal(shown(growing, text), wanted, text);
}

/** However a text comes, it ends as if it had come at once; and so does one that is not like the one before. */
function a_growing_text_ends_the_same(growing) {
  const all = CASES.map(([text]) => text);
  const texts = [...all, all.join("\n\n"), all.join("\n"), all.toReversed().join("\n"), "- a\n*\n* b\n1\n1. c\n\n \n  d\n|\n| e |\n|-\n|-|\n| f |"];
  for (const text of texts) {
    const whole = shown(growing, text);
    const letters = Array.from({ length: text.length }, (_, at) => text.slice(0, at + 1));
    assert.equal(shown(growing, ...letters), whole, text);
    assert.equal(shown(growing, `${text}x`, text), whole, text);
  }
}

/** What was shown is not made again: the work grows with the text, not with its square. */
function what_is_done_stays(growing) {
  const paragraphs = 1000;
  const show = growing(new Node("div"));
  let text = "";
  made = 0;
  for (let at = 0; at < paragraphs; at++) {
    text += `*${at}* and so on.\n\n`;
    show(text);
  }
  assert(made <= 6 * paragraphs, `${made} elements for ${paragraphs} paragraphs`);
}

const MANY = 120_000;
const LONG = {
  stars: "*a ", strongs: "**a ", bolds: "a** ", both: "***a", pairs: "*a* ", alternating: "*a **b ", underscores: "_a ", words: "a_", brackets: "[", labels: "[a](", empty: "[](",
  targets: "[a](b", ticks: "`a``b", "longer ticks": "`", addresses: "https://", ends: "https://..", pipes: "|", rows: "| a |\n", quotes: ">", items: "- ", rules: "- -",
  spaces: " ", hashes: "#", slashes: "\\", lines: "a\n", "empty lines": "\n", list: "- a\n\n", nested: "> - ", fences: "```a\n", numbers: "1. ", starts: "**_[`",
};
const longTexts = () => [
  ...Object.entries(LONG).map(([name, part]) => [name, part.repeat(MANY)]),
  ["a target without an end", "[".repeat(MANY) + "](" + "a".repeat(MANY)],
  ["nests", "*a ".repeat(MANY) + "b* ".repeat(MANY)],
  ["ticks of all lengths", Array.from({ length: 400 }, (_, at) => "`".repeat(at + 1)).join("a")],
  ["an item with spaces", `- ${" ".repeat(MANY)}a\u2028b\r`],
  ["a rule that is none", `${"- ".repeat(MANY)}x`],
  ["wide rules", `-${" ".repeat(MANY)}-${" ".repeat(MANY)}x`],
  ["deeper and deeper", Array.from({ length: 600 }, (_, at) => `${"  ".repeat(at)}- a`).join("\n")],
];

function no_text_takes_long() {
  for (const [name, text] of longTexts()) {
    const began = performance.now();
    page.growing(new Node("div"))(text);
    const took = performance.now() - began;
    if (process.env.MARKDOWN_TIMES) console.log(`${name}: ${text.length} letters, ${took.toFixed(0)} ms`);
  }
}

(async () => {
  const { growing } = await page();
  if (process.argv[2] === "long") {
    page.growing = growing;
    return no_text_takes_long();
  }
  it_makes_what_is_meant(growing);
  a_growing_text_ends_the_same(growing);
  what_is_done_stays(growing);
  // In a process of its own, which can be ended.
  const { status, signal } = spawnSync(process.execPath, [__filename, "long"], { stdio: "inherit", timeout: PATIENCE_MS });
  assert.equal(status, 0, signal ? "some text takes too long" : "some text is not shown");
  console.log("ok: Markdown as it is meant, as it grows, and in any length");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
