// Registration by picked points: a frozen pair, the same things tapped in both pictures, and how well it fits.
const $ = (id) => document.getElementById(id);
const dialog = $("register"), thermal = $("pick-thermal"), rgb = $("pick-rgb");
let post, sizes, pictures, points, fit;

export async function openRegister(how) {
  post = how;
  if (!dialog.open) dialog.showModal();
  await restart();
}

async function restart() {
  points = [];
  fit = null;
  const answer = await fetch("api/still");
  const still = await answer.json();
  if (!answer.ok || !still.rgb || !still.thermal) {
    $("fit").textContent = still.error ?? "Both cameras must give a frame; one does not now.";
    sizes = null;
    return;
  }
  sizes = { thermal: still.thermal.size_wh, rgb: still.rgb.size_wh };
  pictures = { thermal: await load(still.thermal.jpeg), rgb: await load(still.rgb.jpeg) };
  for (const [canvas, name] of [[thermal, "thermal"], [rgb, "rgb"]]) {
    canvas.width = 900;
    canvas.height = Math.round((900 * sizes[name][1]) / sizes[name][0]);
  }
  await update();
}

async function load(url) {
  const picture = new Image();
  picture.src = url;
  await picture.decode();
  return picture;
}

function turn() { return points.length && points.at(-1).length === 2 ? "rgb" : "thermal"; }

function draw() {
  for (const [canvas, name, at] of [[thermal, "thermal", 0], [rgb, "rgb", 2]]) {
    const context = canvas.getContext("2d");
    context.drawImage(pictures[name], 0, 0, canvas.width, canvas.height);
    context.font = "700 22px system-ui, sans-serif";
    points.forEach((point, index) => {
      if (point.length <= at) return;
      const x = (point[at] / sizes[name][0]) * canvas.width, y = (point[at + 1] / sizes[name][1]) * canvas.height;
      for (const [color, wide] of [["#000", 6], ["#f0c419", 3]]) {
        context.strokeStyle = color;
        context.lineWidth = wide;
        context.beginPath();
        context.arc(x, y, 11, 0, 7);
        context.moveTo(x - 18, y); context.lineTo(x + 18, y); context.moveTo(x, y - 18); context.lineTo(x, y + 18);
        context.stroke();
      }
      const off = name === "rgb" && fit?.residual_px[index] !== undefined ? ` ${fit.residual_px[index].toFixed(1)} px` : "";
      context.lineWidth = 5;
      context.strokeStyle = "#000";
      context.strokeText(`${index + 1}${off}`, x + 16, y - 14);
      context.fillStyle = "#f0c419";
      context.fillText(`${index + 1}${off}`, x + 16, y - 14);
    });
    canvas.classList.toggle("turn", turn() === name);
  }
}

async function update() {
  const whole = points.filter((point) => point.length === 4);
  fit = null;
  if (whole.length >= 4) {
    try {
      fit = await post("api/registration/fit", { points: whole });
      $("fit").textContent = `residual ${fit.rms_px.toFixed(2)} px (root mean square, ${whole.length} points)\n${fit.note}`;
    } catch (error) { $("fit").textContent = error.message; }
  } else $("fit").textContent = `${whole.length} of 4 or more pairs of points; next: ${turn() === "rgb" ? "the same thing in the RGB picture" : "the thermal picture"}`;
  $("apply").disabled = !fit;
  draw();
}

for (const [canvas, name] of [[thermal, "thermal"], [rgb, "rgb"]])
  canvas.addEventListener("pointerdown", async (event) => {
    if (!sizes || turn() !== name) return;
    const area = canvas.getBoundingClientRect();
    const edge = canvas.clientLeft, inside = [canvas.clientWidth, canvas.clientHeight];
    const x = ((event.clientX - area.left - edge) / inside[0]) * sizes[name][0];
    const y = ((event.clientY - area.top - edge) / inside[1]) * sizes[name][1];
    if (x < 0 || y < 0 || x > sizes[name][0] || y > sizes[name][1]) return;
    if (name === "thermal") points.push([x, y]); else points.at(-1).push(x, y);
    await update();
  });
$("undo").onclick = async () => { if (!sizes) return; if (turn() === "rgb") points.at(-1).length = 0; else points.pop(); points = points.filter((point) => point.length); await update(); };
$("restart").onclick = restart;
const say = async (act) => { try { $("fit").textContent = await act(); } catch (error) { $("fit").textContent = error.message; } };
$("apply").onclick = () => say(async () => {
  await post("api/registration/apply", { points: points.filter((point) => point.length === 4) });
  $("save").disabled = false;
  return "Applied: every pair from now on is laid by these points.";
});
$("save").onclick = () => say(async () => `Saved as ${(await post("api/registration/save", {})).file}. Use it again with ?registration=FILE in the source's URI.`);
$("reset").onclick = () => say(async () => { await post("api/registration/reset", {}); $("save").disabled = true; return "The source's own registration is in use again."; });
