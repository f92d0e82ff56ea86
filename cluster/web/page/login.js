// Dialogs: the login, and questions before an action.

import { ask } from "./api.js";
import { h, text } from "./dom.js";

// open shows a dialog, and resolves when it is closed. The focus goes back where it was.
function open(dialog) {
  const before = document.activeElement;
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
    resolve(dialog.returnValue);
  }));
}

// confirm asks a question, and resolves to whether it was affirmed.
export async function confirm(title, body, verb) {
  const dialog = h("dialog", { "aria-labelledby": "question" }, h("h2", { id: "question" }, title), h("p", {}, body),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"),
      h("button", { type: "button", class: "primary", onclick: () => dialog.close("yes") }, verb)));
  return await open(dialog) === "yes";
}

// authorize logs in, or out.
export async function authorize(app, done) {
  if (app.caller?.logged_in) {
    try { await ask("logout", {}); } catch (fault) { app.say(fault.message); }
    return done();
  }
  const fault = h("p", { class: "fault", role: "alert" });
  const token = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false" });
  const local = app.caller?.local;
  const submit = async (event) => {
    event.preventDefault();
    try {
      await ask("login", { token: token.value.trim() });
      dialog.close("yes");
    } catch (error) {
      text(fault, error.message);
    }
  };
  const dialog = h("dialog", { "aria-labelledby": "login" }, h("form", { onsubmit: submit },
    h("h2", { id: "login" }, local ? "Allow changes" : "Log in"),
    h("p", {}, local
      ? `By your connection you are ${app.caller.name} (${app.caller.role}). With a login the page may stop and suspend what you may.`
      : "The token that phos user add has printed. It is kept by the controller until you log out, for 12 hours at most."),
    h("label", { for: "token" }, local ? "Token, to be another user (optional)" : "Token"), token, fault,
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"),
      h("button", { type: "submit", class: "primary" }, "Log in"))));
  if (await open(dialog) === "yes") await done();
}
