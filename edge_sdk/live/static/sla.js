// A lamp a clause, and the whole; figures and states alike.
import { $, clock, make, say } from "./words.js";

const LAMP = { PASS: "ok", FAIL: "bad", INCONCLUSIVE: "off", INVALID: "doubt" };

// A limit or an estimate: a number with its unit, a share as per cent, a state as its word.
function figure(value, unit) {
  if (value === null || value === undefined) return "?";
  if (typeof value !== "number") return String(value);
  if (unit === "share") return `${(100 * value).toFixed(1)} %`;
  return `${value.toFixed(Math.abs(value) >= 1000 ? 0 : 1)} ${unit}`.trim();
}

// A dotted key that may break after its dots and underscores.
const breakable = (key) => key.split(/(?<=[._])/).flatMap((part) => [part, make("wbr")]);

function notes(sla, now) {
  const found = [];
  if (sla.forced) found.push(`Route ${sla.forced} is forced since ${clock(sla.forced_since, now)}. An SLA judges the router's own choice: nothing is judged until it is free again.`);
  if (sla.anew_since) found.push(`Judged anew since ${clock(sla.anew_since, now)}, when a forced route was let go.`);
  const lost = Object.entries(sla.lost ?? {}).map(([cause, count]) => `${count} ${cause}`);
  if (lost.length) found.push(`Pairs that the cameras lost count as dropped: ${lost.join(", ")}.`);
  return [...(sla.unsound ?? []), ...found];
}

export function showSla({ sla, now }) {
  $("card-sla").hidden = !sla;
  if (!sla) return;
  say($("sla-name"), `${sla.name}, last ${sla.frames} pairs`);
  const whole = make("li", { className: `all ${LAMP[sla.overall]}` }, make("i"), make("span", { textContent: sla.overall }), make("span"));
  for (const note of notes(sla, now)) whole.append(make("small", { textContent: note }));
  $("sla").replaceChildren(whole, ...sla.clauses.map((clause) => make("li", { className: LAMP[clause.verdict] }, make("i"), make("span", {}, ...breakable(clause.clause)),
    make("span", { textContent: `${figure(clause.estimate, clause.unit)} / ${figure(clause.limit, clause.unit)}` }),
    make("small", { textContent: clause.verdict === "PASS" || sla.unsound?.includes(clause.reason) ? "" : `${clause.verdict}: ${clause.reason}` }))));
}
