// One launch: its replicas over time, why it waits, what it prints, and what has happened to it.

import { ask } from "./api.js";
import { axis, course, legend } from "./bars.js";
import { h, Rows, s, text } from "./dom.js";
import { eventList } from "./events.js";
import { scaleOf } from "./launches.js";
import { logs } from "./logs.js";
import { act, acts, label, phaseOf, pill } from "./pill.js";
import { training } from "./training.js";
import { ago, count, now, span, time } from "./words.js";

// facts are what is said of a launch, by name; nothing stands for what is unknown.
function facts(l) {
  return [
    ["Owner", l.owner], ["Number", String(l.number)], ["Priority", l.priority ? String(l.priority) : ""],
    ["GPUs", l.gpus ? String(l.gpus) : l.wanted ? `${l.wanted} wanted` : "none"],
    ["Submitted", `${time(l.submitted)} (${ago(l.submitted)})`],
    ["First started", l.started ? `${time(l.started)}, after ${span(l.started - l.submitted)}` : "not yet"],
    ["Ended", l.ended ? `${time(l.ended)}, exit status ${l.status}` : ""],
    ["Last checkpoint", l.checkpoint ? ago(l.checkpoint) : "none"],
    ["Restarts", String(l.restarts)], ["Reason", l.reason ?? ""], ["Description", l.description ?? ""],
  ].filter(([, value]) => value);
}

// fact is a row of that.
function fact([name]) {
  const value = h("dd");
  return { node: h("div", {}, h("dt", {}, name), value), update([, said]) { text(value, said); } };
}

// replicaRow is a replica with its bar.
function replicaRow(scale) {
  const name = h("b"), where = h("span", { class: "sub" }), state = pill();
  const svg = s("svg", { class: "course", role: "img", width: "100%" });
  return {
    node: h("li", {}, h("div", { class: "replica" }, h("span", {}, name, " ", state.node), where), svg),
    update(r) {
      this.replica = r;
      text(name, r.name);
      state.update(r.phase);
      const gpus = r.gpus?.length ? `, ${r.gpus.length === 1 ? "GPU" : "GPUs"} ${r.gpus.join(", ")}` : "";
      text(where, [r.node ? `${r.node}${gpus}` : "", r.attempt > 1 ? `attempt ${r.attempt}` : "", r.exit].filter(Boolean).join(" · "));
      this.draw();
    },
    draw() { course(svg, [this.replica], scale(), 24); },
  };
}

export function launch(main, app, [id]) {
  let shown = null, closed = false;
  const path = `launches/${encodeURIComponent(id)}`;
  const title = h("h1", {}, "Launch"), state = pill(), buttons = h("div", { class: "buttons" });
  const factList = h("dl", { class: "facts" }), replicaList = h("ul", { class: "replicas" });
  const reasons = h("ul"), why = h("section", { class: "why", "aria-label": "Why it waits", hidden: true }, h("h2", {}, "Why it waits"), reasons);
  const axisSVG = s("svg", { class: "axis", width: "100%", height: 16, "aria-hidden": "true" });
  const scale = () => scaleOf([shown]);
  const factRows = new Rows(factList, ([name]) => name, fact);
  const rows = new Rows(replicaList, (r) => r.name, () => replicaRow(scale));
  const trains = training(path);
  const output = logs(app, path);
  const history = eventList(`events?launch=${encodeURIComponent(id)}`, false);
  main.append(h("div", { class: "bar" }, h("a", { class: "back", href: "#/launches" }, "All launches")),
    h("div", { class: "bar" }, title, state.node, buttons), why,
    h("section", { "aria-label": "Replicas" }, axisSVG, replicaList, legend()), trains.node, factList,
    output.node, h("section", {}, h("h2", {}, "Events"), history.node));

  // showWhy asks for reasons while the launch has no place.
  async function showWhy() {
    const waits = shown.phase === "queued" || shown.phase === "waiting" || shown.replicas.some((r) => r.phase === "pending" || r.phase === "starting");
    why.hidden = !waits || shown.phase === "ended";
    if (why.hidden) return;
    try {
      const found = await ask(path + "/why");
      if (!closed) reasons.replaceChildren(...found.reasons.map((reason) => h("li", {}, reason)));
    } catch { /* the page shows what it has */ }
  }

  async function load() {
    let found;
    try { found = await ask(path); } catch (fault) {
      if (fault.kind === "not found" && !closed) text(title, fault.message);
      return;
    }
    if (closed) return;
    shown = found;
    text(title, label(found));
    document.title = `${label(found)} · phos`;
    state.update(phaseOf(found));
    factRows.show(facts(found));
    rows.show(found.replicas);
    axis(axisSVG, scale());
    output.parts(found.replicas.map((r) => r.name));
    trains.update(found.phase === "running");
    showButtons(found);
    showWhy();
  }

  function showButtons(found) {
    const wanted = app.mayChange() ? acts(found) : [];
    if (buttons.dataset.acts === wanted.join()) return;
    buttons.dataset.acts = wanted.join();
    buttons.replaceChildren(...wanted.map((what) =>
      h("button", { type: "button", class: what === "stop" ? "danger" : "", onclick: () => act(app, shown, what) },
        what[0].toUpperCase() + what.slice(1))));
  }

  load();
  return {
    changed(data) { if (data.all || data.ids?.includes(shown?.id ?? id)) load(); },
    tick() {
      if (!shown || shown.ended) return;
      axis(axisSVG, scale());
      for (const each of rows.known.values()) each.draw();
      factRows.show(facts(shown));
      trains.update(shown.phase === "running");
    },
    close() { closed = true; trains.close(); output.close(); history.close(); },
  };
}
