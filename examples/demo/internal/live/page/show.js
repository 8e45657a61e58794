// Writes numbers into the page.

// text writes a text where it is another one, so that screen readers hear only news.
export function text(id, value) {
  const element = typeof id === "string" ? document.getElementById(id) : id;
  if (element.textContent !== value) element.textContent = value;
}

const fields = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit",
  "Retry-After", "Content-Type"];

// showAnswer shows the status and the limit fields of a response.
export function showAnswer(response, client, replica) {
  const status = `HTTP/1.1 ${response.status} ${response.statusText}`;
  const lines = [`client ${client} at replica ${replica + 1}`, "", status];
  for (const name of fields) {
    const value = response.headers.get(name);
    if (value !== null) lines.push(`${name}: ${value}`);
  }
  text("answer", lines.join("\n"));
}

// showTable shows what each judge has let through.
export function showTable(s) {
  for (const [name, judge] of Object.entries(s.judges)) {
    const cell = (f) => document.querySelector(`#${name} [data-f=${f}]`);
    text(cell("admitted"), String(judge.admitted));
    text(cell("refused"), String(judge.refused));
    text(cell("worst"), judge.worst ? `${judge.worst} of ${s.settings.limit}` : "0");
    cell("worst").className = judge.worst > s.settings.limit ? "over" : "kept";
  }
  const { log, counter, fixed } = s.judges;
  document.getElementById("line").setAttribute("aria-label", `${s.seq} requests. Worst window with a limit of ` +
    `${s.settings.limit}: log ${log.worst}, counter ${counter.worst}, fixed window ${fixed.worst}.`);
  const parts = s.replicas.map((r) => r.admitted);
  text("replicas", `Admitted by the four replicas: ${parts.join(" + ")} = ${parts.reduce((a, b) => a + b)}`);
}

const words = {
  counted: "counted by the store", remembered: "refused by what the store said before",
  policy: "not counted: the policy decided", fallback: "counted in this process",
};

// showOutage shows the switch, and what each policy answered.
export function showOutage(s) {
  const { away, changed, policies } = s.outage;
  const button = document.getElementById("away");
  button.setAttribute("aria-checked", String(away));
  text(button, away ? "The store is away: give it back" : "The store is there: take it away");
  for (const [name, p] of Object.entries(policies)) {
    const card = document.getElementById(name);
    const newest = p.answers[p.answers.length - 1];
    if (!newest) {
      text(card.querySelector("[data-f=status]"), "–");
      continue;
    }
    text(card.querySelector("[data-f=status]"), String(newest.status));
    text(card.querySelector("[data-f=source]"), words[newest.source] || newest.source);
    text(card.querySelector("[data-f=resumed]"), resumed(away, changed, p));
    card.querySelector("ol").replaceChildren(...p.answers.slice(-30).map((a) => {
      const item = document.createElement("li");
      item.className = `s${a.status}` + (a.source === "policy" || a.source === "fallback" ? " without" : "");
      item.title = `${a.status}, ${words[a.source] || a.source}`;
      return item;
    }));
  }
}

// resumed says when the store counted again.
function resumed(away, changed, p) {
  if (p.uncounted) return away ? "The store is away." : "The store is back; it has not counted yet.";
  if (!away && changed && p.resumed >= changed) {
    return `Counting resumed ${((p.resumed - changed) / 1000).toFixed(1)} s after the store came back.`;
  }
  return "";
}
