// What was found in the pair that is shown: hot spots and the hottest first, and nothing is left out in silence.
import { colorOf } from "./palettes.js";
import { $, degrees, make, rise, say } from "./words.js";

const SHORT = 8;
let open = false, last = null;

export function showBoxes(head) {
  last = head;
  const { boxes } = head;
  const shown = open ? boxes : boxes.slice(0, SHORT);
  const rows = shown.map((box) => {
    const swatch = make("i", { className: "swatch" });
    swatch.style.setProperty("--mark", colorOf(box));
    return make("tr", { className: box.hot ? "hot" : "" }, make("td", {}, swatch, box.class), make("td", { textContent: box.score.toFixed(2) }),
      make("td", { textContent: box.heat ? degrees(box.heat.max, box.heat.unit) : "–" }),
      make("td", { textContent: box.heat ? rise(box.heat.rise, box.heat.unit, "–") : "–" }));
  });
  if (!boxes.length) rows.push(make("tr", {}, make("td", { colSpan: 4, textContent: head.not_looked ? `nothing found; heat was not looked for: ${head.not_looked}` : "nothing found" })));
  $("boxes").replaceChildren(...rows);
  $("boxes-note").hidden = !head.assumed || !boxes.some((box) => box.heat);
  say($("boxes-note"), head.assumed ? `How heat lies on colour is ${head.assumed}. Temperatures under boxes depend on it.` : "");
  const rest = boxes.length - SHORT;
  $("more-boxes").hidden = rest <= 0;
  $("more-boxes").textContent = open ? "show less" : `+ ${rest} more`;
  $("more-boxes").setAttribute("aria-expanded", String(open));
  $("box-count").textContent = boxes.length ? `${boxes.length} found` : "";
}

export function startBoxes() {
  $("more-boxes").onclick = () => {
    open = !open;
    if (last) showBoxes(last);
  };
}
