// The one WebSocket of the page, and in plain words why there is none.
import { $, clock, make, say } from "./words.js";

const SILENT_MS = 1500, AGAIN_MS = 1000;
const WORDS = {
  gone: "The program is gone: it has ended, or the network is down.",
  token: "The token is no longer right: this run has another one.",
  full: "The program takes no more viewers now; trying again.",
  refused: "The program refuses this page.",
  broken: "The connection broke; trying again.",
  quiet: "The program says nothing any more.",
};

// Asks the socket's address plainly: its answer says why a browser got no socket.
async function whyNot() {
  try {
    const answer = await fetch("ws", { cache: "no-store", signal: AbortSignal.timeout(3000) });
    if (answer.status === 401) return ["token", ""];
    const why = await said(answer);
    if (answer.status === 503 && why) return ["full", why];
    if ([502, 503, 504].includes(answer.status)) return ["gone", ""]; // a proxy speaks for it
    if ([403, 421].includes(answer.status)) return ["refused", why];
    return ["broken", ""];
  } catch { return ["gone", ""]; }
}
const said = async (answer) => (await answer.json().catch(() => ({}))).error ?? "";

export class Connection {
  constructor({ onText, onPicture, onOpen, onLink }) {
    Object.assign(this, { onText, onPicture, onOpen, onLink });
    this.last = 0;
    this.link = "connecting";
    setInterval(() => this.watch(), 500);
    this.connect();
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  connect() {
    const socket = (this.socket = new WebSocket(new URL("ws", document.baseURI.replace(/^http/, "ws"))));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.onOpen();
    socket.onmessage = async ({ data }) => {
      this.last = performance.now();
      if (typeof data === "string") {
        this.become("live");
        this.onText(JSON.parse(data));
        return;
      }
      try { await this.onPicture(data); } finally { this.send({ shown: 1 }); }
    };
    socket.onclose = async () => {
      const [kind, detail] = await whyNot();
      this.become(kind, detail);
      setTimeout(() => this.connect(), kind === "token" ? 5 * AGAIN_MS : AGAIN_MS);
    };
  }

  watch() {
    if (this.link === "live" && performance.now() - this.last > SILENT_MS) this.become("quiet");
  }

  become(link, detail = "") {
    if (link === this.link) return;
    if (link !== "live" && ["live", "connecting"].includes(this.link)) this.since = Date.now() / 1000 - (this.last ? (performance.now() - this.last) / 1000 : 0);
    this.link = link;
    document.body.dataset.link = link;
    const banner = $("link");
    banner.hidden = link === "live";
    if (link !== "live") {
      const old = this.last ? ` Nothing here is live: it is of ${clock(this.since)}.` : "";
      say(banner, `${WORDS[link]}${detail ? ` (${detail})` : ""}${old}`);
      if (link === "token") banner.append(" ", make("a", { href: "./", textContent: "Enter the token" }));
    }
    for (const screen of document.querySelectorAll(".screen")) screen.dataset.old = link === "live" || !this.last ? "" : `not live: of ${clock(this.since)}`;
    this.onLink(link);
  }
}
