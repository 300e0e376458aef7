// Colours of heat and of boxes.
const STOPS = {
  inferno: ["#000004", "#280b53", "#65156e", "#9f2a63", "#d44842", "#f57d15", "#fac127", "#fcffa4"],
  iron: ["#00000a", "#1d0060", "#6a0096", "#b3108c", "#e0442e", "#f58b00", "#ffd000", "#fffbe0"],
  "white hot": ["#000000", "#ffffff"],
  "black hot": ["#ffffff", "#000000"],
  rainbow: ["#000050", "#0040ff", "#00c8c8", "#20d040", "#e8e820", "#ff9000", "#ff2000", "#ffffff"],
};
export const PALETTES = Object.keys(STOPS);
export const UNSEEN_BELOW = 16, LOWEST_LEVEL = 24, HIGHEST_LEVEL = 255; // as in pictures.py

// Hot spots have the one loud colour; nothing else comes near it.
export const HOT = "#ff1f3d";
const CLASS_COLORS = ["#8fd3ff", "#c9b8ff", "#7fe0bd", "#d8dee4", "#e8d79a", "#9fb4ff", "#c8e6a0", "#e3b7d2"];
export const colorOf = (box) => (box.hot ? HOT : CLASS_COLORS[box.id % CLASS_COLORS.length]);

// RGB of a palette at 256 even steps.
export function rampOf(name) {
  const stops = STOPS[name].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const ramp = new Uint8ClampedArray(256 * 3);
  for (let step = 0; step < 256; step++) {
    const at = (step / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(at));
    for (let part = 0; part < 3; part++) ramp[step * 3 + part] = stops[low][part] + (stops[low + 1][part] - stops[low][part]) * (at - low);
  }
  return ramp;
}

// The step of the ramp for each of the 256 levels of a picture: over the frame's own range, or a fixed one.
export function stepsOf(heat, range) {
  const steps = new Uint8Array(256);
  for (let level = 0; level < 256; level++) {
    let share = Math.max(0, level - LOWEST_LEVEL) / (HIGHEST_LEVEL - LOWEST_LEVEL);
    if (range) {
      // The top level is all that is hotter than the frame's range: it is shown as its hottest, never as less.
      const value = level >= HIGHEST_LEVEL - 1 ? heat.hottest.value : heat.low + share * (heat.high - heat.low);
      share = (value - range.low) / (range.high - range.low);
    }
    steps[level] = Math.round(255 * Math.min(1, Math.max(0, share)));
  }
  return steps;
}
