// Registration by picked points: a frozen pair, the same things tapped in both pictures, and how well it fits.
const $ = (id) => document.getElementById(id);
const dialog = $("register"), thermal = $("pick-thermal"), rgb = $("pick-rgb");
let post, sizes, pictures, points, fit;
const aims = { thermal: null, rgb: null };

export async function openRegister(how) {
  post = how;
  if (!dialog.open) dialog.showModal();
  await restart();
}

async function restart() {
  points = [];
  fit = null;
  aims.thermal = aims.rgb = null;
  const still = await fetch("api/still").then((answer) => answer.json()).catch(() => ({ error: "The program does not answer." }));
  if (!still.rgb || !still.thermal) {
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
    if (aims[name]) aim(context, (aims[name][0] / sizes[name][0]) * canvas.width, (aims[name][1] / sizes[name][1]) * canvas.height);
    canvas.classList.toggle("turn", turn() === name);
  }
}

function aim(context, x, y) {
  for (const [color, wide] of [["#000", 6], ["#fff", 2]]) {
    context.strokeStyle = color;
    context.lineWidth = wide;
    context.beginPath();
    context.moveTo(x - 26, y); context.lineTo(x + 26, y); context.moveTo(x, y - 26); context.lineTo(x, y + 26);
    context.stroke();
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

async function pick(name, x, y) {
  if (!sizes || turn() !== name || x < 0 || y < 0 || x > sizes[name][0] || y > sizes[name][1]) return;
  if (name === "thermal") points.push([x, y]); else points.at(-1).push(x, y);
  aims[name] = null;
  await update();
}

for (const [canvas, name] of [[thermal, "thermal"], [rgb, "rgb"]]) {
  canvas.addEventListener("pointerdown", (event) => {
    if (!sizes) return;
    const area = canvas.getBoundingClientRect(), edge = canvas.clientLeft;
    pick(name, ((event.clientX - area.left - edge) / canvas.clientWidth) * sizes[name][0], ((event.clientY - area.top - edge) / canvas.clientHeight) * sizes[name][1]);
  });
  // Arrows move a cross (with Shift in large steps), Enter picks.
  canvas.addEventListener("keydown", (event) => {
    if (!sizes) return;
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const [width, height] = sizes[name], [x, y] = aims[name] ?? [width / 2, height / 2];
    if (move) {
      const step = (width / 200) * (event.shiftKey ? 10 : 1);
      aims[name] = [Math.min(width, Math.max(0, x + move[0] * step)), Math.min(height, Math.max(0, y + move[1] * step))];
      draw();
    } else if (event.key === "Enter" || event.key === " ") pick(name, x, y);
    else return;
    event.preventDefault();
  });
}
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
