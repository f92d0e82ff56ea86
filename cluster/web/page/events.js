// What has happened, the newest first, as it happens.

import { follow } from "./api.js";
import { h } from "./dom.js";
import { time } from "./words.js";

const most = 500;

// eventList follows events. The stream may repeat some when it comes back.
export function eventList(path, links) {
  const known = new Set();
  const list = h("ol", { class: "events" });
  const empty = h("p", { class: "empty" }, "Nothing has happened yet.");
  let last = "";
  const stream = follow(path, {
    event(e, message) {
      last = message.lastEventId;
      if (known.has(e.key)) return;
      known.add(e.key);
      empty.hidden = true;
      const subject = e.node ? h("a", { href: "#/nodes" }, e.node)
        : links && e.launch ? h("a", { href: `#/launch/${encodeURIComponent(e.launch)}` }, e.launch) : null;
      list.prepend(h("li", {}, h("time", { datetime: new Date(e.at).toISOString() }, time(e.at)),
        h("b", { class: "kind", "data-kind": e.kind }, e.kind), h("span", { class: "what" }, subject, subject && e.text ? " " : "", e.text)));
      if (list.childElementCount > most) list.lastChild.remove();
    },
  });
  return { node: h("div", {}, empty, list), close() { stream.close(); }, get last() { return last; } };
}

export function events(main) {
  const all = eventList("events", true);
  main.append(h("div", { class: "bar" }, h("h1", {}, "Events")), all.node);
  return { close() { all.close(); } };
}
