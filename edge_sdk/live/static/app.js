// The live page: one WebSocket, pictures as they come, figures four times a second, a module a card.
import { showBoxes, startBoxes } from "./boxes.js";
import { forgetCameras, showBanner, showCameras } from "./cameras.js";
import { loadHistory, showCharts, startCharts, takePoint } from "./charts.js";
import { Connection } from "./connection.js";
import { forgetControl, showControl, startControl } from "./control.js";
import { forgetAlarms, showAlarms, showEvents, showStrip, showTitle } from "./events.js";
import { showChanges, showHeader, showLatency, showPower, showRoute, showRoutes } from "./figures.js";
import { Screens, readMessage } from "./picture.js";
import { Readings } from "./readings.js";
import { Settings } from "./settings.js";
import { showSla } from "./sla.js";
import { startSnapshot, takeSnapshot } from "./snapshot.js";
import { $, degrees, guarded, say } from "./words.js";

const screens = new Screens();
let state = null, head = null, drawing = false, waiting = null;

// Every card shows its own part, and one that fails takes no other with it.
const CARDS = [
  guarded("header", showHeader),
  guarded("stage", (now) => { showBanner(now); showStrip(now); }),
  guarded("card-cameras", showCameras),
  guarded("card-alarms", showAlarms),
  guarded("card-control", (now) => { try { showControl(now); } catch (error) { forgetControl(); throw error; } }),
  guarded("card-sla", showSla),
  guarded("card-charts", (now) => { takePoint(now.point); showCharts(); }),
  guarded("card-latency", showLatency),
  guarded("card-routes", showRoutes),
  guarded("card-power", showPower),
  guarded("card-changes", showChanges),
  guarded("card-events", showEvents),
];
const readings = new Readings(screens, (message) => connection.send(message));
const showPicture = guarded("watch", (now) => {
  showRoute(now);
  const unplaced = screens.unplaced.map((count) => count && `${count} without a label`);
  const looked = now.not_looked ? "not looked at" : now.thermal_consulted ? "read by the network" : "screened only";
  say($("cap-rgb"), [now.route === "thermal" ? "not used for this answer" : now.key, unplaced[0]].filter(Boolean).join(", "));
  say($("cap-thermal"), now.heat ? [looked, now.stretched && "stretched: not registered", unplaced[1]].filter(Boolean).join(", ") : "no thermal frame");
  const range = screens.range ?? now.heat;
  say($("scale-high"), range ? degrees(range.high, now.heat.unit) : "");
  say($("scale-low"), range ? degrees(range.low, now.heat.unit) : "");
  settings.showRange();
});
const retitle = guarded("footer", showTitle);
const forget = guarded("card-alarms", (since) => {
  forgetCameras(since);
  if (state) forgetAlarms(state, since);
});
const showFound = guarded("card-boxes", showBoxes);
const showReadings = guarded("card-readings", (now) => readings.show(now));

function showHead(now) {
  head = now;
  document.body.dataset.frame = now.number;
  showPicture(now);
  showFound(now);
  showReadings(now);
}

function showState(now) {
  state = now;
  for (const show of CARDS) show(now);
  retitle(connection.link, now);
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

const settings = new Settings(screens, () => {
  if (head) showHead(head);
  if (state) showState(state);
});
startBoxes();
startCharts();
startControl();
startSnapshot(() => takeSnapshot(screens, state, connection.link));
const history = guarded("card-charts", showCharts);
const connection = new Connection({
  onText: (said) => {
    if (said.state) showState(said.state);
    if (said.spots) readings.take(said.spots);
  },
  onPicture: take,
  onOpen: () => {
    readings.tell();
    loadHistory().then(history, (error) => console.warn(error.message));
  },
  onLink: (link) => {
    if (link !== "live") {
      forgetControl();
      forget(connection.since);
    }
    retitle(link, state);
  },
});
showReadings(null);
