// Words and figures of the page, and how elements are made. Nothing unknown becomes a 0 or an "ok".
export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element[name] = value;
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

// Writes only what changed: screen readers are told once, and a selection stays.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
export const number = (value, digits = 1, none = "–") => (known(value) ? value.toFixed(digits) : none);

const two = (value) => String(value).padStart(2, "0");
const day = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
const time = (date) => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
export const dateOf = (seconds) => day(new Date(seconds * 1000));
export const timeOf = (seconds) => time(new Date(seconds * 1000));
// The time of day, with its date where that is not today's.
export function clock(seconds, now = Date.now() / 1000) {
  return dateOf(seconds) === dateOf(now) ? timeOf(seconds) : `${dateOf(seconds)} ${timeOf(seconds)}`;
}
export function span(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(Math.floor(seconds % 60))} s`;
  return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`;
}

// Degrees: the program says Celsius, kelvin for differences, or counts; Fahrenheit is this page's.
export const units = { fahrenheit: false };
const isDegrees = (unit) => unit === "°C";
export const shownUnit = (unit) => (isDegrees(unit) && units.fahrenheit ? "°F" : unit);
export const shown = (value, unit) => (isDegrees(unit) && units.fahrenheit ? value * 1.8 + 32 : value);
export const meant = (value, unit) => (isDegrees(unit) && units.fahrenheit ? (value - 32) / 1.8 : value);
export function degrees(value, unit, none = "not seen") {
  return known(value) ? `${shown(value, unit).toFixed(isDegrees(unit) ? 1 : 0)} ${shownUnit(unit)}` : none;
}
export function rise(value, unit, none = "") {
  if (!known(value)) return none;
  const sign = value > 0 ? "+" : "";
  if (!isDegrees(unit)) return `${sign}${value.toFixed(0)}`;
  return units.fahrenheit ? `${sign}${(value * 1.8).toFixed(1)} °F` : `${sign}${value.toFixed(1)} K`;
}
// The same for figures in a sentence of the program.
export function inUnits(text) {
  if (!units.fahrenheit) return text;
  return text
    .replace(/(-?\d+(?:\.\d+)?) °C/g, (_, figure) => `${+(figure * 1.8 + 32).toFixed(1)} °F`)
    .replace(/(-?\d+(?:\.\d+)?) K\b/g, (_, figure) => `${+(figure * 1.8).toFixed(1)} °F`);
}

export const plain = (word) => word.replaceAll("-", " ");

// A card that fails says so, and no other card knows of it.
export function guarded(id, show) {
  const fault = make("p", { className: "fault", hidden: true });
  return (...given) => {
    const card = $(id);
    try {
      show(...given);
      fault.hidden = true;
      card.classList.remove("failed");
    } catch (error) {
      if (fault.parentElement !== card) card.append(fault);
      fault.hidden = false;
      say(fault, `This part of the page failed, and what it shows is old: ${error.message}`);
      card.classList.add("failed");
      console.warn(`${id}: ${error.stack}`);
    }
  };
}

export async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const content = await answer.json().catch(() => ({ error: `the program answered ${answer.status}` }));
  if (!answer.ok) throw new Error(content.error);
  return content;
}
