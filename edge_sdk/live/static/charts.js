// Latency, power and the hottest temperature over the last quarter of an hour: small SVGs, drawn here.
import { $, clock, make, number, say, shown, shownUnit } from "./words.js";

const KEPT_S = 900, LEAST_S = 60, GAP_S = 3.5, WIDE = 360, HIGH = 84;
const CHARTS = [
  { id: "chart-latency", name: "latency p50/95", lines: ["p50", "p95"], unit: () => "ms", of: (point, line) => point[line], digits: 1, none: "no pair answered" },
  { id: "chart-watts", name: "power", lines: ["watts"], unit: () => "W", of: (point) => point.watts, digits: 2, none: "no power sensor" },
  { id: "chart-hottest", name: "hottest", lines: ["hottest"], unit: (points) => shownUnit(unitOf(points)), of: (point, _, points) => (point.hottest === null || point.unit !== unitOf(points) ? null : shown(point.hottest, point.unit)), digits: 1, none: "no thermal frame" },
];
const unitOf = (points) => points.findLast((point) => point.unit)?.unit ?? "";
let points = [], picked = null;

export async function loadHistory() {
  const answer = await fetch("api/history", { cache: "no-store" });
  if (!answer.ok) throw new Error(`the history could not be read (${answer.status})`);
  const { points: past } = await answer.json();
  points = [...past, ...points.filter((point) => !past.length || point.t > past.at(-1).t)];
}

export function takePoint(point) {
  if (point && (!points.length || point.t > points.at(-1).t)) points.push(point);
  while (points.length && points.at(-1).t - points[0].t > KEPT_S) points.shift();
}

function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// A line with a gap wherever a second was not measured.
function pathOf(values, x, y) {
  let path = "", last = null;
  for (const [t, value] of values) {
    if (value === null || value === undefined) { last = null; continue; }
    const joins = last !== null && t - last <= GAP_S;
    path += `${joins ? "L" : "M"}${x(t).toFixed(1)} ${y(value).toFixed(1)}${joins ? "" : "h.01"}`;
    last = t;
  }
  return path;
}

function draw(chart) {
  const figure = $(chart.id), unit = chart.unit(points);
  const end = points.at(-1)?.t ?? 0, start = Math.min(points[0]?.t ?? 0, end - LEAST_S);
  const series = chart.lines.map((line) => points.map((point) => [point.t, chart.of(point, line, points)]));
  const known = series.flat().map(([, value]) => value).filter((value) => value !== null && value !== undefined);
  const low = known.length ? Math.min(...known) : 0, high = known.length ? Math.max(...known) : 1;
  const room = Math.max((high - low) * 0.08, Math.abs(high) * 0.01, 0.05);
  const x = (t) => ((t - start) / (end - start || 1)) * WIDE, y = (value) => HIGH - ((value - low + room) / (high - low + 2 * room)) * HIGH;
  const picture = figure.querySelector("svg");
  picture.replaceChildren(...series.map((values, at) => svg("path", { d: pathOf(values, x, y), class: `line ${chart.lines[at]}` })).reverse());
  const at = picked === null ? points.at(-1) : points.reduce((best, point) => (Math.abs(point.t - picked) < Math.abs(best.t - picked) ? point : best), points[0]);
  if (picked !== null && at) picture.append(svg("line", { x1: x(at.t), x2: x(at.t), y1: 0, y2: HIGH, class: "at" }));
  const words = at ? chart.lines.map((line) => number(chart.of(at, line, points), chart.digits, "unknown")).join(", ") : "";
  say(figure.querySelector("b"), known.length ? `${words} ${unit}` : chart.none);
  say(figure.querySelector(".when"), picked !== null && at ? clock(at.t) : "");
  say(figure.querySelector(".high"), known.length ? number(high, chart.digits) : "");
  say(figure.querySelector(".low"), known.length ? number(low, chart.digits) : "");
  say(figure.querySelector(".from"), points.length ? clock(start) : "");
  say(figure.querySelector(".to"), points.length ? clock(end) : "");
}

export function showCharts() { CHARTS.forEach(draw); }

export function startCharts() {
  for (const chart of CHARTS) {
    const figure = $(chart.id);
    const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", tabindex: 0, role: "img", "aria-label": `${chart.name} over time; arrow keys read it` });
    figure.append(
      make("figcaption", {}, make("span", { textContent: chart.name }), make("small", { className: "when" }), make("b")),
      make("div", { className: "plot" }, picture, make("span", { className: "high" }), make("span", { className: "low" })),
      make("div", { className: "axis" }, make("time", { className: "from" }), make("time", { className: "to" })));
    const pick = (t) => { picked = t; showCharts(); };
    picture.addEventListener("pointermove", (event) => {
      if (!points.length) return;
      const area = picture.getBoundingClientRect(), end = points.at(-1).t, start = Math.min(points[0].t, end - LEAST_S);
      pick(start + ((event.clientX - area.left) / area.width) * (end - start));
    });
    picture.addEventListener("pointerleave", () => pick(null));
    picture.addEventListener("blur", () => pick(null));
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !points.length) return;
      pick((picked ?? points.at(-1).t) + step * (event.shiftKey ? 30 : 1));
      event.preventDefault();
    });
  }
}
