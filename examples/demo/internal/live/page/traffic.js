// The kinds of traffic. Each is a function that sends requests until it ends or its signal is aborted.

// sleep waits, and throws when the signal is aborted.
const sleep = (ms, signal) => new Promise((resolve, reject) => {
  if (signal.aborted) return reject(signal.reason);
  const end = () => { clearTimeout(timer); reject(signal.reason); };
  const timer = setTimeout(() => { signal.removeEventListener("abort", end); resolve(); }, ms);
  signal.addEventListener("abort", end, { once: true });
});

// together sends n requests at once, and returns when all are answered.
const together = (n, send) => Promise.all(Array.from({ length: n }, send));

// Each gets: send(client, replica), the signal, settings { limit, window, rate } with the window in milliseconds,
// now() in the server's time, and say(text).
export const kinds = {
  async steady({ send, signal, settings, say }) {
    say("Steady: one client, until you stop it.");
    for (;;) {
      send(1, 0);
      await sleep(1000 / settings().rate, signal);
    }
  },

  // The first N come at the end of a fixed window, the next N at the start of the one after. What follows shows
  // the counter's overshoot.
  async burst({ send, signal, settings, now, say }) {
    const { limit, window } = settings();
    const lead = Math.min(window / 3, 150 + 10 * limit);
    const boundary = Math.ceil((now() + lead + 50) / window) * window;
    say(`Burst: waiting ${((boundary - now()) / 1000).toFixed(1)} s for the boundary of a fixed window.`);
    await sleep(boundary - lead - now(), signal);
    await together(limit, () => send(1, 0));
    await sleep(Math.max(0, boundary + 30 - now()), signal);
    await together(limit, () => send(1, 0));
    say(`Burst: ${limit} before and ${limit} after the boundary were sent. Now a window of steady requests.`);
    const pause = Math.max(40, window / limit / 2);
    while (now() + pause < boundary + window - 50) {
      await sleep(pause, signal);
      send(1, 0);
    }
  },

  async flood({ send, signal, settings, say }) {
    const { limit, window } = settings();
    const rate = Math.min(60, Math.max(20, 6 * limit / (window / 1000)));
    say("Flood: one client, many times its limit, for a window and a half.");
    await repeat(rate, 1.5 * window, signal, () => send(1, 0));
  },

  async clients({ send, signal, settings, say }) {
    const { window, rate } = settings();
    say("Many clients: eight, each with the limit for itself, for a window and a half.");
    await repeat(Math.min(60, 4 * rate), 1.5 * window, signal, (i) => send(1 + (i % 8), 0));
  },

  async replicas({ send, signal, settings, say }) {
    const { limit, window } = settings();
    say("One key at four replicas: four limiters on one store, in turn, for a window.");
    await repeat(Math.min(60, Math.max(8, 4 * limit / (window / 1000))), window, signal, (i) => send(1, i % 4));
  },
};

// repeat calls what at a rate, for a time.
async function repeat(rate, time, signal, what) {
  for (let i = 0; i < (rate * time) / 1000; i++) {
    what(i);
    await sleep(1000 / rate, signal);
  }
}
