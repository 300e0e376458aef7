// Temperatures: the hottest point, the median, and spots that a viewer points at, by touch or by keys.
import { $, degrees, make } from "./words.js";

const STEP = 0.02, MOST_SPOTS = 4;

function reading(name, value, color, loud = false) {
  const element = make("div", { className: loud ? "reading loud" : "reading" }, make("small", { textContent: name }), make("b", { textContent: value }));
  element.style.setProperty("--mark", color);
  return element;
}

export class Readings {
  constructor(screens, send) {
    Object.assign(this, { screens, send, values: [], head: null });
    for (const over of screens.overs) {
      over.addEventListener("pointerdown", (event) => {
        const area = over.getBoundingClientRect();
        this.add({ x: (event.clientX - area.left) / area.width, y: (event.clientY - area.top) / area.height });
      });
      over.addEventListener("keydown", (event) => this.key(event));
      over.addEventListener("blur", () => this.point(null));
    }
    $("clear-spots").onclick = () => { this.values = []; this.change([]); };
  }

  take(values) { this.values = values; this.show(this.head); }
  tell() { this.send({ spots: this.screens.spots.map(({ x, y }) => [x, y]) }); }
  add(spot) { this.change([...this.screens.spots, spot].slice(-MOST_SPOTS)); }

  change(spots) {
    this.screens.spots = spots;
    this.tell();
    this.screens.redraw();
    this.show(this.head);
  }

  point(aim) {
    this.screens.aim = aim;
    this.screens.redraw();
  }

  // Arrows move a cross (with Shift in large steps), Enter measures there, Delete takes the last spot away.
  key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const aim = this.screens.aim ?? { x: 0.5, y: 0.5 };
    if (moves[event.key]) {
      const [dx, dy] = moves[event.key].map((step) => step * STEP * (event.shiftKey ? 5 : 1));
      this.point({ x: Math.min(1, Math.max(0, aim.x + dx)), y: Math.min(1, Math.max(0, aim.y + dy)) });
    } else if (event.key === "Enter" || event.key === " ") this.add(aim);
    else if (event.key === "Delete" || event.key === "Backspace") this.change(this.screens.spots.slice(0, -1));
    else return;
    event.preventDefault();
  }

  show(head) {
    this.head = head;
    const rows = [], heat = head?.heat;
    if (heat) rows.push(reading("hottest", degrees(heat.hottest.value, heat.unit), "var(--ink)"), reading("median of the frame", degrees(heat.median, heat.unit), "var(--faint)"));
    else if (head) rows.push(reading("hottest", "unknown", "var(--warn)"), reading("thermal frame", "none in this pair", "var(--warn)"));
    this.screens.spots.forEach((spot, at) => rows.push(reading(`spot ${at + 1}`, heat ? (this.values[at] ? degrees(this.values[at].value, this.values[at].unit) : "…") : "not seen", "#7ef9ff")));
    if (!this.screens.spots.length) rows.push(reading("tap a picture", "to measure a spot", "var(--line)"));
    $("readings").replaceChildren(...rows);
  }
}
