// The line above all views: how many launches there are, and what the GPUs do.

import { ask } from "./api.js";
import { attribute, h, text } from "./dom.js";
import { count } from "./words.js";

export const states = ["ours", "foreign", "cordoned", "bad", "unreachable", "free"];
export const stateNames = {
  ours: "in use by launches", foreign: "in use by others", cordoned: "cordoned", bad: "bad", unreachable: "unreachable",
  free: "free",
};

const box = document.getElementById("glance");
let timer = 0, parts = null;

// build makes the elements once.
function build() {
  const number = (name, href) => {
    const value = h("b", {}, "–");
    return { value, node: h("a", { class: "number", href }, value, h("span", {}, name)) };
  };
  const running = number("running", "#/launches"), waiting = number("waiting", "#/queue"), hosts = number("nodes", "#/nodes");
  const bars = Object.fromEntries(states.map((state) => [state, h("i", { class: `gpu-${state}` })]));
  const strip = h("div", { class: "strip", role: "img" }, ...Object.values(bars));
  const words = h("span", { class: "words" }, "GPUs");
  box.replaceChildren(running.node, waiting.node, hosts.node, h("a", { class: "gpus", href: "#/nodes" }, words, strip));
  return { running: running.value, waiting: waiting.value, hosts: hosts.value, bars, strip, words };
}

export const glance = {
  begin() {
    this.load();
    setInterval(() => { if (!document.hidden) this.load(); }, 5000);
  },
  changed() {
    clearTimeout(timer);
    timer = setTimeout(() => this.load(), 300);
  },
  async load() {
    let found;
    try { found = await ask("cluster"); } catch { return; }
    if (!parts?.strip.isConnected) parts = build();
    const of = (phase) => found.launches?.[phase] ?? 0;
    text(parts.running, String(of("running") + of("stopping")));
    text(parts.waiting, String(of("queued") + of("waiting")));
    text(parts.hosts, String(found.nodes));
    const total = Object.values(found.gpus).reduce((sum, n) => sum + n, 0);
    for (const state of states) parts.bars[state].style.flexGrow = found.gpus[state] ?? 0;
    const free = found.gpus.free ?? 0;
    text(parts.words, total ? `${free} of ${count(total, "GPU")} free` : "no GPU yet");
    attribute(parts.strip, "aria-label", states.filter((state) => found.gpus[state]).map((state) =>
      `${found.gpus[state]} ${stateNames[state]}`).join(", ") || "no GPUs");
    text(document.getElementById("about"),
      `cluster ${found.id} · ${found.version} · controller ${found.leader} · ${found.scheduler}`);
  },
};
