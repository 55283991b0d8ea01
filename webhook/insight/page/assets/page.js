//@ts-check
// Fetches the contents of the page again every two seconds, and changes only the elements that differ.
// The server writes all markup. It is parsed by XMLHttpRequest, so that no text ever becomes markup here.

const SECONDS = 2;
const TOKEN = "gpu-topology-token";
const find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const dialog = /** @type {HTMLDialogElement} */ (find("dialog"));
const query = /** @type {HTMLInputElement} */ (find("query"));
let token = "";
let version = "";
let lastHeard = new Date();
let opener = /** @type {Element | null} */ (null);
let timer = 0;

/** @type {Record<number, string>} */
const REASONS = {
  0: "the server does not answer. Is gpu-topology page still running?",
  403: "the token is not that of this server. Open the address that gpu-topology page printed last",
};

/** Fetches a document. @param {string} path @param {string} known the version that the page has
 * @returns {Promise<XMLHttpRequest>} */
function ask(path, known = "") {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("GET", path);
    request.responseType = "document";
    request.timeout = 40_000;
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    if (known) request.setRequestHeader("If-None-Match", known);
    request.onloadend = () => resolve(request);
    request.send();
  });
}

/** @param {number} status */
const reason = (status) => REASONS[status] ?? `the server answered with status ${status}`;

/** Makes a node equal to another one and keeps what does not differ, so that focus and scrolling stay.
 * @param {ChildNode} old @param {ChildNode} fresh */
function renew(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (!(old instanceof Element && fresh instanceof Element) || old.nodeName !== fresh.nodeName) {
    old.replaceWith(document.adoptNode(fresh));
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const wanted = [...fresh.childNodes];
  const keys = new Set(wanted.map(keyOf));
  for (const each of [...old.childNodes]) if (keyOf(each) && !keys.has(keyOf(each))) each.remove();
  const kept = new Map([...old.childNodes].map((each) => [keyOf(each), each]));
  wanted.forEach((child, position) => {
    const there = old.childNodes[position] ?? null;
    const key = keyOf(child);
    const match = key ? kept.get(key) : there && !keyOf(there) ? there : null;
    if (!match) old.insertBefore(document.adoptNode(child), there);
    else {
      if (match !== there) old.insertBefore(match, there);
      renew(match, child);
    }
  });
  while (old.childNodes.length > wanted.length) old.lastChild?.remove();
}

/** @param {Node} node */
const keyOf = (node) => (node instanceof Element ? node.getAttribute("data-key") : null);

/** @param {string} why */
function notLive(why) {
  find("overview").dataset.live = "no";
  const since = lastHeard.toLocaleTimeString("en", { hour12: false });
  const text = `Not live since ${since}: ${why}`;
  if (find("banner").textContent !== text) find("banner").textContent = text;
  find("banner").hidden = false;
}

async function update() {
  clearTimeout(timer);
  const asked = query.value;
  const answer = await ask(`/overview?q=${encodeURIComponent(asked)}`, version);
  if (asked !== query.value) return;
  if (answer.status === 200 && answer.responseXML) {
    const focused = document.activeElement;
    renew(find("overview"), answer.responseXML.querySelector("#overview") ?? answer.responseXML.body);
    if (focused instanceof HTMLElement && focused.isConnected) focused.focus({ preventScroll: true });
    version = answer.getResponseHeader("ETag") ?? "";
    performance.mark("gpu-topology-shown");
  }
  if (answer.status === 200 || answer.status === 304) {
    if (!find("banner").hidden) version = "";
    find("banner").hidden = true;
    lastHeard = new Date();
  } else if (answer.status !== 204) notLive(reason(answer.status));
  timer = setTimeout(update, SECONDS * 1000);
}

/** Shows the details that the address names, in a dialog. */
async function open() {
  const key = decodeURIComponent(location.hash.slice(1));
  if (!/^(pods|nodes)\//.test(key)) return dialog.close();
  find("dialog-title").textContent = key.slice(key.indexOf("/") + 1);
  find("detail").replaceChildren("Looking…");
  if (!dialog.open) {
    opener = document.activeElement;
    dialog.showModal();
  }
  const answer = await ask(`/detail?key=${encodeURIComponent(key)}`);
  if (decodeURIComponent(location.hash.slice(1)) !== key) return;
  const found = answer.status === 200 && answer.responseXML?.body.firstElementChild;
  const missing = answer.status === 404 ? "There is nothing of that name any more." : `This cannot be shown: ${reason(answer.status)}`;
  find("detail").replaceChildren(found ? document.adoptNode(found) : missing);
}

function begin() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    sessionStorage.setItem(TOKEN, found);
    history.replaceState(null, "", location.pathname + location.search);
  }
  token = found ?? sessionStorage.getItem(TOKEN) ?? "";
  query.value = new URLSearchParams(location.search).get("q") ?? "";
  query.addEventListener("input", () => {
    history.replaceState(null, "", query.value ? `?q=${encodeURIComponent(query.value)}` : location.pathname);
    update();
  });
  find("search").addEventListener("submit", (event) => event.preventDefault());
  find("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    history.replaceState(null, "", location.pathname + location.search);
    if (opener instanceof HTMLElement) opener.focus({ preventScroll: true });
  });
  window.addEventListener("hashchange", open);
  if (!token) return notLive("the address lacks its token. Open the whole address that gpu-topology page printed");
  update();
  open();
}

begin();
