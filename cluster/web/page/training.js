// How a launch trains with phos.pipeline: its pipelines, an iteration of the slowest one, and which
// ranks came and went.

import { ask } from "./api.js";
import { attribute, h, Rows, s, text } from "./dom.js";
import { ago, bytes, count, now, span, time } from "./words.js";

const rowHeight = 16, width = 1000;
// How often a training is asked, and a launch that does not train.
const often = 3000, seldom = 30_000;

// took is a time in seconds as people read it.
const took = (seconds) => (seconds >= 60 ? span(seconds * 1000) : seconds >= 1 ? `${seconds.toFixed(2)} s` : `${(seconds * 1000).toFixed(1)} ms`);

// passes draws an iteration: a row for each stage, forward and backward passes over time.
function passes(svg, t) {
  const stages = t.passes.reduce((most, pass) => Math.max(most, pass.stage + 1), 0);
  const end = t.passes.reduce((most, pass) => Math.max(most, pass.to), 1);
  attribute(svg, "viewBox", `0 0 ${width} ${stages * rowHeight}`);
  attribute(svg, "height", stages * rowHeight);
  svg.replaceChildren(...t.passes.map((pass) =>
    s("rect", {
      class: `${pass.backward ? "backward" : "forward"}${pass.microbatch % 2 ? " odd" : ""}`,
      x: (width * pass.from) / end, y: pass.stage * rowHeight + 1, height: rowHeight - 2, width: (width * (pass.to - pass.from)) / end,
    }, s("title", {}, `stage ${pass.stage}, microbatch ${pass.microbatch}, ${pass.backward ? "backward" : "forward"}: ${took((pass.to - pass.from) / 1e9)}`))));
}

// stage says which rank has which layers, and how much of a step it computes.
function stage(rank) {
  const share = rank.share ? `, computes ${Math.round(100 * rank.share)} %` : "";
  return h("li", {}, h("b", {}, `rank ${rank.rank}`), ` ${rank.host}${rank.replica ? ` (${rank.replica})` : ""}`,
    h("span", { class: "sub" }, ` layers ${rank.first}–${rank.last}${share}`));
}

// pipelineRow is a pipeline with its stages.
function pipelineRow() {
  const name = h("b"), stages = h("ol", { class: "stages" });
  return {
    node: h("li", {}, name, stages),
    update([number, pipeline]) {
      text(name, `Pipeline ${number}: ${count(pipeline.microbatches, "microbatch", "microbatches")}`);
      stages.replaceChildren(...pipeline.stages.map(stage));
    },
  };
}

// change says which ranks came or went, and what that took.
const change = (c) => h("li", {}, h("time", { datetime: new Date(c.at).toISOString() }, time(c.at)),
  h("b", { class: "kind" }, `step ${c.step}`),
  h("span", { class: "what" }, `${c.text}: ${took(c.seconds)}, ${bytes(c.bytes)} copied, ${count(c.microbatches, "microbatch", "microbatches")} to compute`));

// headline says how far the training is.
function headline(t) {
  const parts = [`step ${t.step} of ${t.steps}`];
  if (t.loss !== null) parts.push(`loss ${t.loss.toPrecision(5)}`);
  parts.push(`a step takes ${t.seconds ? took(t.seconds) : "?"}, by the plan ${took(t.planned_ns / 1e9)}`);
  if (t.seconds) parts.push(`${span((t.steps - t.step) * t.seconds * 1000)} left`);
  parts.push(`${t.faults} of the ranks may be lost at once${t.wanted_faults > t.faults ? `, ${t.wanted_faults} are wanted` : ""}`);
  if (t.spare.length) parts.push(`spare: ${t.spare.map((rank) => `rank ${rank.rank}`).join(", ")}`);
  if (t.more) parts.push(`${count(t.more, "rank")} not shown`);
  if (t.age_ms > 20_000) parts.push(`said ${ago(now() - t.age_ms)}`);
  return parts.join(" · ");
}

// training is the section of a launch that trains; it is hidden for others.
export function training(path) {
  const said = h("p", { class: "sub" }), list = h("ul", { class: "pipelines" }), changes = h("ol", { class: "events" });
  const chart = s("svg", { class: "passes", role: "img", width: "100%", preserveAspectRatio: "none", "aria-label": "One iteration of the slowest pipeline" });
  const caption = h("p", { class: "sub" });
  const node = h("section", { class: "training", "aria-label": "Training", hidden: true }, h("h2", {}, "Training"), said, list,
    chart, caption, changes);
  const rows = new Rows(list, ([number]) => String(number), pipelineRow);
  let next = 0, closed = false;

  async function load() {
    next = now() + seldom;
    let found;
    try { found = await ask(path + "/training"); } catch { return; /* the page shows what it has */ }
    if (closed) return;
    node.hidden = found === null;
    if (found === null) return;
    next = now() + often;
    text(said, headline(found));
    rows.show(found.pipelines.map((pipeline, number) => [number, pipeline]));
    passes(chart, found);
    text(caption, found.passes.length ? `One iteration of pipeline ${found.slowest} by the plan: a row for each stage, forward passes blue, backward passes orange` : "");
    changes.replaceChildren(...found.events.map(change));
  }

  return {
    node,
    // update asks again while the launch runs.
    update(running) {
      if (!running) node.hidden = true;
      else if (now() >= next) load();
    },
    close() { closed = true; },
  };
}
