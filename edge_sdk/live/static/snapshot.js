// A picture file of what is shown: both pictures with their boxes, and under them when and what it was.
import { $, clock, dateOf, degrees, plain, timeOf } from "./words.js";

const GAP = 12, FOOT = 118;

export async function takeSnapshot(screens, state, link) {
  const head = screens.last?.head;
  if (!head) throw new Error("no picture has come yet");
  const { width, height } = screens.rgb;
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width + 3 * GAP;
  canvas.height = height + 2 * GAP + FOOT;
  const context = canvas.getContext("2d");
  context.fillStyle = "#0c0f13";
  context.fillRect(0, 0, canvas.width, canvas.height);
  [[screens.rgb, screens.overs[0], "RGB"], [screens.thermal, screens.overs[1], "Thermal"]].forEach(([picture, over, name], at) => {
    const left = GAP + at * (width + GAP);
    context.drawImage(picture, left, GAP);
    context.drawImage(over, left, GAP);
    const lost = state?.cameras.find((camera) => camera.name === name && camera.state !== "ok");
    if (lost) write(context, `${name} ${lost.state}`, left + 20, GAP + 46, "#ff5a4d", 34);
  });
  const { heat } = head, range = screens.range ?? heat;
  const alarms = (state?.alarms.active ?? []).map((alarm) => `${alarm.class} ${degrees(alarm.max, alarm.unit, "")}${alarm.not_seen_since === null ? "" : `, not seen since ${clock(alarm.not_seen_since)}`}`);
  const unknown = !state || state.heat.state !== "looked" || link !== "live";
  const words = [alarms.length && `ALARM: ${alarms.join("; ")}`, unknown ? `hot spots unknown: ${link === "live" ? (state?.heat.why ?? "no word yet") : "no connection"}` : !alarms.length && "no hot spot"];
  const moment = state?.now ?? Date.now() / 1000;
  write(context, `${dateOf(moment)} ${timeOf(moment)}   pair ${head.key}   route ${head.route}: ${plain(head.reason)}`, GAP, height + GAP + 38, "#eef2f5", 26);
  write(context, words.filter(Boolean).join("   "), GAP, height + GAP + 74, alarms.length ? "#ff5a4d" : unknown ? "#f0c419" : "#eef2f5", 26);
  const degreesShown = heat ? `hottest ${degrees(heat.hottest.value, heat.unit)}, colours from ${degrees(range.low, heat.unit)} to ${degrees(range.high, heat.unit)}${screens.range ? " (fixed)" : ""}` : "no thermal frame";
  const old = link === "live" ? "" : "   NOT LIVE: the connection to the program is lost";
  write(context, `${degreesShown}   ${[state?.facts.title, state?.facts.engine, state?.facts.source].filter(Boolean).join(" · ")}${old}`, GAP, height + GAP + 108, "#96a2ae", 22);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = `edge-sdk-${dateOf(moment)}-${timeOf(moment).replaceAll(":", "")}.png`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 60_000);
}

function write(context, text, x, y, color, size) {
  context.font = `600 ${size}px system-ui, sans-serif`;
  context.fillStyle = color;
  context.fillText(text, x, y, context.canvas.width - 2 * GAP);
}

export function startSnapshot(take) {
  $("snapshot").onclick = async () => {
    try { await take(); } catch (error) { $("message").textContent = `No snapshot: ${error.message}`; }
  };
}
