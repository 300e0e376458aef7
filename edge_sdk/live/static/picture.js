// Draws what a live message holds: the RGB picture, heat with a palette on it, boxes, labels and spots.
import { HOT, UNSEEN_BELOW, colorOf, rampOf, stepsOf } from "./palettes.js";
import { placeLabels } from "./labels.js";
import { degrees, rise } from "./words.js";

export async function readMessage(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const at = 4 + size;
  const picture = (from, bytes) =>
    bytes ? createImageBitmap(new Blob([new Uint8Array(buffer, from, bytes)], { type: "image/jpeg" })) : null;
  const [rgb, thermal] = await Promise.all([
    picture(at, head.rgb_bytes),
    picture(at + head.rgb_bytes, head.thermal_bytes),
  ]);
  return { head, rgb, thermal };
}

export class Screens {
  constructor() {
    this.rgb = document.getElementById("rgb");
    this.thermal = document.getElementById("thermal");
    this.overs = [document.getElementById("rgb-over"), document.getElementById("thermal-over")];
    this.heat = document.createElement("canvas");
    this.spots = [];
    this.aim = null;
    this.blend = 0;
    this.ranges = {};
    this.unplaced = [0, 0];
  }

  // The fixed range for what the newest frame is in, or null.
  get range() {
    const range = this.last?.head.heat && this.ranges[this.last.head.heat.unit];
    return range && range.high > range.low ? range : null;
  }

  setPalette(name) {
    this.ramp = rampOf(name);
    const scale = document.getElementById("scale");
    const context = scale.getContext("2d");
    const strip = context.createImageData(1, scale.height);
    for (let row = 0; row < scale.height; row++) {
      const step = Math.round(255 * (1 - row / (scale.height - 1)));
      for (let part = 0; part < 3; part++) strip.data[row * 4 + part] = this.ramp[step * 3 + part];
      strip.data[row * 4 + 3] = 255;
    }
    context.putImageData(strip, 0, 0);
    this.redraw();
  }

  show(message) {
    this.last?.rgb?.close();
    this.last = message;
    if (message.thermal) this.readLevels(message.thermal);
    this.redraw();
  }

  readLevels(bitmap) {
    this.heat.width = bitmap.width;
    this.heat.height = bitmap.height;
    const context = this.heat.getContext("2d", { willReadFrequently: true });
    context.drawImage(bitmap, 0, 0);
    this.levels = context.getImageData(0, 0, bitmap.width, bitmap.height);
    bitmap.close();
  }

  colorHeat(heat) {
    const steps = stepsOf(heat, this.range);
    const out = new ImageData(this.levels.width, this.levels.height);
    const from = this.levels.data, to = out.data, ramp = this.ramp;
    for (let at = 0; at < from.length; at += 4) {
      const level = from[at], step = steps[level] * 3;
      to[at] = ramp[step];
      to[at + 1] = ramp[step + 1];
      to[at + 2] = ramp[step + 2];
      to[at + 3] = level < UNSEEN_BELOW ? 0 : 255;
    }
    this.heat.getContext("2d").putImageData(out, 0, 0);
  }

  redraw() {
    if (!this.last || !this.ramp) return;
    const { head, rgb, thermal } = this.last;
    const [width, height] = head.size_wh;
    const size = [960, Math.round((960 * height) / width)];
    for (const canvas of [this.rgb, this.thermal, ...this.overs])
      if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    if (thermal) this.colorHeat(head.heat);
    const left = this.rgb.getContext("2d"), right = this.thermal.getContext("2d");
    left.globalAlpha = 1;
    left.fillStyle = right.fillStyle = "#14181d";
    left.fillRect(0, 0, ...size);
    right.fillRect(0, 0, ...size);
    if (rgb) left.drawImage(rgb, 0, 0, ...size);
    if (thermal) {
      right.drawImage(this.heat, 0, 0, ...size);
      left.globalAlpha = this.blend;
      if (this.blend) left.drawImage(this.heat, 0, 0, ...size);
    }
    this.unplaced = this.overs.map((canvas, at) => this.drawOver(canvas.getContext("2d"), head, size, at === 1));
  }

  // Draws all lines first and all texts on top of them; returns how many labels found no room.
  drawOver(context, head, [width, height], hot) {
    const unit = context.canvas.width / (context.canvas.clientWidth || context.canvas.width);
    const text = (context.canvas.clientWidth < 420 ? 11 : 13) * unit;
    context.clearRect(0, 0, width, height);
    const boxes = head.boxes.map((box) => ({ box, edges: box.xyxy.map((share, at) => share * (at % 2 ? height : width)) }));
    for (const { box, edges } of [...boxes].reverse()) frame(context, edges, colorOf(box), (box.hot ? 3.5 : 1.6) * unit, box.hot);
    const crosses = this.spots.map((spot, at) => [spot, "#7ef9ff", `${at + 1}`]);
    if (this.aim) crosses.push([this.aim, "#ffffff", "+"]);
    if (hot && head.heat) crosses.unshift([head.heat.hottest, "#ffffff", ""]);
    for (const [spot, color] of crosses) cross(context, spot.x * width, spot.y * height, color, unit);
    const labels = boxes.map(({ box, edges }) => ({ box, edges, words: hot ? heatWords(box.heat) : `${box.class} ${box.score.toFixed(2)}` })).filter(({ words }) => words);
    const sizes = labels.map(({ box, words }) => {
      context.font = fontOf(box, text);
      return [context.measureText(words).width + text * 0.7, text * (box.hot ? 1.7 : 1.4)];
    });
    const names = crosses.filter(([, , name]) => name).map(([spot, color, name]) => {
      const x = Math.min(spot.x * width + 9 * unit, width - text), y = Math.max(spot.y * height - 9 * unit, text);
      return { name, color, place: [x, y - text, x + text, y + text * 0.3] };
    });
    const room = [hot ? width - 60 * unit : width, height - 26 * unit]; // beside the legend, above the caption
    const places = placeLabels(labels.map(({ edges }) => edges), sizes, room, names.map(({ place }) => place), labels.map(({ box }) => (box.hot ? 9 : 1)));
    context.textBaseline = "middle";
    places.forEach((place, at) => {
      if (!place) return;
      const { box, words } = labels[at];
      context.fillStyle = box.hot ? "#ffffff" : "#0b0e12d9";
      context.fillRect(place[0], place[1], place[2] - place[0], place[3] - place[1]);
      context.fillStyle = box.hot ? HOT : colorOf(box);
      if (box.hot) context.fillRect(place[0] + 2 * unit, place[1] + 2 * unit, place[2] - place[0] - 4 * unit, place[3] - place[1] - 4 * unit);
      else context.fillRect(place[0], place[1], 3 * unit, place[3] - place[1]);
      context.fillStyle = "#ffffff";
      context.font = fontOf(box, text);
      context.fillText(words, place[0] + text * 0.4, (place[1] + place[3]) / 2 + unit * 0.5);
    });
    context.font = `800 ${text}px system-ui, sans-serif`;
    context.textBaseline = "alphabetic";
    for (const { name, color, place } of names) {
      context.lineWidth = 3 * unit;
      context.strokeStyle = "#000";
      context.strokeText(name, place[0], place[3] - text * 0.3);
      context.fillStyle = color;
      context.fillText(name, place[0], place[3] - text * 0.3);
    }
    return places.filter((place) => !place).length;
  }
}

const fontOf = (box, text) => `${box.hot ? 800 : 600} ${text * (box.hot ? 1.15 : 1)}px system-ui, sans-serif`;

function frame(context, [x0, y0, x1, y1], color, wide, loud) {
  for (const [stroke, width] of [[loud ? "#fff" : "#000b", wide * 2], [color, wide]]) {
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.strokeRect(x0, y0, x1 - x0, y1 - y0);
  }
}

function cross(context, x, y, color, unit) {
  const arm = 10 * unit;
  for (const [stroke, wide] of [["#000", 4 * unit], [color, 2 * unit]]) {
    context.strokeStyle = stroke;
    context.lineWidth = wide;
    context.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(x + dx * arm * 0.35, y + dy * arm * 0.35);
      context.lineTo(x + dx * arm, y + dy * arm);
    }
    context.stroke();
  }
}

function heatWords(heat) {
  if (!heat) return "";
  const over = rise(heat.rise, heat.unit);
  return `${degrees(heat.max, heat.unit)}${over ? ` Δ${over}` : ""}`;
}
