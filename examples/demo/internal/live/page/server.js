// What the page asks of the server. A request that gets no answer at all throws an error.

async function json(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw Object.assign(new Error(body.error || `status ${response.status}`), { status: response.status });
}

const send = (method, path, body) => fetch(path, { method, body: body && JSON.stringify(body), cache: "no-store" });

export const openSession = async (limit, window) => json(await send("POST", "/live/sessions", { limit, window }));
export const state = async (id, after) => json(await send("GET", `/live/sessions/${id}?after=${after}`));
export const request = (id, client) => send("POST", `/live/sessions/${id}/requests?client=${client}`);
export const policy = (id, name) => send("POST", `/live/sessions/${id}/policies/${name}`);
export const takeStore = async (away) => json(await send("PUT", "/live/store", { away }));
