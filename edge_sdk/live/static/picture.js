// Draws what a live message holds: the RGB picture, heat with a palette on it, boxes and spots.

const STOPS = {
  inferno: ["#000004", "#280b53", "#65156e", "#9f2a63", "#d44842", "#f57d15", "#fac127", "#fcffa4"],
  iron: ["#00000a", "#1d0060", "#6a0096", "#b3108c", "#e0442e", "#f58b00", "#ffd000", "#fffbe0"],
  "white hot": ["#000000", "#ffffff"],
  "black hot": ["#ffffff", "#000000"],
  rainbow: ["#000050", "#0040ff", "#00c8c8", "#20d040", "#e8e820", "#ff9000", "#ff2000", "#ffffff"],
};
export const PALETTES = Object.keys(STOPS);
const CLASS_COLORS = ["#f0e442", "#56cdff", "#f0783c", "#00be8c", "#e18cbe", "#ffffff", "#7896ff", "#e69f00"];
const UNSEEN_BELOW = 16, LOWEST_LEVEL = 24; // as in pictures.py

export const colorOf = (classId) => CLASS_COLORS[classId % CLASS_COLORS.length];

function table(name) {
  const stops = STOPS[name].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const colors = new Uint8ClampedArray(256 * 3);
  for (let level = 0; level < 256; level++) {
    const at = (Math.max(0, level - LOWEST_LEVEL) / (255 - LOWEST_LEVEL)) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(at));
    for (let part = 0; part < 3; part++)
      colors[level * 3 + part] = stops[low][part] + (stops[low + 1][part] - stops[low][part]) * (at - low);
  }
  return colors;
}

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
    this.blend = 0;
    this.setPalette(PALETTES[0]);
  }

  setPalette(name) {
    this.colors = table(name);
    const scale = document.getElementById("scale");
    const context = scale.getContext("2d");
    const strip = context.createImageData(1, scale.height);
    for (let row = 0; row < scale.height; row++) {
      const level = Math.round(255 - (row / (scale.height - 1)) * (255 - LOWEST_LEVEL));
      for (let part = 0; part < 3; part++) strip.data[row * 4 + part] = this.colors[level * 3 + part];
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

  colorHeat() {
    const out = new ImageData(this.levels.width, this.levels.height);
    const from = this.levels.data, to = out.data;
    for (let at = 0; at < from.length; at += 4) {
      const level = from[at];
      to[at] = this.colors[level * 3];
      to[at + 1] = this.colors[level * 3 + 1];
      to[at + 2] = this.colors[level * 3 + 2];
      to[at + 3] = level < UNSEEN_BELOW ? 0 : 255;
    }
    this.heat.getContext("2d").putImageData(out, 0, 0);
  }

  redraw() {
    if (!this.last) return;
    const { head, rgb, thermal } = this.last;
    const [width, height] = head.size_wh;
    const size = [960, Math.round((960 * height) / width)];
    for (const canvas of [this.rgb, this.thermal, ...this.overs])
      if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    if (thermal) this.colorHeat();
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
    this.overs.forEach((canvas, at) => this.drawOver(canvas.getContext("2d"), head, size, at === 1));
  }

  drawOver(context, head, [width, height], hot) {
    const unit = context.canvas.width / (context.canvas.clientWidth || context.canvas.width);
    const text = 14 * unit, line = 2 * unit;
    context.clearRect(0, 0, width, height);
    context.font = `700 ${text}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    const taken = [];
    for (const box of head.boxes) {
      const [x0, y0, x1, y1] = box.xyxy.map((share, at) => share * (at % 2 ? height : width));
      context.lineWidth = line * 2;
      context.strokeStyle = "#000a";
      context.strokeRect(x0, y0, x1 - x0, y1 - y0);
      context.lineWidth = line;
      context.strokeStyle = colorOf(box.id);
      context.strokeRect(x0, y0, x1 - x0, y1 - y0);
      const words = hot ? heatWords(box.heat) : `${box.class} ${box.score.toFixed(2)}`;
      if (words) this.label(context, words, x0, y0, y1, colorOf(box.id), text, taken, [hot ? width - 64 * unit : width, height]);
    }
    if (hot && head.heat) this.cross(context, head.heat.hottest, "#ffffff", "", [width, height], unit);
    this.spots.forEach((spot, at) => this.cross(context, spot, "#7ef9ff", `${at + 1}`, [width, height], unit));
  }

  label(context, words, x, y0, y1, color, text, taken, [width, height]) {
    const wide = context.measureText(words).width + text * 0.7, high = text * 1.45;
    x = Math.min(Math.max(0, x), width - wide);
    for (const y of [y0 - high, y1, y0 - 2 * high, y1 + high, y0]) {
      if (y < 0 || y + high > height) continue;
      if (taken.some((t) => x < t[2] && t[0] < x + wide && y < t[3] && t[1] < y + high)) continue;
      taken.push([x, y, x + wide, y + high]);
      context.fillStyle = color;
      context.fillRect(x, y, wide, high);
      context.fillStyle = "#000";
      context.fillText(words, x + text * 0.35, y + high / 2);
      return;
    }
  }

  cross(context, spot, color, name, [width, height], unit) {
    const x = spot.x * width, y = spot.y * height, arm = 10 * unit;
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
    if (name) {
      context.fillStyle = color;
      context.fillText(name, x + arm, y - arm);
    }
  }
}

function heatWords(heat) {
  if (!heat) return "";
  const rise = heat.rise === null ? "" : ` Δ${heat.rise > 0 ? "+" : ""}${heat.rise.toFixed(heat.unit === "°C" ? 1 : 0)}`;
  return heat.unit === "°C" ? `${heat.max.toFixed(1)} °C${rise} K` : `${heat.max.toFixed(0)}${rise}`;
}
