// Conversations, kept in this browser under a key each, so that tabs do not undo each other's; the server
// keeps none. Promises: of two changes of a conversation the newer one holds, and one that is being answered
// here goes on as a conversation of its own; what was deleted stays deleted; where the browser keeps nothing,
// or no more, the page works and says so.

const KEPT = "deltafin.conversation.", KEY = "deltafin.key", HELLO = "deltafin.hello";
/** Where all of them were once, in one list. */
const FORMER = "deltafin.conversations";

const storage = (() => {
  try {
    return localStorage;
  } catch {
    return null;
  }
})();

/** What is stored: null where nothing is, undefined where that cannot be known. */
function read(key) {
  try {
    return storage?.getItem(key);
  } catch {
    return undefined;
  }
}

/** Whether a change of the storage came about. */
function change(act) {
  try {
    act(storage);
    return true;
  } catch {
    return false;
  }
}

/** Conversations by id; their texts as last read or written; those for which there was no room. */
const known = new Map(), seen = new Map(), unsaved = new Set();
/** Deleted here. Another tab may write one once more before it hears of that. */
const deleted = new Set();

const newId = () => crypto.getRandomValues(new Uint32Array(2)).join("-");
const fresh = (effort) => ({ changed: 0, id: newId(), title: "", effort, messages: [] });
const newestFirst = () => [...known.values()].sort((a, b) => b.changed - a.changed);
const isConversation = (one) =>
  Array.isArray(one?.messages) && one.messages.every((message) => typeof message?.content === "string");

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function load() {
  const keys = [];
  change(() => keys.push(...Object.keys(storage)));
  for (const key of keys) if (key.startsWith(KEPT)) heard(key.slice(KEPT.length), read(key));
  const former = parsed(read(FORMER) ?? null);
  if (!Array.isArray(former)) return;
  for (const one of former.filter(isConversation).reverse()) {
    known.set(one.id, { ...fresh("max"), ...one });
    save(known.get(one.id));
  }
  if (!unsaved.size) change(() => storage.removeItem(FORMER));
}

/** Takes what another tab made of a conversation, and says whether that changed anything here. */
function heard(id, text) {
  const own = known.get(id);
  if (text === seen.get(id)) return false;
  if (text === null || deleted.has(id)) {
    change(() => storage.removeItem(KEPT + id));
    return Boolean(own) && forget(own);
  }
  const theirs = parsed(text);
  if (!isConversation(theirs) || own?.changed >= theirs.changed) return false;
  seen.set(id, text);
  if (own && runs.has(own)) {
    known.set(id, theirs);
    own.id = newId();
    known.set(own.id, own);
    save(own);
  } else known.set(id, Object.assign(own ?? {}, theirs, { id }));
  return true;
}

/** Hears what other tabs have written just now. */
function refresh({ id }) {
  const text = read(KEPT + id);
  if (text !== undefined && seen.has(id)) heard(id, text);
}

function save(one) {
  refresh(one);
  if (!known.has(one.id)) return;
  one.changed = Math.max(Date.now(), one.changed + 1);
  const text = JSON.stringify(one);
  if (change(() => storage.setItem(KEPT + one.id, text))) {
    seen.set(one.id, text);
    unsaved.delete(one);
  } else unsaved.add(one);
}

function forget(one) {
  known.delete(one.id);
  seen.delete(one.id);
  unsaved.delete(one);
  runs.get(one)?.abort.abort();
  return true;
}

function remove(one) {
  deleted.add(one.id);
  forget(one);
  change(() => storage.removeItem(KEPT + one.id));
  // There may be room now.
  for (const other of [...unsaved]) save(other);
}

/** What the user must know about keeping, if anything. */
function unkept() {
  if (!storage) return "This browser keeps no conversations: they end with this page. Export what is to stay.";
  if (unsaved.size) return "This browser has no room left: what was said last is on this page alone. Export it, or delete a conversation.";
  return "";
}
