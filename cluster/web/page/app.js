// The page: which view is shown, which user is logged in, and whether the controller answers.

import { ask, follow, me, onConnection } from "./api.js";
import { h, text } from "./dom.js";
import { glance } from "./glance.js";
import { launches } from "./launches.js";
import { launch } from "./launch.js";
import { queue } from "./queue.js";
import { nodes } from "./nodes.js";
import { events } from "./events.js";
import { authorize } from "./login.js";
import { clockTime, time } from "./words.js";

const views = { launches, queue, nodes, events, launch };
const main = document.getElementById("main");
const lost = document.getElementById("lost");
let shown = null;

// app is what views know of the page.
export const app = {
  caller: null,
  mayChange() { return this.caller?.logged_in && this.caller.role !== "viewer"; },
  isAdmin() { return this.mayChange() && this.caller.role === "admin"; },
  say(what) { text(document.getElementById("said"), what); clearTimeout(this.quiet); this.quiet = setTimeout(() => this.say(""), 6000); },
};

// route shows the view that the address names.
function route() {
  const [, name = "launches", ...rest] = location.hash.slice(1).split("/");
  const view = views[name] ?? launches;
  shown?.close?.();
  main.replaceChildren();
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.hash === "#/" + name || (name === "launch" && link.hash === "#/launches");
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown = view(main, app, rest.map(decodeURIComponent));
  const title = main.querySelector("h1")?.textContent ?? "";
  document.title = title ? `${title} · phos` : "phos";
}

// identify asks which caller the page has.
export async function identify() {
  try {
    app.caller = await me();
  } catch (fault) {
    app.caller = null;
    if (fault.kind === "unknown caller") return unknown();
    if (fault.kind) app.say(fault.message);
    return false;
  }
  const caller = document.getElementById("caller");
  caller.disabled = false;
  text(caller, app.caller.logged_in ? `${app.caller.name} · log out` : `${app.caller.name} · log in`);
  return true;
}

// unknown asks a caller that the cluster does not know for a token.
function unknown() {
  const caller = document.getElementById("caller");
  caller.disabled = false;
  text(caller, "Log in");
  document.getElementById("glance").replaceChildren();
  shown?.close?.();
  shown = null;
  main.replaceChildren(h("div", { class: "empty" }, h("h1", {}, "This cluster does not know you yet"),
    h("p", {}, "Log in with your token. An administrator makes one with phos user add."),
    h("button", { type: "button", class: "primary", onclick: () => authorize(app, refresh) }, "Log in")));
  return false;
}

// refresh begins again after a login or logout.
async function refresh() {
  if (!await identify()) return;
  route();
  glance.load();
}

document.getElementById("caller").addEventListener("click", () => authorize(app, refresh));
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
window.addEventListener("hashchange", () => { if (app.caller) { route(); main.focus({ preventScroll: true }); scrollTo(0, 0); } });

let lastSeen = Date.now();
onConnection((is) => {
  lost.hidden = is;
  document.body.classList.toggle("offline", !is);
  if (is) { refresh(); return; }
  lastSeen = Date.now();
  text(lost, `The controller does not answer since ${clockTime(lastSeen)}. Launches go on; this page tries again by itself.`);
});

// told calls the views with what has changed; each asks for what it shows.
function told(data) {
  shown?.changed?.(data);
  glance.changed();
}

if (await identify()) {
  route();
}
glance.begin(app);
follow("follow", { changed: told }); // the first message is that all may have changed
setInterval(() => { if (!document.hidden) shown?.tick?.(); }, 1000);
setInterval(() => { if (document.body.classList.contains("offline")) ask("me").catch(() => {}); }, 2000);
