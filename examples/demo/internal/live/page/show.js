// Writes numbers into the page.

// text writes a text where it is another one, so that screen readers hear only news.
export function text(id, value) {
  const element = typeof id === "string" ? document.getElementById(id) : id;
  if (element.textContent !== value) element.textContent = value;
}

const fields = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit",
  "Retry-After", "Content-Type"];

// showAnswer shows the status and the limit fields of a response.
export function showAnswer(response, client) {
  const lines = [`client ${client}`, "", `HTTP/1.1 ${response.status} ${response.statusText}`];
  for (const name of fields) {
    const value = response.headers.get(name);
    if (value !== null) lines.push(`${name}: ${value}`);
  }
  text("answer", lines.join("\n"));
}

// showLanes shows what each judge has let through.
export function showLanes(s) {
  const { limit, window } = s.settings;
  text("rule", `Limit per client: ${limit} requests in any ${window} s`);
  for (const [name, judge] of Object.entries(s.judges)) {
    const worst = document.querySelector(`#${name} .worst`), above = judge.worst - limit;
    const verdict = above > 0 ? `${above} too many` : "limit kept";
    text(worst, judge.worst ? `Worst ${window} s: ${judge.worst} let in, ${verdict}` : "");
    worst.className = above > 0 ? "worst over" : "worst kept";
  }
  text("replicas", `Requests go to four replicas in turn, which share one store. By the log, the replicas let in ` +
    `${s.replicas.join(", ")}: together ${s.judges.log.admitted}.`);
  document.querySelectorAll("#axis span").forEach((span, i) => {
    text(span, i < 2 ? `−${(2 - i) * window} s` : "now");
  });
}

const words = {
  counted: "counted by the store", cached: "refused by what the store said before",
  policy: "not counted: the policy decided", fallback: "counted in this process",
};

// showOutage shows whether the store is there, and what each policy answered.
export function showOutage(s, kind) {
  const { away, answers, policies } = s.outage;
  const silent = `${kind} does not answer`;
  text("store", answers ? `counting in ${kind}` : silent);
  document.getElementById("away").setAttribute("aria-checked", String(away));
  const reached = away ? "The switch keeps these three from their store." : "These three reach their store.";
  const lost = `${silent}: it is down, or cannot be reached. The switch is ${away ? "on too" : "off"}.`;
  text("there", answers ? reached : lost);
  for (const [name, p] of Object.entries(policies)) {
    const card = document.getElementById(name);
    const newest = p.answers[p.answers.length - 1];
    text(card.querySelector("[data-f=status]"), newest ? String(newest.status) : "–");
    text(card.querySelector("[data-f=source]"), newest ? words[newest.source] || newest.source : "");
    text(card.querySelector("[data-f=resumed]"), resumed(s.outage, p));
    const news = JSON.stringify(p.answers);
    if (card.dataset.shown === news) continue;
    card.dataset.shown = news;
    card.querySelector("ol").replaceChildren(...p.answers.map((a) => {
      const item = document.createElement("li");
      item.className = `s${a.status}` + (a.source === "policy" || a.source === "fallback" ? " without" : "");
      item.title = `${a.status}, ${words[a.source] || a.source}`;
      return item;
    }));
  }
}

// resumed says when the store counted again.
function resumed({ away, answers, changed }, p) {
  if (away || !answers) return "";
  if (p.uncounted) return "The store is back; this has not asked it yet.";
  return changed && p.resumed >= changed
    ? `Counting resumed ${((p.resumed - changed) / 1000).toFixed(1)} s after the store came back.` : "";
}
