// What a viewer may change: the route, a recording, the registration. Nothing is offered before it is known.
import { $, number, post, say } from "./words.js";
import { openRegister } from "./register.js";

let recordingOn = null;

export function showControl({ control }) {
  for (const button of $("force").children) {
    button.disabled = false;
    button.setAttribute("aria-pressed", String((control.force ?? "") === button.dataset.route));
  }
  const { recording, registration } = control;
  recordingOn = recording.on;
  $("record").classList.toggle("on", recording.on);
  $("record").disabled = !recording.allowed && !recording.on;
  $("record").setAttribute("aria-pressed", String(recording.on));
  say($("record-text"), recording.on ? `stop: ${recording.file}  ${recording.pairs} pairs, ${number(recording.mb)} MB` + (recording.left_out ? `, ${recording.left_out} left out` : "") + (recording.held ? `. Nothing is written now: ${recording.held}` : "")
    : recording.ended && recording.ended !== "closed" ? `ended: ${recording.ended}` : recording.allowed ? "start recording" : "no place for recordings");
  say($("registration-text"), registration.origin ? `in use: ${registration.origin}${registration.saved ? `, saved as ${registration.saved}` : ", not saved"}` : "");
  $("open-register").disabled = false;
}

// Without a connection, or where the card has failed, nobody knows whether it records.
export function forgetControl() {
  recordingOn = null;
  for (const button of [...$("force").children, $("record"), $("open-register")]) button.disabled = true;
  $("record").classList.remove("on");
  say($("record-text"), "unknown");
}

async function ask(path, body) {
  try {
    await post(path, body);
    say($("message"), "");
  } catch (error) { say($("message"), error instanceof TypeError ? "The program does not answer: nothing was changed." : error.message); }
}

export function startControl() {
  for (const button of $("force").children) button.onclick = () => ask("api/force", { route: button.dataset.route || null });
  $("record").onclick = () => { if (recordingOn !== null) ask("api/record", { on: !recordingOn }); };
  $("open-register").onclick = () => openRegister(post);
  forgetControl();
}
