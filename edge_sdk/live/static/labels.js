// Where labels go, so that none covers another and as few as possible lie on a box. Pure geometry.
const meet = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));

function* candidates([x0, y0, x1, y1], wide, high) {
  const gap = high * 0.12;
  for (let step = 0; step < 4; step++) {
    const shift = step * (high + gap);
    for (const x of [x0, x1 - wide]) {
      yield [x, y0 - high - gap - shift];
      yield [x, y1 + gap + shift];
    }
    for (const x of [x1 + gap, x0 - wide - gap]) {
      yield [x, y0 + shift];
      yield [x, y1 - high - shift];
    }
  }
  yield [x0 + gap, y0 + gap];
}

// Returns a rectangle a label, or null where there is no room; the first labels choose first. A box of weight 9
// is covered nine times as unwillingly.
export function placeLabels(boxes, sizes, [width, height], taken = [], weights = []) {
  const placed = [], fixed = [...taken];
  boxes.forEach((box, at) => {
    const [wide, high] = sizes[at];
    let best = null, least = Infinity, order = 0;
    for (const [left, top] of candidates(box, wide, high)) {
      order++;
      const x = Math.min(Math.max(0, left), width - wide);
      if (x < 0 || top < 0 || top + high > height) continue;
      const place = [x, top, x + wide, top + high];
      if (fixed.some((other) => meet(place, other))) continue;
      const cost = boxes.reduce((sum, other, index) => sum + (meet(place, other) / (wide * high)) * (index === at ? 10 : 20) * (weights[index] ?? 1), order);
      if (cost < least) [best, least] = [place, cost];
    }
    if (best) fixed.push(best);
    placed.push(best);
  });
  return placed;
}
