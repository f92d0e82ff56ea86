// The course of replicas, drawn over time.

import { s } from "./dom.js";
import { now, span, tick, time } from "./words.js";

const shapes = {
  checkpoint: "M0 -5 L4 0 L0 5 L-4 0 Z",
  unsaved: "M-1 -5h2v6h-2z M-1 2.5h2v2.5h-2z",
  restore: "M-4 4 L0 -5 L4 4 Z",
  move: "M-4 -3h4v-3l5 6l-5 6v-3h-4z",
  restart: "M0 -4a4 4 0 1 0 4 4h-2a2 2 0 1 1 -2 -2z",
  failed: "M-4 -2.5L-2.5 -4L0 -1.5L2.5 -4L4 -2.5L1.5 0L4 2.5L2.5 4L0 1.5L-2.5 4L-4 2.5L-1.5 0Z",
  done: "M-4 0L-2.5 -1.5L-1 0L2.5 -3.5L4 -2L-1 3Z",
};

export const kinds = {
  waiting: "waits for another launch", queued: "queued", starting: "starting", running: "running",
  stopping: "stopping", suspended: "suspended",
};
export const markNames = {
  checkpoint: "checkpoint", unsaved: "not saved", restore: "restore", move: "moved", restart: "restarted",
  failed: "failed", done: "done",
};

const percent = (part) => `${(100 * part).toFixed(3)}%`;

// Scale is the part of time that is shown.
export class Scale {
  constructor(from, to) { Object.assign(this, { from, to: Math.max(to, from + 1000) }); }
  at(ms) { return (ms - this.from) / (this.to - this.from); }
  inside(ms) { return Math.min(1, Math.max(0, this.at(ms))); }
}

// bar draws a replica into an SVG of a height; y is the middle of the bar.
function bar(replica, scale, y, thick) {
  const parts = [];
  for (const seg of replica.segments) {
    const to = seg.to || Math.min(now(), scale.to);
    if (to < scale.from || seg.from > scale.to) continue;
    const x = scale.inside(seg.from), wide = Math.max(scale.inside(to) - x, 0);
    const low = seg.kind === "queued" || seg.kind === "waiting" || seg.kind === "suspended";
    const height = low ? Math.max(3, thick * 0.4) : thick;
    parts.push(s("rect", {
      class: `seg ${seg.kind}`, x: percent(x), width: percent(wide), y: y - height / 2, height, rx: Math.min(3, height / 2),
    }, s("title", {}, `${kinds[seg.kind]}${seg.node ? ` on ${seg.node}` : ""}: ${span(to - seg.from)}, from ${time(seg.from)}`)));
  }
  for (const mark of replica.marks ?? []) {
    if (mark.at < scale.from || mark.at > scale.to) continue;
    const size = Math.min(1.15, thick / 10);
    parts.push(s("svg", { x: percent(scale.inside(mark.at)), y, class: "at" },
      s("g", { transform: `scale(${size})`, class: `mark ${mark.kind}` },
        s("path", { d: shapes[mark.kind], class: "halo" }), s("path", { d: shapes[mark.kind] }),
        s("title", {}, `${markNames[mark.kind]} at ${time(mark.at)}${mark.text ? `: ${mark.text}` : ""}`))));
  }
  return parts;
}

// describe says in words what a bar shows.
export function describe(replica) {
  const parts = replica.segments.slice(-4).map((seg) =>
    `${kinds[seg.kind]} ${span((seg.to || now()) - seg.from)}${seg.node ? ` on ${seg.node}` : ""}`);
  const marks = (replica.marks ?? []).slice(-3).map((mark) => `${markNames[mark.kind]} ${time(mark.at)}`);
  return `${replica.name}: ${[...parts, ...marks].join(", ") || "nothing yet"}`;
}

// course draws replicas below each other into an SVG, which stays the same element.
export function course(svg, replicas, scale, row) {
  const height = Math.max(row, replicas.length * row);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-label", replicas.map(describe).join("; "));
  svg.replaceChildren(...grid(scale, height), ...replicas.flatMap((r, i) => bar(r, scale, (i + 0.5) * row, row * 0.62)));
}

const steps = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800].map((n) => n * 1000);

// ticks are round times of a scale, at most four.
export function ticks(scale) {
  const step = steps.find((n) => (scale.to - scale.from) / n <= 4.5) ?? 2419200000;
  const offset = new Date(scale.from).getTimezoneOffset() * 60000;
  const found = [];
  for (let at = Math.ceil((scale.from - offset) / step) * step + offset; at < scale.to; at += step) found.push(at);
  return { found, wide: step >= 43200000, fine: step < 60000 };
}

const grid = (scale, height) => ticks(scale).found.map((at) =>
  s("line", { x1: percent(scale.at(at)), x2: percent(scale.at(at)), y1: -40, y2: height + 40, class: "tick" }));

// axis draws the times above the bars.
export function axis(svg, scale) {
  const { found, wide, fine } = ticks(scale);
  svg.replaceChildren(...found.map((at) => {
    const x = scale.at(at);
    const anchor = x < 0.08 ? "start" : x > 0.92 ? "end" : "middle";
    return s("text", { x: percent(x), y: 12, "text-anchor": anchor }, fine ? time(at) : tick(at, wide));
  }));
}

// legend is what the colours and marks mean.
export function legend() {
  const box = document.createElement("ul");
  box.className = "legend";
  box.setAttribute("aria-label", "Legend");
  const add = (drawing, name) => {
    const li = document.createElement("li");
    li.append(drawing, name);
    box.append(li);
  };
  for (const kind of ["queued", "starting", "running", "suspended", "stopping"]) {
    const low = kind === "queued" || kind === "suspended";
    add(s("svg", { width: 18, height: 10, "aria-hidden": "true" },
      s("rect", { class: `seg ${kind}`, width: 18, height: low ? 4 : 9, y: low ? 3 : 0.5, rx: 2 })), kind);
  }
  for (const kind of ["checkpoint", "unsaved", "restore", "move", "restart", "failed", "done"]) {
    add(s("svg", { width: 12, height: 12, viewBox: "-6 -6 12 12", "aria-hidden": "true" },
      s("g", { class: `mark ${kind}` }, s("path", { d: shapes[kind] }))), markNames[kind]);
  }
  return box;
}
