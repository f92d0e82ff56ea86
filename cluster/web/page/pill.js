// The state of a launch as a coloured word, and what may be done to it.

import { ask } from "./api.js";
import { attribute, h, text } from "./dom.js";
import { confirm } from "./login.js";

export const phaseOf = (launch) => (launch.phase === "ended" ? launch.result || "ended" : launch.phase);

// pill is a word whose colour is that of the state.
export function pill() {
  const node = h("span", { class: "pill" });
  return {
    node,
    update(state) {
      text(node, state);
      attribute(node, "data-state", state);
    },
  };
}

export const label = (launch) => launch.name || `launch ${launch.number}`;

const questions = {
  stop: (l) => [`Stop ${label(l)}?`, "Its processes get SIGTERM, and SIGKILL after the grace time. What was not saved is lost."],
  suspend: (l) => [`Suspend ${label(l)}?`, "It is saved where that is possible, and gives its GPUs back until it is resumed."],
  resume: (l) => [`Resume ${label(l)}?`, "It is queued, and goes on when it has GPUs."],
};

// acts returns which actions fit a launch.
export function acts(launch) {
  if (launch.phase === "ended") return [];
  if (launch.phase === "suspended") return ["resume", "stop"];
  return launch.phase === "stopping" ? ["stop"] : ["suspend", "stop"];
}

// act asks, and then does it.
export async function act(app, launch, what) {
  const [title, body] = questions[what](launch);
  if (!await confirm(title, body, what)) return;
  try {
    await ask(`launches/${encodeURIComponent(launch.id)}/${what}`, {});
    app.say(`${label(launch)}: ${what} was asked for`);
  } catch (fault) {
    app.say(fault.message);
  }
}
