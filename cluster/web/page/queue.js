// Launches that wait, the oldest first, and why in words.

import { ask } from "./api.js";
import { h, Rows, text } from "./dom.js";
import { Pager } from "./pager.js";
import { label, pill } from "./pill.js";
import { ago, count, now, span } from "./words.js";

const pageSize = 10;
const lookAgain = 10_000;

// entry is a launch that waits.
function entry(first) {
  const name = h("a", { href: `#/launch/${encodeURIComponent(first.id)}` }), facts = h("span", { class: "sub" });
  const state = pill(), reasons = h("ul", { class: "reasons" }, h("li", { class: "sub" }, "asking the scheduler …"));
  return {
    node: h("li", {}, h("div", { class: "bar" }, h("h2", {}, name), state.node, facts), reasons),
    update(l) {
      this.launch = l;
      text(name, label(l));
      state.update(l.phase);
      this.draw();
    },
    draw() {
      const l = this.launch;
      text(facts, `${l.owner} · ${count(l.wanted, "GPU")} · waits for ${span(now() - l.submitted)}${l.priority ? ` · priority ${l.priority}` : ""}`);
    },
    async explain() {
      let found;
      try { found = await ask(`launches/${encodeURIComponent(this.launch.id)}/why`); } catch { return; }
      const said = found.reasons.length ? found.reasons : ["It has just been submitted."];
      if (said.join("\n") === this.said) return;
      this.said = said.join("\n");
      reasons.replaceChildren(...said.map((reason) => h("li", {}, reason)));
    },
  };
}

export function queue(main, app) {
  let closed = false, explained = 0, asked = 0;
  const list = h("ol", { class: "queue" }), empty = h("p", { class: "empty", hidden: true }, "Nothing waits.");
  const rows = new Rows(list, (l) => l.id, entry);
  const pager = new Pager(load, { back: "Earlier", next: "Later" });
  main.append(h("div", { class: "bar" }, h("h1", {}, "Queue")), empty, list, pager.node);

  // explain asks for one answer after the other: each costs the scheduler a look ahead.
  async function explain() {
    explained = Date.now();
    const began = explained;
    for (const each of rows.known.values()) {
      if (closed || began !== explained) return;
      await each.explain();
    }
  }

  async function load() {
    const number = ++asked;
    let found;
    try {
      found = await ask(`launches?group=queue&limit=${pageSize}&after=${pager.cursor ?? 0}`);
    } catch (fault) {
      if (fault.kind) app.say(fault.message);
      return;
    }
    if (closed || number !== asked) return;
    rows.show(found.launches);
    empty.hidden = found.launches.length > 0;
    pager.shown(found.launches.length ? `oldest ${ago(found.launches[0].submitted)}` : "", found.more ? found.launches.at(-1).number : undefined);
    explain();
  }
  load();
  return {
    changed: load,
    tick() {
      for (const each of rows.known.values()) each.draw();
      if (Date.now() - explained > lookAgain) explain();
    },
    close() { closed = true; },
  };
}
