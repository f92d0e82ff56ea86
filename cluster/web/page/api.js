// Requests to the controller, and the streams by which it tells what changes.

import { setClock } from "./words.js";

// Fault is an error that the controller has answered with; its kind is "" if none has answered.
export class Fault extends Error {
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

let secret = "";
const listeners = new Set();
let connected = true;

// onConnection calls a function whenever the controller is lost or found again.
export const onConnection = (listener) => listeners.add(listener);

function setConnected(is) {
  if (is === connected) return;
  connected = is;
  for (const listener of listeners) listener(is);
}

// ask makes a request; a body makes it one that changes something.
export async function ask(path, body) {
  let reply, data;
  try {
    reply = await fetch("/api/" + path, body === undefined ? {} : {
      method: "POST", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", "X-Phos-Secret": secret },
    });
    data = await reply.json();
  } catch {
    setConnected(false);
    throw new Fault("The controller does not answer.", "");
  }
  if (!reply.ok) {
    if (data.kind === "unavailable") setConnected(false);
    throw new Fault(data.error, data.kind);
  }
  if (path === "cluster") setClock(data.now);
  setConnected(true);
  return data;
}

// me asks which caller this page has, and keeps the secret of its login.
export async function me() {
  const found = await ask("me");
  secret = found.secret ?? "";
  return found;
}

const patience = 25_000; // the controller sends something every 10 s
const pause = 1500;

// follow opens a stream, and opens it again when it is lost. handlers are named as the events;
// their "begin" is called each time. A page that is not visible holds no stream. close ends it.
export function follow(path, handlers, again = true) {
  let source = null, watch = 0, retry = 0, over = false;
  const stop = () => {
    clearTimeout(watch);
    clearTimeout(retry);
    source?.close();
    source = null;
  };
  const later = () => {
    stop();
    retry = setTimeout(start, pause);
  };
  const alive = () => {
    clearTimeout(watch);
    watch = setTimeout(() => { setConnected(false); later(); }, patience);
  };
  function start() {
    if (over || source || document.hidden) return;
    source = new EventSource("/api/" + path);
    alive();
    source.onerror = () => {
      if (source?.readyState === EventSource.CLOSED) later();
      ask("me").catch(() => {});
    };
    for (const [name, handle] of Object.entries({ begin() {}, beat() {}, end() {}, ...handlers })) {
      source.addEventListener(name, (event) => {
        alive();
        const data = JSON.parse(event.data);
        if (name === "begin") setConnected(true);
        handle(data, event);
        if (name !== "end") return;
        stop();
        if (data.kind === "unavailable") setConnected(false);
        if (again || data.kind === "unavailable") later();
      });
    }
  }
  const seen = () => (document.hidden ? stop() : start());
  document.addEventListener("visibilitychange", seen);
  start();
  return { close() { over = true; stop(); document.removeEventListener("visibilitychange", seen); } };
}
