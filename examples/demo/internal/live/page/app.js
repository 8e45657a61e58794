// The page. It sends real requests, and shows what the server says that it has counted.
import * as server from "./server.js";
import { draw, judges, within } from "./timeline.js";
import { kinds } from "./traffic.js";
import { showAnswer, showLanes, showOutage, text } from "./show.js";

const $ = (id) => document.getElementById(id);
let session = null, last = null, events = [];
let offset = 0; // the server's clock less this one's, in milliseconds
let playing = null; // { kind, abort }
let played = false; // whether the page has played anything; the first burst plays by itself
let probing = null; // the timer of the requests to the three policies
let comeBack = null; // { at, client }: when the last refused client was told to come back
let planned = []; // when the requests of a burst are to come
let at = 0; // what the picture takes for now
let drawn = ""; // what it was last drawn of
let answered = Date.now(); // when the server last answered
let gone = false;

const dark = matchMedia("(prefers-color-scheme: dark)"), still = matchMedia("(prefers-reduced-motion: reduce)");
const now = () => Date.now() + offset;
const settings = () => ({ limit: +$("limit").value, window: 1000 * $("window").value, rate: +$("rate").value });

// begin opens a session with the limit and window of the sliders.
async function begin() {
  stop();
  comeBack = null;
  session = null;
  const { limit, window } = settings();
  session = await server.openSession(limit, window / 1000);
  [events, last, at] = [[], null, 0];
  document.body.dataset.session = session.id;
}

// send sends one request, and shows its answer.
async function send(client) {
  if (!session) return null;
  const { id, store } = session;
  try {
    const response = await server.request(id, client);
    heard();
    if (response.status === 404) { lost(); return null; }
    showAnswer(response, client);
    const wait = response.headers.get("Retry-After");
    comeBack = response.status === 429 && wait ? { at: Date.now() + 1000 * wait, client } : null;
    text("countdown", news(response, store));
    countDown();
    return response;
  } catch { silent(); return null; }
}

// news says what a response means.
function news(response, store) {
  if (response.status === 200) return "200: let in.";
  if (response.status === 429) return "429: refused, and told when to come back:";
  return (response.headers.get("Content-Type") || "").includes("problem")
    ? `503: not let in, since ${store} does not answer.` : "503: the demo itself is asked too much.";
}

async function play(kind) {
  stop();
  if (!session) return;
  const abort = new AbortController();
  played = true;
  playing = { kind, abort };
  buttons();
  try {
    const plan = (times) => { planned = times; };
    await kinds[kind]({ send, signal: abort.signal, settings, now, plan, say: (t) => text("status", t) });
    text("status", "All sent. A client that was refused comes back when it was told to.");
  } catch { /* stopped */ }
  if (playing && playing.abort === abort) { [playing, planned] = [null, []]; buttons(); }
}

function stop() {
  if (!playing) return;
  playing.abort.abort();
  [playing, planned] = [null, []];
  text("status", "Stopped. A client that was refused comes back when it was told to.");
  buttons();
}

function buttons() {
  for (const b of document.querySelectorAll("[data-play]")) {
    b.setAttribute("aria-pressed", String(playing !== null && playing.kind === b.dataset.play));
  }
}

// countDown shows how long a refused client is to wait, and sends its request then, unless other traffic runs.
async function countDown() {
  const left = comeBack ? comeBack.at - Date.now() : 0;
  text("left", left > 0 ? `in ${(left / 1000).toFixed(1)} s` : "");
  if (!comeBack || left > 0 || gone || playing) return;
  const { client } = comeBack;
  comeBack = null;
  const response = await send(client);
  if (response && response.status === 200) text("countdown", "200: it came back when it was told to, and was let in.");
}

// probe sends a request to each of the three policies.
async function probe() {
  if (!session || gone) return;
  try {
    await Promise.all(["open", "closed", "fallback"].map((name) => server.policy(session.id, name)));
  } catch { silent(); }
}

function setProbing(on) {
  clearInterval(probing);
  probing = on ? setInterval(probe, 500) : null;
  $("probe").setAttribute("aria-pressed", String(on));
  if (on) probe();
}

function heard() {
  answered = Date.now();
  if (!gone) return;
  gone = false;
  $("gone").hidden = true;
  document.body.classList.remove("gone");
}

// silent says that the server does not answer.
function silent() {
  gone = true;
  stop();
  setProbing(false);
  $("gone").hidden = false;
  document.body.classList.add("gone");
  const seconds = Math.round((Date.now() - answered) / 1000);
  text("gone", `The server has not answered for ${seconds} s. What you see is from before.`);
}

// lost begins afresh where the server has forgotten the session.
function lost() {
  stop();
  session = null;
  text("status", "The server has forgotten what was counted here: it was started anew, or other pages came. " +
    "This begins afresh.");
}

// poll asks for the state, again and again.
async function poll() {
  try {
    if (!session) await begin();
    const before = Date.now(), asked = session;
    const s = await server.state(asked.id, events.length ? events[events.length - 1].seq : 0);
    heard();
    if (asked === session) take(s, before);
    if (!played && !document.hidden) play("burst");
  } catch (error) {
    if (error.status === 404) { heard(); lost(); }
    else if (error.status) { heard(); text("status", error.message); }
    else silent();
  }
  setTimeout(poll, gone ? 1000 : 200);
}

// take takes a state over. The answer was on its way for about half of the time that the question and it took.
function take(s, before) {
  const after = Date.now();
  offset = s.now - (before + after) / 2;
  events = events.concat(s.events).slice(-4096);
  last = s;
  showLanes(s);
  showOutage(s, session.store);
}

// frame draws the picture where something has changed. It moves while requests come, and rests with the last in sight.
function frame() {
  requestAnimationFrame(frame);
  if (!last || gone) return;
  const length = 1000 * last.settings.window;
  const moves = playing || comeBack || (events.length && events[events.length - 1].at > at - length / 4);
  if (!at || (moves && !held())) at = still.matches ? Math.ceil(now() / 1000) * 1000 : now();
  const back = ($("back").value / 100) * length;
  const { clientWidth } = $("lanes"), { devicePixelRatio } = window;
  const all = [at, back, held() || last.seq, planned.length, clientWidth, devicePixelRatio, dark.matches].join();
  if (all === drawn) return;
  drawn = all;
  text("back-out", back ? `${(-back / 1000).toFixed(1)} s back` : "ends now");
  const view = { now: at, end: at + back, length, planned };
  for (const judge of judges) {
    draw(document.querySelector(`#${judge} canvas`), events, judge, last, view);
    const { admitted, refused } = last.judges[judge];
    const yellow = within(events, judge, view);
    text(document.querySelector(`#${judge} .sums`), `${admitted} let in, ${refused} refused; ` +
      `${Math.max(0, ...yellow)} in the yellow window${yellow.length > 1 ? ", of the busiest client" : ""}`);
  }
}

const held = () => $("pause").getAttribute("aria-pressed") === "true";

// sliders shows what the sliders say. A chosen limit or window begins afresh.
function sliders() {
  const { limit, window, rate } = settings();
  text("limit-out", String(limit));
  text("window-out", `${window / 1000} s`);
  text("rate-out", `${rate}/s`);
}
for (const id of ["limit", "window", "rate"]) $(id).addEventListener("input", sliders);
for (const id of ["limit", "window"]) $(id).addEventListener("change", () => {
  text("status", "A new limit or window begins afresh. Choose a kind of traffic.");
  begin().catch(silent);
});
for (const b of document.querySelectorAll("[data-play]")) b.addEventListener("click", () => play(b.dataset.play));
$("stop").addEventListener("click", stop);
$("pause").addEventListener("click", () => $("pause").setAttribute("aria-pressed", String(!held())));
$("probe").addEventListener("click", () => setProbing(probing === null));
$("away").addEventListener("click", async () => {
  try {
    await server.takeStore($("away").getAttribute("aria-checked") !== "true");
    setProbing(true);
  } catch (error) { if (!error.status) silent(); }
});
sliders();
poll();
setInterval(countDown, 100);
requestAnimationFrame(frame);
