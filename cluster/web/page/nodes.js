// Nodes as grids of their GPUs.

import { ask } from "./api.js";
import { attribute, h, Rows, text } from "./dom.js";
import { stateNames, states } from "./glance.js";
import { confirm } from "./login.js";
import { Pager } from "./pager.js";
import { pill } from "./pill.js";
import { ago, bytes, count } from "./words.js";

const lookAgain = 3000;
const glyphs = { free: "", ours: "", foreign: "!", cordoned: "–", bad: "×", unreachable: "?" };

// cell is a GPU. One that a launch of the caller has is a link to it.
function cell() {
  const node = h("li"), link = h("a"), box = h("span");
  return {
    node,
    update(g) {
      const holder = g.name ? `, ${g.name}` : "";
      const words = `GPU ${g.index}: ${g.model}, ${stateNames[g.state]}${holder}${g.reason ? `, ${g.reason}` : ""}`;
      const shown = g.launch ? link : box;
      if (node.firstChild !== shown) node.replaceChildren(shown);
      attribute(shown, "class", `cell gpu-${g.state}`);
      attribute(shown, "title", words);
      attribute(shown, "aria-label", words);
      if (g.launch) attribute(link, "href", `#/launch/${encodeURIComponent(g.launch)}`);
      else attribute(box, "role", "img");
      text(shown, glyphs[g.state] || String(g.index));
    },
  };
}

// models says which GPUs a node has.
function models(gpus) {
  const counts = new Map();
  for (const g of gpus) {
    const name = `${g.model}${g.memory ? `, ${bytes(g.memory)}` : ""}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, n]) => `${n} × ${name}`).join("; ") || "no GPU";
}

// ranges writes numbers as "0–3, 6".
function ranges(numbers) {
  const parts = [];
  for (const n of numbers) {
    const last = parts.at(-1);
    if (last && n === last[1] + 1) last[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}

// holders are the launches that have GPUs of a node. Those of others have no name.
function holders(gpus) {
  const held = new Map();
  for (const g of gpus.filter((g) => g.state === "ours" || g.launch)) {
    const one = held.get(g.launch ?? "") ?? { id: g.launch ?? "", name: g.name ?? "launches of others", gpus: [] };
    one.gpus.push(g.index);
    held.set(one.id, one);
  }
  return [...held.values()];
}

// holder is a launch that has GPUs.
function holder({ id }) {
  const name = id ? h("a", { href: `#/launch/${encodeURIComponent(id)}` }) : h("span"), has = h("span", { class: "sub" });
  return {
    node: h("li", {}, name, " ", has),
    update(one) {
      text(name, one.name);
      text(has, `GPU${one.gpus.length === 1 ? "" : "s"} ${ranges(one.gpus)}`);
    },
  };
}

// card is a node.
function card(app, load) {
  const name = h("h2"), state = pill(), has = h("p", { class: "sub" }), place = h("p", { class: "sub" });
  const trouble = h("p", { class: "fault" }), cells = h("ul", { class: "cells" });
  const button = h("button", { type: "button", hidden: true });
  const rows = new Rows(cells, (g) => g.index, cell);
  const users = h("ul", { class: "holders" }), userRows = new Rows(users, (one) => one.id, holder);
  const result = {
    node: h("li", { class: "node" }, h("div", { class: "bar" }, name, state.node, button), cells, users, has, place, trouble),
    update(n) {
      this.shown = n;
      text(name, n.name);
      state.update(n.state !== "ready" ? n.state : n.draining ? "draining" : n.cordoned ? "cordoned" : "ready");
      rows.show(n.gpus);
      userRows.show(holders(n.gpus));
      attribute(cells, "aria-label", `GPUs of ${n.name}`);
      text(has, models(n.gpus));
      text(place, [n.place, count(n.cpus, "CPU"), bytes(n.memory), n.labels?.join(" "), n.state === "ready" ? "" : `seen ${ago(n.seen)}`].filter(Boolean).join(" · "));
      text(trouble, [n.reason, n.trouble].filter(Boolean).join("; "));
      button.hidden = !app.isAdmin();
      text(button, n.cordoned ? "Uncordon" : "Cordon");
      attribute(button, "aria-label", `${n.cordoned ? "Uncordon" : "Cordon"} ${n.name}`);
    },
  };
  button.addEventListener("click", async () => {
    const n = result.shown, what = n.cordoned ? "uncordon" : "cordon";
    const body = n.cordoned ? "It may get launches again." : "It gets no new launches; those on it stay.";
    if (!await confirm(`${n.cordoned ? "Uncordon" : "Cordon"} ${n.name}?`, body, what)) return;
    try { await ask(`nodes/${encodeURIComponent(n.name)}/${what}`, {}); } catch (fault) { app.say(fault.message); }
    load();
  });
  return result;
}

export function nodes(main, app) {
  let closed = false, loaded = 0;
  const list = h("ul", { class: "nodes" });
  const empty = h("p", { class: "empty", hidden: true }, "No node has joined. phos node token prints how machines do.");
  const rows = new Rows(list, (n) => n.name, () => card(app, load));
  const pager = new Pager(load, { back: "Back", next: "More" });
  const counts = Object.fromEntries(states.map((state) => [state, h("b", {}, "0")]));
  main.append(h("div", { class: "bar" }, h("h1", {}, "Nodes"),
    h("ul", { class: "legend", "aria-label": "GPUs by state" }, ...states.map((state) =>
      h("li", {}, h("i", { class: `cell small gpu-${state}`, "aria-hidden": "true" }, glyphs[state]), counts[state], ` ${stateNames[state]}`)))),
  empty, list, pager.node);

  async function load() {
    loaded = Date.now();
    let found;
    try { found = await ask(`nodes?skip=${pager.cursor ?? 0}`); } catch (fault) {
      if (fault.kind) app.say(fault.message);
      return;
    }
    if (closed) return;
    rows.show(found.nodes);
    empty.hidden = found.total > 0;
    for (const state of states) text(counts[state], String(found.gpus[state] ?? 0));
    const end = found.skip + found.nodes.length;
    pager.shown(found.total ? `${found.skip + 1} to ${end} of ${found.total}` : "", end < found.total ? end : undefined);
  }
  load();
  return { changed: load, tick() { if (Date.now() - loaded > lookAgain) load(); }, close() { closed = true; } };
}
