// Times, routes, power and what the run is made of.
import { $, clock, dateOf, make, number, plain, say, timeOf } from "./words.js";

const REASONS = {
  confident: "colour is sure, and nothing is hot", "low-confidence": "colour is not sure enough",
  "hot-region": "something is hotter than its surroundings", "hot-hold": "something was hot a moment ago",
  dim: "too dim for colour alone", uncalibrated: "the thermal camera gives no degrees",
  audit: "a check of colour alone", dark: "too dark for colour", forced: "a viewer asked for it",
  "rgb-lost": "the RGB camera cannot be used", "thermal-lost": "heat cannot be seen",
  "only-graph": "the engine has one graph",
};
const ROUTES = ["rgb", "fuse", "thermal"];

export function showRoute(head) {
  $("now").dataset.route = head.route;
  say($("route"), head.route);
  say($("reason"), plain(head.reason));
  say($("reason-text"), REASONS[head.reason] ?? "");
}

export function showHeader(now) {
  const { facts } = now;
  const total = now.latency.find((row) => row.stage === "latency");
  say($("title"), facts.title ?? "edge-sdk");
  say($("subtitle"), [facts.engine, facts.provider, facts.source].filter(Boolean).join(" · "));
  say($("footer"), [...(facts.conditions ?? []), `Times are those of this viewer's time zone; the program's clock: ${dateOf(now.now)} ${timeOf(now.now)}.`].join(" "));
  say($("fps"), number(now.fps));
  say($("p50"), total ? `${number(total.p50)} ms` : "–");
  say($("p99"), total ? `${number(total.p99)} ms` : "–");
  say($("watts-top"), number(now.power.watts, 1, "no sensor"));
  say($("date"), dateOf(now.now));
  say($("time"), timeOf(now.now));
}

export function showLatency({ latency }) {
  const most = Math.max(1e-9, ...latency.map((row) => row.p99));
  $("latency").replaceChildren(...latency.map((row) => {
    const bar = make("span", { className: "bar" });
    for (const figure of [row.p99, row.p50]) {
      const part = make("i");
      part.style.width = `${(100 * figure) / most}%`;
      bar.append(part);
    }
    return make("tr", { className: row.stage === "latency" ? "total" : "" }, make("td", { textContent: row.stage }), make("td", {}, bar), ...["p50", "p95", "p99"].map((name) => make("td", { textContent: number(row[name]) })));
  }));
}

export function showRoutes(now) {
  const total = Object.values(now.routes).reduce((sum, count) => sum + count, 0);
  say($("total"), `${total} pairs` + (now.unanswered ? `, ${now.unanswered} unanswered` : ""));
  const share = (name) => (total ? (100 * (now.routes[name] ?? 0)) / total : 0);
  const marked = (tag, name, attributes) => {
    const part = make(tag, attributes);
    part.dataset.route = name;
    return part;
  };
  $("shares").replaceChildren(...ROUTES.map((name) => {
    const part = marked("i", name);
    part.style.width = `${share(name)}%`;
    return part;
  }));
  $("share-text").replaceChildren(...ROUTES.map((name) => marked("li", name, { textContent: `${name} ${share(name).toFixed(0)} %` })));
  $("unanswered").hidden = !now.unanswered;
  say($("unanswered"), now.unanswered ? `Last pair without an answer: ${now.last_unanswered}` : "");
}

export function showChanges(now) {
  $("changes").replaceChildren(...now.changes.slice(0, 8).map((change) => {
    const item = make("li", {}, make("time", { textContent: clock(change.time, now.now) }), make("b", { textContent: change.route }), make("span", { textContent: plain(change.reason) }));
    item.dataset.route = change.route;
    return item;
  }));
}

export function showPower({ power }) {
  say($("watts"), number(power.watts, 2));
  say($("mj"), number(power.mj_per_inference, 0));
  say($("power-note"), [power.rail, power.note].filter(Boolean).join(": "));
}
