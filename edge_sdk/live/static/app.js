// The live page: one WebSocket, pictures as they come, figures four times a second.
import { PALETTES, Screens, colorOf, readMessage } from "/picture.js";
import { openRegister } from "/register.js";

const REASONS = {
  confident: "colour is sure, and nothing is hot", "low-confidence": "colour is not sure enough",
  "hot-region": "something is hotter than its surroundings", "hot-hold": "something was hot a moment ago",
  dim: "too dim for colour alone", uncalibrated: "the thermal camera gives no degrees",
  audit: "a check of colour alone", dark: "too dark for colour", forced: "a viewer asked for it",
  "rgb-lost": "the RGB camera cannot be used", "thermal-lost": "heat cannot be seen",
  "only-graph": "the engine has one graph",
};
const $ = (id) => document.getElementById(id);
const screens = new Screens();
let socket, state, drawing = false, waiting = null, lastMessage = 0, readSpots = [];

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element[name] = value;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const number = (value, digits = 1, none = "–") => (value === null || value === undefined ? none : value.toFixed(digits));
const clock = (seconds) => new Date(seconds * 1000).toTimeString().slice(0, 8);
const degrees = (value, unit) => (value === null || value === undefined ? "not seen" : `${value.toFixed(unit === "°C" ? 1 : 0)} ${unit}`);

export async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}
async function ask(path, body) {
  try { await post(path, body); $("message").textContent = ""; }
  catch (error) { $("message").textContent = error.message; }
}

// Pictures: one is drawn at a time; while it is, only the newest of those that come is kept.
async function take(buffer) {
  waiting = buffer;
  if (drawing) return;
  drawing = true;
  try {
    while (waiting) {
      const next = waiting;
      waiting = null;
      const message = await readMessage(next);
      screens.show(message);
      showHead(message.head);
    }
  } finally { drawing = false; }
}

function connect() {
  socket = new WebSocket(`ws://${location.host}/ws`);
  socket.binaryType = "arraybuffer";
  socket.onopen = sendSpots;
  socket.onmessage = async ({ data }) => {
    lastMessage = performance.now();
    if (typeof data === "string") {
      const said = JSON.parse(data);
      if (said.state) showState((state = said.state));
      if (said.spots) showReadings((readSpots = said.spots));
      return;
    }
    try { await take(data); }
    finally { if (socket.readyState === WebSocket.OPEN) socket.send('{"shown": 1}'); }
  };
  socket.onclose = () => { setTimeout(connect, 1000); };
}

let head = null;
function showHead(now) {
  head = now;
  document.body.dataset.frame = now.number;
  $("now").dataset.route = now.route;
  $("route").textContent = now.route;
  $("reason").textContent = now.reason.replaceAll("-", " ");
  $("reason-text").textContent = REASONS[now.reason] ?? "";
  $("cap-rgb").textContent = now.route === "thermal" ? "not used for this answer" : now.key;
  $("cap-thermal").textContent = (now.thermal_consulted ? "read by the network" : "screened only") + (now.stretched ? ", stretched: not registered" : "");
  $("scale-high").textContent = now.heat ? degrees(now.heat.high, now.heat.unit) : "";
  $("scale-low").textContent = now.heat ? degrees(now.heat.low, now.heat.unit) : "";
  $("boxes").replaceChildren(...now.boxes.slice(0, 8).map((box) => {
    const swatch = make("i", { className: "swatch" });
    swatch.style.setProperty("--mark", colorOf(box.id));
    return make("tr", {}, make("td", {}, swatch, box.class), make("td", { textContent: box.score.toFixed(2) }),
      make("td", { textContent: box.heat ? degrees(box.heat.max, box.heat.unit) : "–" }),
      make("td", { textContent: box.heat && box.heat.rise !== null ? `${box.heat.rise > 0 ? "+" : ""}${box.heat.rise.toFixed(1)} ${box.heat.unit === "°C" ? "K" : ""}` : "–" }));
  }));
  if (!now.boxes.length) $("boxes").replaceChildren(make("tr", {}, make("td", { colSpan: 4, textContent: "nothing found" })));
  showReadings(readSpots);
}

function reading(name, value, color) {
  const element = make("div", { className: "reading" }, make("small", { textContent: name }), make("b", { textContent: value }));
  element.style.setProperty("--mark", color);
  return element;
}
function showReadings(spots) {
  const rows = [];
  const heat = head?.heat;
  if (heat) rows.push(reading("hottest", degrees(heat.hottest.value, heat.unit), "#ffffff"), reading("median of the frame", degrees(heat.median, heat.unit), "#68747f"));
  screens.spots.forEach((spot, at) => rows.push(reading(`spot ${at + 1}`, spots[at] ? degrees(spots[at].value, spots[at].unit) : "…", "#7ef9ff")));
  if (!screens.spots.length) rows.push(reading("tap a picture", "to measure a spot", "#2b343e"));
  $("readings").replaceChildren(...rows);
}

function showState(now) {
  const { facts } = now;
  $("title").textContent = facts.title ?? "edge-sdk";
  $("subtitle").textContent = [facts.engine, facts.provider, facts.source].filter(Boolean).join(" · ");
  $("footer").textContent = (facts.conditions ?? []).join(" ");
  const total = now.latency.find((row) => row.stage === "latency");
  $("fps").textContent = number(now.fps);
  $("p50").textContent = total ? `${number(total.p50)} ms` : "–";
  $("p99").textContent = total ? `${number(total.p99)} ms` : "–";
  $("watts-top").textContent = number(now.power.watts, 1, "no sensor");
  showCameras(now);
  showAlarms(now.alarms);
  showLatency(now.latency);
  showRoutes(now);
  showSla(now.sla);
  showControl(now.control);
  $("watts").textContent = number(now.power.watts, 2);
  $("mj").textContent = number(now.power.mj_per_inference, 0);
  $("power-note").textContent = [now.power.rail, now.power.note].filter(Boolean).join(": ");
}

function showCameras(now) {
  const lost = [];
  $("cameras").replaceChildren(...now.cameras.map((camera) => {
    const ok = camera.state === "ok";
    if (!ok) lost.push(`${camera.name} ${camera.state}`);
    const overlay = document.querySelector(`#screen-${camera.name.toLowerCase()} .lost`);
    if (overlay) {
      overlay.hidden = ok;
      overlay.replaceChildren(`${camera.name} ${camera.state}`, make("small", { textContent: camera.detail }));
    }
    return make("li", { className: ok ? "ok" : "bad" }, make("i"), make("span", { textContent: camera.name }), make("b", { textContent: camera.state }),
      make("span", { textContent: camera.fps === null ? "" : `${number(camera.fps)} /s` }), make("small", { textContent: [camera.detail, camera.ffc && `FFC ${camera.ffc}`].filter(Boolean).join("; ") }));
  }));
  const forced = now.control.force ? `Route ${now.control.force} is forced by a viewer.` : "";
  const text = now.silent ? "No pairs are coming" : lost.length ? lost.join(", ") : forced;
  $("banner").hidden = !text;
  $("banner").textContent = text;
  $("banner").classList.toggle("mild", !now.silent && !lost.length);
}

function showAlarms({ active, log, raised }) {
  const heat = (alarm) => [alarm.max !== null && degrees(alarm.max, alarm.unit), alarm.rise !== null && `+${number(alarm.rise)} ${alarm.unit === "°C" ? "K" : ""}`].filter(Boolean).join("  ");
  $("card-alarms").classList.toggle("alert", active.length > 0);
  $("alarm-count").textContent = `${raised} so far`;
  const rows = active.map((alarm) => make("li", { className: "active" }, `${alarm.class}  ${heat(alarm)}`, make("small", { textContent: `${alarm.why}, since ${clock(alarm.since)}, pair ${alarm.key}` })));
  if (!rows.length) rows.push(make("li", { className: "none", textContent: "no hot spot" }));
  rows.push(...log.slice(active.length, 4).map((alarm) => make("li", { className: "past" }, make("span", { textContent: `${clock(alarm.since)} ${alarm.class}` }), make("span", { textContent: heat(alarm) }))));
  $("alarms").replaceChildren(...rows);
}

function showLatency(rows) {
  const most = Math.max(1e-9, ...rows.map((row) => row.p99));
  $("latency").replaceChildren(...rows.map((row) => {
    const bar = make("span", { className: "bar" });
    for (const figure of [row.p99, row.p50]) {
      const part = make("i");
      part.style.width = `${(100 * figure) / most}%`;
      bar.append(part);
    }
    return make("tr", { className: row.stage === "latency" ? "total" : "" }, make("td", { textContent: row.stage }), make("td", {}, bar), ...["p50", "p95", "p99"].map((name) => make("td", { textContent: number(row[name]) })));
  }));
}

function showRoutes(now) {
  const total = Object.values(now.routes).reduce((sum, count) => sum + count, 0);
  $("total").textContent = `${total} pairs` + (now.unanswered ? `, ${now.unanswered} unanswered` : "");
  const names = ["rgb", "fuse", "thermal"];
  const share = (name) => (total ? (100 * (now.routes[name] ?? 0)) / total : 0);
  $("shares").replaceChildren(...names.map((name) => { const part = make("i"); part.dataset.route = name; part.style.width = `${share(name)}%`; return part; }));
  $("share-text").replaceChildren(...names.map((name) => { const item = make("li", { textContent: `${name} ${share(name).toFixed(0)} %` }); item.dataset.route = name; return item; }));
  $("changes").replaceChildren(...now.changes.slice(0, 8).map((change) => {
    const item = make("li", {}, make("time", { textContent: clock(change.time) }), make("b", { textContent: change.route }), make("span", { textContent: change.reason.replaceAll("-", " ") }));
    item.dataset.route = change.route;
    return item;
  }));
}

const LAMP = { PASS: "ok", FAIL: "bad", INCONCLUSIVE: "off", INVALID: "doubt" };
function showSla(sla) {
  $("card-sla").hidden = !sla;
  if (!sla) return;
  $("sla-name").textContent = `${sla.name}, last ${sla.frames} pairs`;
  const figure = (value, unit) => (value === null ? "?" : unit === "share" ? `${(100 * value).toFixed(1)} %` : `${value.toFixed(1)} ${unit}`);
  const whole = make("li", { className: `all ${LAMP[sla.overall]}` }, make("i"), make("span", { textContent: sla.overall }), make("span"));
  if (sla.unsound?.length) whole.append(make("small", { textContent: sla.unsound.join(" ") }));
  $("sla").replaceChildren(whole, ...sla.clauses.map((clause) => make("li", { className: LAMP[clause.verdict], title: clause.reason }, make("i"), make("span", { textContent: clause.clause }), make("span", { textContent: `${figure(clause.estimate, clause.unit)} / ${figure(clause.limit, clause.unit)}` }))));
}

function showControl(control) {
  for (const button of $("force").children) button.setAttribute("aria-pressed", String((control.force ?? "") === button.dataset.route));
  const { recording, registration } = control;
  $("record").classList.toggle("on", recording.on);
  $("record").disabled = !recording.allowed && !recording.on;
  $("record-text").textContent = recording.on ? `${recording.file}  ${recording.pairs} pairs, ${number(recording.mb)} MB` + (recording.left_out ? `, ${recording.left_out} left out` : "") + (recording.held ? `. Nothing is written now: ${recording.held}` : "")
    : recording.ended && recording.ended !== "closed" ? `ended: ${recording.ended}` : recording.allowed ? "start recording" : "no place for recordings";
  $("registration-text").textContent = registration.origin ? `in use: ${registration.origin}${registration.saved ? `, saved as ${registration.saved}` : ", not saved"}` : "";
}

function sendSpots() {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ spots: screens.spots.map(({ x, y }) => [x, y]) }));
}
for (const over of screens.overs)
  over.addEventListener("pointerdown", (event) => {
    const area = over.getBoundingClientRect();
    screens.spots.push({ x: (event.clientX - area.left) / area.width, y: (event.clientY - area.top) / area.height });
    screens.spots = screens.spots.slice(-4);
    sendSpots();
    screens.redraw();
    showReadings(readSpots);
  });
$("clear-spots").onclick = () => { screens.spots = []; readSpots = []; sendSpots(); screens.redraw(); showReadings([]); };
$("blend").oninput = () => { screens.blend = $("blend").value / 100; screens.redraw(); };
$("palette").append(...PALETTES.map((name) => make("option", { textContent: name })));
$("palette").onchange = () => screens.setPalette($("palette").value);
for (const button of $("force").children) button.onclick = () => ask("/api/force", { route: button.dataset.route || null });
$("record").onclick = () => ask("/api/record", { on: !state?.control.recording.on });
$("open-register").onclick = () => openRegister(post);
setInterval(() => {
  if (performance.now() - lastMessage > 1500) {
    $("banner").hidden = false;
    $("banner").classList.remove("mild");
    $("banner").textContent = "No connection to the program: what is shown is old";
  }
}, 500);
showReadings([]);
connect();
