// The picture of the requests: a lane for each judge, with a window that slides over them.

export const judges = ["log", "counter", "fixed"];
const names = { log: "log", counter: "counter", fixed: "fixed window" };

// inWindow returns how many requests a judge admitted in the window that ends at a time.
export const inWindow = (events, judge, end, length) =>
  events.filter((e) => e[judge] === "admitted" && e.at > end - length && e.at <= end).length;

// draw draws the lanes. view has the time now and the window's end, in the server's milliseconds, and its length.
export function draw(canvas, events, state, view) {
  const css = getComputedStyle(document.documentElement);
  const color = (name) => css.getPropertyValue(`--${name}`).trim();
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "12px system-ui, sans-serif";
  const shown = 3.2 * view.length;
  const begin = view.now - shown;
  const x = (at) => ((at - begin) / shown) * (width - 8);
  const lane = height / judges.length;
  judges.forEach((judge, i) => {
    const top = i * lane + 18, bottom = (i + 1) * lane - 4, middle = (top + bottom) / 2;
    g.strokeStyle = color("line");
    line(g, 0, middle, width, middle);
    g.fillStyle = color("now");
    g.globalAlpha = 0.28;
    g.fillRect(x(view.end - view.length), top, x(view.end) - x(view.end - view.length), bottom - top);
    g.globalAlpha = 1;
    boundaries(g, color("quiet"), x, begin, view, top, bottom);
    const worst = state.judges[judge];
    if (worst.worst > 0 && worst.from > begin) {
      g.strokeStyle = color("worst");
      g.lineWidth = 2;
      g.strokeRect(x(worst.from) - 5, top + 2, Math.max(2, x(worst.to) - x(worst.from)) + 10, bottom - top - 4);
      g.lineWidth = 1;
    }
    for (const e of events) {
      if (e.at > begin) mark(g, color, e, judge, x(e.at), middle, bottom - top);
    }
    g.fillStyle = color("text");
    const count = inWindow(events, judge, view.end, view.length);
    g.fillText(`${names[judge]}: ${count} of ${state.settings.limit} in the window`, 2, top - 5);
  });
}

function line(g, x1, y1, x2, y2) {
  g.beginPath();
  g.moveTo(x1, y1);
  g.lineTo(x2, y2);
  g.stroke();
}

// boundaries draws where fixed windows begin.
function boundaries(g, color, x, begin, view, top, bottom) {
  g.strokeStyle = color;
  g.setLineDash([4, 4]);
  for (let at = Math.ceil(begin / view.length) * view.length; at < view.now; at += view.length) {
    line(g, x(at), top, x(at), bottom);
  }
  g.setLineDash([]);
}

// mark draws a request: a disc if it was admitted, a diamond if not. Many at once are spread in height.
function mark(g, color, e, judge, x, middle, height) {
  const y = middle + (((e.seq * 5) % 9) - 4) * (height / 12);
  g.beginPath();
  if (e[judge] === "admitted") {
    g.fillStyle = color("in");
    g.arc(x, y, 3.5, 0, 2 * Math.PI);
    g.fill();
    return;
  }
  g.strokeStyle = color("out");
  g.moveTo(x - 3.5, y);
  g.lineTo(x, y - 3.5);
  g.lineTo(x + 3.5, y);
  g.lineTo(x, y + 3.5);
  g.closePath();
  g.stroke();
}
