// The list of launches, each with the course of its replicas on one axis of time.

import { ask } from "./api.js";
import { axis, course, legend, Scale } from "./bars.js";
import { attribute, h, Rows, s, text } from "./dom.js";
import { Pager } from "./pager.js";
import { label, phaseOf, pill } from "./pill.js";
import { ago, count, now, span } from "./words.js";

const windows = [["auto", "Fit"], [900, "15 min"], [3600, "1 h"], [21600, "6 h"], [86400, "1 d"], [604800, "7 d"]];
const groups = [["active", "Active"], ["ended", "Ended"], ["all", "All"]];
const chosen = { group: "active", window: "auto" };
const rowHeight = 15;

// choice is a group of buttons of which one is pressed.
function choice(title, options, value, pick) {
  const buttons = options.map(([key, name]) => h("button", {
    type: "button", "aria-pressed": String(key === value), onclick: () => {
      for (const [i, [other]] of options.entries()) buttons[i].setAttribute("aria-pressed", String(other === key));
      pick(key);
    },
  }, name));
  return h("div", { class: "choice", role: "group", "aria-label": title }, ...buttons);
}

// scaleOf returns the part of time that shows some launches.
export function scaleOf(launches, window = "auto") {
  const to = Math.max(...launches.map((l) => l.ended || now()), 0) || now();
  const end = launches.some((l) => !l.ended) ? now() : to;
  if (window !== "auto") return new Scale(end - window * 1000, end);
  const begins = launches.map((l) => l.submitted).sort((a, b) => a - b);
  const from = begins[0] ?? end - 60_000;
  return new Scale(from - (end - from) * 0.01, end + (end - from) * 0.015);
}

// row is a launch of the list.
function row(first, scale) {
  const name = h("a", { href: `#/launch/${encodeURIComponent(first.id)}` }), owner = h("span", { class: "sub" });
  const state = pill(), gpus = h("td", { class: "num", "data-name": "GPUs" }), age = h("td", { class: "num", "data-name": "age" });
  const restarts = h("td", { class: "num", "data-name": "restarts" }), reason = h("span", { class: "sub" });
  const svg = s("svg", { class: "course", role: "img", width: "100%" });
  const more = h("span", { class: "sub" });
  return {
    node: h("tr", {}, h("th", { scope: "row" }, name, owner), h("td", { class: "state" }, state.node, reason),
      gpus, age, restarts, h("td", { class: "bars" }, svg, more)),
    update(l) {
      this.launch = l;
      text(name, label(l));
      text(owner, `${l.number} · ${l.owner}`);
      state.update(phaseOf(l));
      text(reason, l.phase === "running" ? "" : l.reason ?? "");
      text(gpus, l.gpus ? String(l.gpus) : l.wanted ? `0 of ${l.wanted}` : "–");
      text(restarts, String(l.restarts));
      text(more, l.total > l.replicas.length ? `and ${count(l.total - l.replicas.length, "replica")} more` : "");
      this.draw();
    },
    draw() {
      const l = this.launch;
      text(age, l.ended ? span(l.ended - l.submitted) : span(now() - l.submitted));
      attribute(age, "title", l.ended ? `ended ${ago(l.ended)}` : `submitted ${ago(l.submitted)}`);
      course(svg, l.replicas, scale(), rowHeight);
    },
  };
}

export function launches(main, app) {
  let list = [], closed = false, asked = 0;
  const axisSVG = s("svg", { class: "axis", width: "100%", height: 16, "aria-hidden": "true" });
  const body = h("tbody");
  const empty = h("p", { class: "empty", hidden: true });
  const scale = () => scaleOf(list, chosen.window);
  const rows = new Rows(body, (l) => l.id, (l) => row(l, scale));
  const pager = new Pager(load, { back: "Newer", next: "Older" });
  const draw = () => { axis(axisSVG, scale()); for (const each of rows.known.values()) each.draw(); };
  main.append(h("div", { class: "bar" }, h("h1", {}, "Launches"),
    choice("Which launches", groups, chosen.group, (key) => { chosen.group = key; pager.first(); load(); }),
    choice("Which time", windows, chosen.window, (key) => { chosen.window = key; draw(); })),
  h("table", { class: "launches" }, h("thead", {}, h("tr", {},
    ...["Launch", "State", "GPUs", "Age", "Restarts"].map((name, i) => h("th", { scope: "col", class: i > 1 ? "num" : "" }, name)),
    h("th", { scope: "col", class: "bars" }, h("span", { class: "hidden" }, "Course"), axisSVG))), body),
  empty, pager.node, legend());

  async function load() {
    const number = ++asked;
    let found;
    try {
      found = await ask(`launches?group=${chosen.group}${pager.cursor ? `&before=${pager.cursor}` : ""}`);
    } catch (fault) {
      if (fault.kind) app.say(fault.message);
      return;
    }
    if (closed || number !== asked) return;
    list = found.launches;
    rows.show(list);
    draw();
    empty.hidden = list.length > 0;
    text(empty, chosen.group === "active" ? "No launch waits or runs. Start one with: phos launch -- COMMAND" : "No launches.");
    pager.shown(list.length ? `${list[0].number} to ${list.at(-1).number}` : "", found.more ? list.at(-1).number : undefined);
  }
  load();
  return { changed: load, tick: draw, close() { closed = true; } };
}
