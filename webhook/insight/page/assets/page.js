//@ts-check
// The page in the browser: builds elements from trees, filters and sorts them, and follows the server.
// Texts of the cluster become text nodes and attributes, never markup.

/** @typedef {[string, Record<string, string>, ...any[]]} Tree an element: its name, its attributes, its children */
/**
 * @typedef {object} Item one block of a list
 * @property {string} key
 * @property {(name: string) => string} said an attribute of it
 * @property {() => Element} element made when it is shown first
 * @property {boolean} isMade
 */
/**
 * @typedef {object} News what the server sends
 * @property {boolean} whole whether it is everything
 * @property {Record<string, Tree>} blocks
 * @property {string[]} gone
 * @property {{live: boolean, at: string, since: string, reason: string}} standing
 */

const SVG = "http://www.w3.org/2000/svg";
const TAGS = new Set(("a b details dd div dl dt desc g h3 li meter option p path rect span summary svg table caption " +
  "thead tbody tr th td text title ul").split(" "));
const ATTRIBUTES = /^(class|d|height|hidden|high|href|id|lang|low|max|min|optimum|role|rx|scope|stroke-dasharray|stroke-width|tabindex|title|value|viewBox|width|x|y|(aria|data)-[a-z-]+)$/;
const LISTS = ["summary", "notes", "findings", "waiting", "nodes", "pods", "node-rows", "by-namespace", "by-finding"];
const FILTERED = new Set(["findings", "waiting", "nodes", "pods", "node-rows"]);
/** @type {Record<string, number>} how many elements of a list are made before a person asks for more */
const FIRST = { findings: 30, waiting: 6, nodes: 600, pods: 100, "node-rows": 100 };
const SILENT_SECONDS = 40;
const RETRY_MS = [500, 1000, 2000, 5000];
const TOKEN = "gpu-topology-token";

const page = document.documentElement;
/** @type {Record<string, string>} */
const texts = JSON.parse(page.dataset.texts ?? "{}");
const isFile = page.hasAttribute("data-file");
/** @type {Map<string, Map<string, Item>>} */
const lists = new Map(LISTS.map((name) => [name, new Map()]));
const limits = { ...FIRST };
/** @type {Record<string, {column: number, descending: boolean}>} */
const sorting = {};
const filter = { namespace: "", search: "", finding: "" };

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page lacks ${id}`);
  return found;
}

/** @param {string} key @param {Record<string, string | number>} [values] */
function say(key, values = {}) {
  return texts[key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

/** Builds an element. @param {Tree} tree @param {boolean} [isSvg] @returns {Element} */
function build(tree, isSvg = false) {
  const [tag, attributes, ...children] = tree;
  if (!TAGS.has(tag)) throw new Error(`unexpected element ${tag}`);
  const inSvg = isSvg || tag === "svg";
  const made = inSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (!ATTRIBUTES.test(name) || (name === "href" && !value.startsWith("#"))) throw new Error(`unexpected ${name}`);
    made.setAttribute(name, value);
  }
  for (const child of children) made.append(typeof child === "string" ? child : build(child, inSvg));
  return made;
}

/** @param {string} key @param {Tree} tree @returns {Item} */
function itemOf(key, tree) {
  /** @type {Element | null} */
  let made = null;
  return {
    key,
    said: (name) => tree[1][name] ?? "",
    element: () => (made ??= build(tree)),
    get isMade() { return made !== null; },
  };
}

/** @param {Element} element @returns {Item} */
function itemThere(element) {
  const key = element.getAttribute("data-key") ?? "";
  return { key, said: (name) => element.getAttribute(name) ?? "", element: () => element, isMade: true };
}

/** @param {string} key */
const listOf = (key) => key.slice(0, key.indexOf("/"));

/** @param {Item} item @param {string} name @returns {string[]} */
function several(item, name) {
  const text = item.said(name);
  return text ? JSON.parse(text) : [];
}

const isFiltering = () => Boolean(filter.namespace || filter.search || filter.finding);

/** @param {Item} item */
function matches(item) {
  return (!filter.namespace || several(item, "data-namespaces").includes(filter.namespace))
    && (!filter.finding || several(item, "data-codes").includes(filter.finding))
    && (!filter.search || item.said("data-search").includes(filter.search.toLowerCase()));
}

/** @param {string} name @param {Item} item */
function rank(name, item) {
  const by = sorting[name];
  return by ? several(item, "data-columns")[by.column] ?? "" : item.said("data-sort");
}

/** Returns the items of a list that match, in their order. @param {string} name @returns {Item[]} */
function chosen(name) {
  const all = [...(lists.get(name)?.values() ?? [])];
  const found = FILTERED.has(name) && isFiltering() ? all.filter(matches) : all;
  const sign = sorting[name]?.descending ? -1 : 1;
  const keyed = found.map((item) => ({ item, rank: rank(name, item) }));
  keyed.sort((one, other) => (one.rank < other.rank ? -sign : one.rank > other.rank ? sign
    : one.item.key < other.item.key ? -1 : 1));
  return keyed.map((each) => each.item);
}

/** Shows a list as it is now, moving no element that is in its place. @param {string} name */
function show(name) {
  const place = byId(name);
  const found = chosen(name);
  const limit = limits[name] ?? Infinity;
  const wanted = found.slice(0, limit).map((item) => item.element());
  const kept = new Set(wanted);
  const fixed = [...place.children].filter((each) => !each.hasAttribute("data-key"));
  for (const each of [...place.children]) {
    if (each.hasAttribute("data-key") && !kept.has(each)) each.remove();
  }
  wanted.forEach((element, position) => {
    const there = place.children[fixed.length + position] ?? null;
    if (there !== element) place.insertBefore(element, there);
  });
  if (FILTERED.has(name)) tellNumbers(name, found.length, wanted.length);
  if (name === "nodes") dressGrid(found.length);
}

/** @param {string} name @param {number} found @param {number} shown */
function tellNumbers(name, found, shown) {
  const total = lists.get(name)?.size ?? 0;
  byId(`${name}-count`).textContent = found === total ? say("count", { shown: total })
    : say("countOf", { shown: found, total });
  byId(`${name}-empty`).hidden = found > 0;
  const more = /** @type {HTMLElement} */ (document.querySelector(`[data-more="${name}"]`));
  more.hidden = found <= shown;
  more.textContent = say("more", { number: found - shown });
}

/** @param {number} number */
function dressGrid(number) {
  const grid = byId("nodes");
  grid.dataset.density = number <= 6 ? "roomy" : number <= 60 ? "medium" : "compact";
  const links = /** @type {NodeListOf<HTMLElement>} */ (grid.querySelectorAll("h3 a"));
  const current = [...links].find((each) => each === document.activeElement) ?? links[0];
  links.forEach((each) => { each.tabIndex = each === current ? 0 : -1; });
  dim();
}

/** Dims the cards of pods that do not match. */
function dim() {
  const grid = byId("nodes");
  grid.classList.toggle("filtering", isFiltering());
  if (!isFiltering()) return;
  const wanted = new Set();
  for (const item of lists.get("pods")?.values() ?? []) if (matches(item)) wanted.add(item.said("data-pod"));
  const isByNode = filter.search && !filter.namespace && !filter.finding;
  for (const card of grid.querySelectorAll(".card")) {
    /** @type {string[]} */
    const pods = JSON.parse(card.getAttribute("data-pods") ?? "[]");
    const node = card.closest("[data-key]")?.getAttribute("data-key")?.slice("nodes/".length) ?? "";
    const isMeant = pods.some((pod) => wanted.has(pod)) || (isByNode && node.includes(filter.search.toLowerCase()));
    card.classList.toggle("aside", !isMeant);
  }
}

/** @param {Iterable<string>} [names] */
function showAll(names = LISTS) {
  for (const name of names) show(name);
}

// The address holds the filter and the open details, so that a person can send it to another one.

function readAddress() {
  const asked = new URLSearchParams(location.search);
  filter.namespace = asked.get("namespace") ?? "";
  filter.search = asked.get("search") ?? "";
  filter.finding = asked.get("finding") ?? "";
  showFilter();
}

function showFilter() {
  choose(/** @type {HTMLSelectElement} */ (byId("by-namespace")), filter.namespace);
  choose(/** @type {HTMLSelectElement} */ (byId("by-finding")), filter.finding);
  /** @type {HTMLInputElement} */ (byId("search")).value = filter.search;
}

/** Chooses a value even if the cluster no longer has it. @param {HTMLSelectElement} select @param {string} value */
function choose(select, value) {
  const known = [...select.options].find((each) => each.value === value);
  select.querySelector("[data-lost]")?.remove();
  if (!known || known.hasAttribute("data-lost")) {
    const lost = document.createElement("option");
    lost.value = lost.textContent = value;
    lost.dataset.lost = "";
    select.insertBefore(lost, select.options[1] ?? null);
  }
  select.value = value;
}

/** @param {Record<string, string>} values */
function writeAddress(values) {
  const asked = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value) asked.set(name, value);
    else asked.delete(name);
  }
  const query = asked.toString();
  try {
    history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
  } catch { /* a file has an address that cannot be changed in every browser */ }
  leadToLanguages(asked);
}

/** @param {URLSearchParams} asked */
function leadToLanguages(asked) {
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("#languages a"))) {
    const there = new URLSearchParams(asked);
    there.set("lang", link.hreflang);
    link.href = `?${there}`;
  }
}

function onFilter() {
  filter.namespace = /** @type {HTMLSelectElement} */ (byId("by-namespace")).value;
  filter.finding = /** @type {HTMLSelectElement} */ (byId("by-finding")).value;
  filter.search = /** @type {HTMLInputElement} */ (byId("search")).value.trim();
  Object.assign(limits, FIRST);
  writeAddress(filter);
  showAll(FILTERED);
}

// The details of a pod or a node, in a dialog.

const dialog = /** @type {HTMLDialogElement} */ (byId("dialog"));
let opened = "";

/** @param {string} key */
async function open(key) {
  opened = key;
  byId("dialog-title").textContent = key.slice(key.indexOf("/") + 1);
  const body = byId("dialog-body");
  body.replaceChildren(paragraph(say("loading")));
  body.setAttribute("aria-busy", "true");
  if (!dialog.open) dialog.showModal();
  writeAddress({ open: key });
  const found = await detail(key).catch((error) => paragraph(say("failed", { reason: String(error.message) })));
  if (opened !== key) return;
  body.replaceChildren(found);
  body.removeAttribute("aria-busy");
}

/** @param {string} key @returns {Promise<Element>} */
async function detail(key) {
  if (isFile) {
    const body = document.getElementById(key)?.lastElementChild;
    return body ? /** @type {Element} */ (body.cloneNode(true)) : paragraph(say("missing"));
  }
  const answer = await ask(`/detail?key=${encodeURIComponent(key)}&lang=${page.lang}`);
  if (!answer.ok) throw new Error(reasonOf(answer.status));
  return build(await answer.json());
}

/** @param {string} text */
function paragraph(text) {
  const made = document.createElement("p");
  made.textContent = text;
  return made;
}

// The server: one answer, which is a stream of events. It is requested again when it ends or falls silent.

let token = "";
let isHeard = false;
let notLiveSince = "";
let heard = new Date();

function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    sessionStorage.setItem(TOKEN, found);
    history.replaceState(null, "", location.pathname + location.search);
  }
  token = found ?? sessionStorage.getItem(TOKEN) ?? "";
}

/** @param {string} path @param {AbortSignal} [signal] */
function ask(path, signal) {
  return fetch(path, { headers: { Authorization: `Bearer ${token}` }, signal, cache: "no-store", redirect: "error" });
}

/** @param {number} status */
function reasonOf(status) {
  return status === 403 ? say("refused") : status === 503 ? say("full") : say("trouble", { status });
}

async function follow() {
  for (let attempt = 0; ; attempt += 1) {
    if (!token) return notLive(say("noToken"));
    isHeard = false;
    try {
      notLive(await listen());
    } catch (error) {
      notLive(error instanceof TypeError ? say("gone") : String(/** @type {Error} */ (error).message));
    }
    if (isHeard) attempt = 0;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]));
  }
}

/** Reads events until there are no more, and returns the reason. @returns {Promise<string>} */
async function listen() {
  const stop = new AbortController();
  let watchdog = 0;
  const wake = () => {
    clearTimeout(watchdog);
    heard = new Date();
    watchdog = setTimeout(() => stop.abort(new Error(say("silent", { seconds: SILENT_SECONDS }))), SILENT_SECONDS * 1000);
  };
  wake();
  try {
    const answer = await ask(`/events?lang=${page.lang}`, stop.signal);
    if (!answer.ok || !answer.body) return reasonOf(answer.status);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    /** @type {string[]} */
    let parts = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return say("ended");
      wake();
      parts.push(value);
      if (!value.includes("\n")) continue;
      const events = parts.join("").split("\n\n");
      parts = [events.pop() ?? ""];
      for (const event of events) hear(event);
    }
  } finally {
    clearTimeout(watchdog);
  }
}

/** @param {string} event lines, of which those with data count */
function hear(event) {
  const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
  if (data) take(JSON.parse(data));
}

/** @param {News} news */
function take(news) {
  const touched = new Set();
  if (news.whole) for (const [name, items] of lists) { items.clear(); touched.add(name); }
  for (const key of news.gone) { lists.get(listOf(key))?.delete(key); touched.add(listOf(key)); }
  for (const [key, tree] of Object.entries(news.blocks)) {
    lists.get(listOf(key))?.set(key, itemOf(key, tree));
    touched.add(listOf(key));
  }
  isHeard = true;
  const focus = rememberFocus();
  if (isFiltering() && touched.has("pods")) touched.add("nodes");
  showAll(touched);
  if (touched.has("by-namespace") || touched.has("by-finding")) showFilter();
  focus();
  stand(news.standing);
  performance.mark("gpu-topology-shown");
}

/** Returns a function that gives the focus back to a link whose block was replaced. */
function rememberFocus() {
  const active = document.activeElement;
  const key = active?.closest("[data-key]")?.getAttribute("data-key");
  const opens = active?.getAttribute("data-open");
  return () => {
    if (!key || !opens || active?.isConnected) return;
    const block = [...document.querySelectorAll("[data-key]")].find((each) => each.getAttribute("data-key") === key);
    const again = [...(block?.querySelectorAll("[data-open]") ?? [])].find((each) => each.getAttribute("data-open") === opens);
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  };
}

/** @param {News["standing"]} standing */
function stand(standing) {
  byId("at").textContent = standing.at ? say("at", { at: standing.at }) : "";
  if (!standing.live) return notLive(standing.reason, standing.since);
  notLiveSince = "";
  byId("banner").hidden = true;
  page.dataset.live = "yes";
  const waiting = lists.get("waiting")?.size ?? 0;
  const findings = lists.get("findings")?.size ?? 0;
  setText("status", `${say("live")} · ${say("changed", { waiting, findings })}`);
}

/** Sets a text only if it differs, because screen readers read every text that is set. @param {string} id @param {string} text */
function setText(id, text) {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

/** @param {string} reason @param {string} [since] */
function notLive(reason, since = "") {
  notLiveSince ||= since || heard.toLocaleTimeString(page.lang, { hour12: false });
  page.dataset.live = "no";
  setText("status", "");
  setText("banner", say("notLive", { since: notLiveSince, reason }));
  byId("banner").hidden = false;
}

// The actions of a person.

/** @param {KeyboardEvent} event */
function onArrow(event) {
  const links = /** @type {HTMLElement[]} */ ([...byId("nodes").querySelectorAll("h3 a")]);
  const here = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  if (here < 0) return;
  const top = (/** @type {HTMLElement} */ each) => each.closest("li")?.offsetTop ?? 0;
  const perRow = Math.max(1, links.filter((each) => top(each) === top(links[0])).length);
  /** @type {Record<string, number>} */
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow, Home: -here, End: links.length - 1 - here };
  const next = links[here + (steps[event.key] ?? NaN)];
  if (!next) return;
  event.preventDefault();
  links[here].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** @param {MouseEvent} event */
function onClick(event) {
  if (!(event.target instanceof Element) || event.ctrlKey || event.metaKey) return;
  const link = event.target.closest("[data-open]");
  const card = event.target.closest(".card");
  const more = event.target.closest("[data-more]")?.getAttribute("data-more");
  const sort = event.target.closest(".sort");
  if (link) {
    event.preventDefault();
    open(link.getAttribute("data-open") ?? "");
  } else if (card) {
    /** @type {string[]} */
    const pods = JSON.parse(card.getAttribute("data-pods") ?? "[]");
    open(pods.length === 1 ? `pods/${pods[0]}` : card.closest("[data-key]")?.getAttribute("data-key") ?? "");
  } else if (more) {
    limits[more] += FIRST[more] * 5;
    show(more);
  } else if (sort instanceof HTMLElement) {
    sortBy(sort);
  }
}

/** @param {HTMLElement} button */
function sortBy(button) {
  const name = button.dataset.list ?? "";
  const column = Number(button.dataset.column);
  const before = sorting[name];
  const descending = before?.column === column && !before.descending;
  sorting[name] = { column, descending };
  const head = button.closest("tr");
  for (const each of head?.querySelectorAll("th") ?? []) each.setAttribute("aria-sort", "none");
  button.closest("th")?.setAttribute("aria-sort", descending ? "descending" : "ascending");
  show(name);
}

/** Marks all cards of the pods under the pointer. @param {Event} event */
function onOver(event) {
  const pods = event.target instanceof Element ? event.target.closest(".card")?.getAttribute("data-pods") : null;
  for (const each of document.querySelectorAll(".card.same")) each.classList.remove("same");
  if (!pods) return;
  for (const each of document.querySelectorAll(".card[data-pods]")) {
    each.classList.toggle("same", each.getAttribute("data-pods") === pods);
  }
}

function listenToPeople() {
  document.addEventListener("click", onClick);
  byId("nodes").addEventListener("keydown", onArrow);
  byId("nodes").addEventListener("pointerover", onOver);
  byId("filters").addEventListener("input", onFilter);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(onFilter));
  byId("dialog-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => { opened = ""; writeAddress({ open: "" }); });
}

function begin() {
  page.classList.add("scripted");
  readAddress();
  listenToPeople();
  const asked = new URLSearchParams(location.search);
  leadToLanguages(asked);
  if (isFile) {
    for (const name of LISTS) {
      for (const each of [...byId(name).children].filter((child) => child.hasAttribute("data-key"))) {
        const item = itemThere(each);
        lists.get(name)?.set(item.key, item);
      }
    }
    showAll();
  } else {
    takeToken();
    follow();
  }
  const wanted = asked.get("open");
  if (wanted && (isFile || token)) open(wanted);
}

begin();
