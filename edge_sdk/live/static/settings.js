// How a viewer likes to see it: palette, fixed range, degrees, theme, full screen. Kept in this browser alone.
import { PALETTES } from "./palettes.js";
import { $, make, meant, say, shown, shownUnit, units } from "./words.js";

const KEY = "edge-sdk-view";
const THEMES = ["auto", "light", "dark"];

function load() {
  try { return JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { return {}; }
}

// What is wrong with the connection or a camera is said on a full screen too, which shows nothing but one element.
function banners(full) {
  if (full) $("watch").prepend($("link"), $("banner"));
  else document.querySelector("main").before($("link"), $("banner"));
}

export class Settings {
  constructor(screens, changed) {
    Object.assign(this, { screens, changed, kept: { palette: PALETTES[0], theme: "auto", unit: "°C", blend: 0, ranges: {}, ...load() } });
    $("palette").append(...PALETTES.map((name) => make("option", { textContent: name })));
    $("palette").onchange = () => this.set({ palette: $("palette").value });
    $("blend").oninput = () => this.set({ blend: +$("blend").value });
    $("theme").onclick = () => this.set({ theme: THEMES[(THEMES.indexOf(this.kept.theme) + 1) % THEMES.length] });
    $("unit").onclick = () => this.set({ unit: this.kept.unit === "°C" ? "°F" : "°C" });
    $("fixed").onclick = () => this.fix();
    for (const name of ["low", "high"]) $(`range-${name}`).onchange = () => this.range(name);
    $("full").hidden = !document.fullscreenEnabled;
    $("full").onclick = () => (document.fullscreenElement ? document.exitFullscreen() : $("watch").requestFullscreen());
    document.addEventListener("fullscreenchange", () => {
      $("full").setAttribute("aria-pressed", String(!!document.fullscreenElement));
      banners(!!document.fullscreenElement);
      this.screens.redraw();
    });
    this.apply();
  }

  set(change) {
    this.kept = { ...this.kept, ...change };
    try { localStorage.setItem(KEY, JSON.stringify(this.kept)); } catch { /* a browser that keeps nothing */ }
    this.apply();
    this.changed();
  }

  get heat() { return this.screens.last?.head.heat ?? null; }

  // Fixes the range that is shown now, or lets it follow each frame again.
  fix() {
    const { heat, kept } = this;
    if (!heat) return;
    const ranges = { ...kept.ranges };
    if (ranges[heat.unit]) delete ranges[heat.unit];
    else ranges[heat.unit] = { low: Math.floor(heat.low), high: Math.ceil(Math.max(heat.high, heat.hottest.value)) };
    this.set({ ranges });
  }

  range(name) {
    const unit = this.heat?.unit, value = $(`range-${name}`).valueAsNumber;
    if (!unit || !this.kept.ranges[unit] || !Number.isFinite(value)) return;
    this.set({ ranges: { ...this.kept.ranges, [unit]: { ...this.kept.ranges[unit], [name]: meant(value, unit) } } });
  }

  apply() {
    const { kept } = this;
    units.fahrenheit = kept.unit === "°F";
    document.documentElement.dataset.theme = THEMES.includes(kept.theme) ? kept.theme : "auto";
    say($("theme"), `theme: ${kept.theme}`);
    say($("unit"), kept.unit);
    $("palette").value = PALETTES.includes(kept.palette) ? kept.palette : PALETTES[0];
    $("blend").value = kept.blend;
    this.screens.blend = kept.blend / 100;
    this.screens.ranges = kept.ranges;
    this.screens.setPalette($("palette").value);
    this.showRange();
  }

  // The legend beside the thermal picture, and the inputs of a fixed range.
  showRange() {
    const { heat } = this, unit = heat?.unit, range = unit && this.kept.ranges[unit];
    $("fixed").setAttribute("aria-pressed", String(!!range));
    $("fixed").disabled = !heat;
    $("range").hidden = !range;
    if (range)
      for (const name of ["low", "high"]) {
        const input = $(`range-${name}`);
        if (document.activeElement !== input) input.value = +shown(range[name], unit).toFixed(1);
      }
    say($("range-unit"), range ? (range.high > range.low ? shownUnit(unit) : "the second must be higher: not used") : "");
  }
}
