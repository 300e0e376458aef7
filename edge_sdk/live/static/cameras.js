// The state of both cameras: in their card, over their pictures, and what of it belongs on top of the page.
import { $, clock, make, number, say } from "./words.js";

let last = null;

export function showCameras(now) {
  last = now;
  $("cameras").replaceChildren(...now.cameras.map((camera) => {
    const ok = camera.state === "ok";
    cover(camera.name, ok ? null : [`${camera.name} ${camera.state}`, camera.detail]);
    return row(camera, ok ? "ok" : "bad", camera.state, [camera.detail, camera.ffc && `FFC ${camera.ffc}`].filter(Boolean).join("; "));
  }));
}

// Without a connection nobody knows how the cameras are: what they were is said as old.
export function forgetCameras(since) {
  if (!last) return;
  $("cameras").replaceChildren(...last.cameras.map((camera) => row(camera, "off", "unknown", `was ${camera.state} at ${clock(since)}`, true)));
}

function row(camera, lamp, state, detail, old = false) {
  return make("li", { className: lamp }, make("i"), make("span", { textContent: camera.name }), make("b", { textContent: state }),
    make("span", { textContent: old || camera.fps === null ? "" : `${number(camera.fps)} /s` }), make("small", { textContent: detail }));
}

function cover(name, words) {
  const overlay = document.querySelector(`#screen-${name.toLowerCase()} .lost`);
  if (!overlay) return;
  overlay.hidden = !words;
  if (words) overlay.replaceChildren(words[0], make("small", { textContent: words[1] }));
}

export function showBanner(now) {
  const lost = now.cameras.filter((camera) => camera.state !== "ok").map((camera) => `${camera.name} ${camera.state}`);
  const forced = now.control.force ? `Route ${now.control.force} is forced by a viewer.` : "";
  const text = now.silent ? "No pairs are coming" : lost.length ? lost.join(", ") : forced;
  const banner = $("banner");
  banner.hidden = !text;
  say(banner, text);
  banner.classList.toggle("mild", !now.silent && !lost.length);
  document.body.classList.toggle("silent", now.silent);
}
