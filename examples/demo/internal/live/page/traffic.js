// The kinds of traffic. Each is a function that sends requests until it ends or its signal is aborted.

// sleep waits, and throws when the signal is aborted.
const sleep = (ms, signal) => new Promise((resolve, reject) => {
  if (signal.aborted) return reject(signal.reason);
  const end = () => { clearTimeout(timer); reject(signal.reason); };
  const timer = setTimeout(() => { signal.removeEventListener("abort", end); resolve(); }, ms);
  signal.addEventListener("abort", end, { once: true });
});

// together sends n requests at once, and returns when all are answered.
const together = (n, send) => Promise.all(Array.from({ length: n }, () => send(1)));

// Each gets: send(client), the signal, settings { limit, window, rate } with the window in milliseconds, now() in the
// server's time, plan(times) for the picture, and say(text).
export const kinds = {
  async steady({ send, signal, settings, say }) {
    say("Steady: one client, until you stop it.");
    for (;;) {
      send(1);
      await sleep(1000 / settings().rate, signal);
    }
  },

  // The first N come at the end of a fixed window, the next N at the start of the one after. What follows shows
  // the counter's overshoot.
  async burst({ send, signal, settings, now, plan, say }) {
    const { limit, window } = settings();
    const lead = Math.max(window / 10, Math.min(window / 3, 150 + 10 * limit));
    const boundary = Math.ceil((now() + lead + 50) / window) * window;
    const first = boundary - lead, second = boundary + window / 10;
    plan([first, second].flatMap((at) => Array(limit).fill(at)));
    say(`${limit} requests come just before the next dashed line, ${limit} just after it.`);
    await sleep(first - now(), signal);
    await together(limit, send);
    await sleep(Math.max(0, second - now()), signal);
    await together(limit, send);
    await sleep(boundary + window / 2 - now(), signal);
    say(`${limit} came just before a dashed line, ${limit} just after it. Now steady requests.`);
    const pause = Math.max(40, window / limit / 2);
    while (now() + pause < boundary + window - 50) {
      await sleep(pause, signal);
      send(1);
    }
  },

  async flood({ send, signal, settings, say }) {
    const rate = Math.min(100, 10 * settings().rate);
    say(`Flood: one client at ${rate} a second, ten times the rate up to 100, for a window and a half.`);
    await repeat(rate, 1.5 * settings().window, signal, () => send(1));
  },

  async clients({ send, signal, settings, say }) {
    const rate = Math.min(100, 4 * settings().rate);
    say(`Many clients: eight at ${rate} a second together, each with the limit for itself, for a window and a half.`);
    await repeat(rate, 1.5 * settings().window, signal, (i) => send(1 + (i % 8)));
  },
};

// repeat calls what at a rate, for a time.
async function repeat(rate, time, signal, what) {
  for (let i = 0; i < (rate * time) / 1000; i++) {
    what(i);
    await sleep(1000 / rate, signal);
  }
}
