// The picture: a lane for each judge, with a window that slides over its requests.

export const judges = Array.from(document.querySelectorAll("#lanes article"), (lane) => lane.id);

// within returns how many requests a judge admitted in the window of a view, client by client.
export function within(events, judge, view) {
  const counts = {};
  for (const e of events) {
    if (e.verdicts[judge] === "admitted" && e.at > view.end - view.length && e.at <= view.end) {
      counts[e.client] = (counts[e.client] || 0) + 1;
    }
  }
  return Object.values(counts);
}

// draw draws the lane of a judge: two windows before now, and one after it. view has the time now and the end of the
// yellow window, in the server's milliseconds, its length, and the times of the requests to come.
export function draw(canvas, events, judge, state, view) {
  const css = getComputedStyle(document.documentElement);
  const color = (name) => css.getPropertyValue(`--${name}`).trim();
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const g = canvas.getContext("2d");
  g.scale(ratio, ratio);
  const begin = view.now - 2 * view.length;
  const x = (at) => ((at - begin) / (3 * view.length)) * width;
  const y = (number) => height * (0.09 + 0.091 * ((number * 7) % 10)); // many at once are spread in height
  g.fillStyle = color("now");
  g.globalAlpha = 0.28;
  g.fillRect(x(view.end - view.length), 0, width / 3, height);
  g.globalAlpha = 1;
  g.strokeStyle = color("quiet");
  line(g, x(view.now), height);
  g.setLineDash([4, 4]);
  for (let at = Math.ceil(begin / view.length) * view.length; at < view.now + view.length; at += view.length) {
    line(g, x(at), height);
  }
  g.setLineDash([]);
  g.lineWidth = 1.5;
  view.planned.forEach((at, i) => { if (at > view.now) disc(g, x(at), y(i)).stroke(); });
  const worst = state.judges[judge];
  for (const e of events) {
    if (e.at > begin && e.at <= view.now) mark(g, color, e.verdicts[judge], x(e.at), y(e.seq));
  }
  if (worst.worst > 0 && worst.to > begin) {
    g.strokeStyle = color(worst.worst > state.settings.limit ? "out" : "in");
    g.lineWidth = 2;
    g.strokeRect(x(worst.from) - 7, 1, x(worst.to) - x(worst.from) + 14, height - 2);
  }
}

function line(g, x, height) {
  g.beginPath();
  g.moveTo(x, 0);
  g.lineTo(x, height);
  g.stroke();
}

function disc(g, x, y) {
  g.beginPath();
  g.arc(x, y, 3, 0, 2 * Math.PI);
  return g;
}

// mark draws a request: a disc if it was admitted, a diamond if not.
function mark(g, color, verdict, x, y) {
  if (verdict === "admitted") {
    g.fillStyle = color("in");
    disc(g, x, y).fill();
    return;
  }
  g.strokeStyle = color(verdict === "refused" ? "out" : "quiet");
  g.beginPath();
  g.moveTo(x - 3.5, y);
  g.lineTo(x, y - 3.5);
  g.lineTo(x + 3.5, y);
  g.lineTo(x, y + 3.5);
  g.closePath();
  g.stroke();
}
