// Times and numbers as people read them.

const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;

// span is a length of time in one or two units.
export function span(ms) {
  ms = Math.max(0, ms);
  if (ms < minute) return `${Math.floor(ms / second)} s`;
  for (const [unit, name, small, smallName] of [[day, "d", hour, "h"], [hour, "h", minute, "min"], [minute, "min", second, "s"]]) {
    if (ms < unit) continue;
    const rest = Math.floor((ms % unit) / small);
    return `${Math.floor(ms / unit)} ${name}${rest ? ` ${rest} ${smallName}` : ""}`;
  }
  return "";
}

// The controller's clock may differ from this machine's.
let ahead = 0;
export function setClock(now) { ahead = now - Date.now(); }
export const now = () => Date.now() + ahead;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// time is a time of day, with the date if it was on another day.
export const time = (ms) => (now() - ms < 20 * hour ? clock : date).format(ms);
export const tick = (ms, wide) => (wide ? date : short).format(ms);
export const clockTime = (ms) => clock.format(ms);

export const ago = (ms) => `${span(now() - ms)} ago`;

// bytes is a size in the largest unit that leaves a number above one.
export function bytes(n) {
  for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"]]) {
    if (n >= unit) return `${+(n / unit).toPrecision(3)} ${name}`;
  }
  return `${n} B`;
}

export const count = (n, one, many = one + "s") => `${n.toLocaleString()} ${n === 1 ? one : many}`;
