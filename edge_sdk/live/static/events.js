// Alarms: on top of the pictures, in their card, in the tab's title; and the list of what happened.
import { $, clock, degrees, inUnits, make, rise, say, span } from "./words.js";

const heatOf = (alarm) => [alarm.max !== null && degrees(alarm.max, alarm.unit), alarm.rise !== null && rise(alarm.rise, alarm.unit)].filter(Boolean).join("  ");

export function showAlarms({ alarms, heat, now }) {
  const { active, raised } = alarms;
  const unknown = heat.state !== "looked";
  $("card-alarms").classList.toggle("alert", active.length > 0);
  $("alarm-count").textContent = `${raised} so far`;
  const rows = active.map((alarm) => {
    const unseen = alarm.not_seen_since !== null;
    return make("li", { className: unseen ? "active unseen" : "active" }, `${alarm.class}  ${heatOf(alarm)}`,
      make("small", { textContent: [inUnits(alarm.why), `since ${clock(alarm.since, now)}`, unseen ? `not seen since ${clock(alarm.not_seen_since, now)}` : `pair ${alarm.key}`].join(", ") }));
  });
  if (unknown) rows.push(make("li", { className: "unknown" }, "hot spots unknown", make("small", { textContent: `not looked for since ${clock(heat.since, now)}: ${heat.why}` })));
  else if (!rows.length) rows.push(make("li", { className: "none", textContent: "no hot spot" }));
  $("alarms").replaceChildren(...rows);
}

// The strip above the pictures, also in full screen and first on a phone.
export function showStrip({ alarms, heat, now }) {
  const [first, ...others] = alarms.active;
  const strip = $("strip");
  const unknown = heat.state !== "looked";
  strip.className = `strip ${first ? (first.not_seen_since === null ? "loud" : "unseen") : unknown ? "unknown" : "calm"}`;
  if (first) {
    const unseen = first.not_seen_since === null ? `since ${clock(first.since, now)}` : `not seen since ${clock(first.not_seen_since, now)}`;
    say(strip, [`${first.class.toUpperCase()}  ${heatOf(first)}`, unseen, others.length ? `+ ${others.length} more` : ""].filter(Boolean).join(" · "));
  } else say(strip, unknown ? `Hot spots unknown since ${clock(heat.since, now)}: ${heat.why}` : "no hot spot");
}

// Without a connection nobody knows whether there is a hot spot; alarms stay, as last seen.
export function forgetAlarms(state, since) {
  const active = state.alarms.active.map((alarm) => ({ ...alarm, not_seen_since: alarm.not_seen_since ?? since }));
  const heat = { state: "unknown", since: state.heat.state === "looked" ? since : state.heat.since, why: "no connection to the program" };
  const old = { ...state, now: Date.now() / 1000, heat, alarms: { ...state.alarms, active } };
  showAlarms(old);
  showStrip(old);
}

// The tab is often all that is in sight.
export function showTitle(link, state) {
  const name = state?.facts.title ?? "edge-sdk live";
  if (link !== "live") return say(document.querySelector("title"), `✕ not connected · ${name}`);
  if (!state) return say(document.querySelector("title"), name);
  const seen = state.alarms.active.filter((alarm) => alarm.not_seen_since === null);
  const [first] = seen.length ? seen : state.alarms.active;
  const mark = first ? `⚠ ${first.class} ${first.max === null ? "" : degrees(first.max, first.unit)}${first.not_seen_since === null ? "" : " (not seen now)"} · ` : state.silent ? "⚠ no pairs · " : state.heat.state !== "looked" ? "? heat unknown · " : "";
  return say(document.querySelector("title"), `${mark}${name}`);
}

const WHAT = { alarm: (event) => event.name, camera: (event) => `${event.name} camera`, unseen: () => "heat not looked for" };

export function showEvents({ events, now }) {
  $("events").replaceChildren(...events.map((event) => {
    const peak = event.peak && event.peak.max !== null ? `peak ${degrees(event.peak.max, event.peak.unit)} ${rise(event.peak.rise, event.peak.unit)} at ${clock(event.peak.at, now)}` : "";
    const unseen = event.kind === "alarm" && now - event.last > 1.5 ? `, not seen since ${clock(event.last, now)}` : "";
    const until = event.until === null ? `goes on${unseen}` : `until ${clock(event.until, now)} (${span(event.until - event.since)})`;
    return make("li", { className: `${event.kind}${event.until === null ? " open" : ""}` }, make("time", { textContent: clock(event.since, now) }), make("b", { textContent: (WHAT[event.kind] ?? ((other) => other.name))(event) }),
      make("span", { textContent: until }), make("small", { textContent: [peak, inUnits(event.why)].filter(Boolean).join(" · ") }));
  }));
  if (!events.length) $("events").replaceChildren(make("li", { className: "nothing", textContent: "nothing so far" }));
}
