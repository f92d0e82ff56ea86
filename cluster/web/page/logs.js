// What the processes of a launch print, as they print it.

import { follow } from "./api.js";
import { h, text } from "./dom.js";
import { clockTime, count } from "./words.js";

const mostLines = 4000;
const colours = 6;

// colourOf gives each replica a colour that stays.
function colourOf(name) {
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 9973;
  return sum % colours;
}

export function logs(app, path) {
  let stream = null, part = "", fresh = true, known = "", total = 0;
  const box = h("div", { class: "log", role: "log", tabindex: "0", "aria-label": "Output", "aria-live": "off" });
  const state = h("span", { class: "sub", role: "status" });
  const at = h("input", { type: "checkbox", id: "follow", checked: true });
  const select = h("select", { id: "part" }, h("option", { value: "" }, "all replicas"));
  const node = h("section", {}, h("div", { class: "bar" }, h("h2", {}, "Output"),
    h("label", { for: "part", class: "hidden" }, "Replica"), select,
    h("span", { class: "check" }, at, h("label", { for: "follow" }, "Follow")), state), box);
  select.addEventListener("change", () => { part = select.value; open(); });
  box.addEventListener("scroll", () => {
    const bottom = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
    if (at.checked !== bottom) at.checked = bottom;
  });
  at.addEventListener("change", () => { if (at.checked) box.scrollTop = box.scrollHeight; });

  const lineOf = (line) => h("div", { class: line.error ? "err" : "" },
    h("time", {}, clockTime(line.at)), h("span", { class: `from c${colourOf(line.from)}` }, line.from),
    h("span", { class: "text" }, line.dropped ? `[${count(line.dropped, "line")} missing here] ` : "", line.text || " "));

  // add shows lines. A stream that was opened again sends all of them again.
  function add(data) {
    const lines = data.lines ?? [];
    const made = lines.slice(-mostLines).map(lineOf);
    if (data.notice) made.push(h("div", { class: "notice" }, data.notice));
    if (fresh) { box.replaceChildren(); total = 0; }
    fresh = false;
    total += lines.length;
    box.append(...made);
    while (box.childElementCount > mostLines) box.firstChild.remove();
    text(state, count(total, "line"));
    if (at.checked) box.scrollTop = box.scrollHeight;
  }

  function open() {
    stream?.close();
    stream = follow(`${path}/logs${part ? `?part=${encodeURIComponent(part)}` : ""}`, {
      begin() { fresh = true; },
      lines: add,
      end(data) {
        if (data.error && data.kind !== "unavailable") text(state, data.error);
        else if (!data.error) text(state, `${count(fresh ? 0 : total, "line")}, complete`);
      },
    }, false);
  }
  open();
  return {
    node,
    close() { stream.close(); },
    parts(names) {
      if (names.join() === known) return;
      known = names.join();
      select.replaceChildren(h("option", { value: "" }, "all replicas"), ...names.map((name) => h("option", { value: name }, name)));
      select.value = part;
    },
  };
}
