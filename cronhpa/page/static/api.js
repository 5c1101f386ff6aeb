// What the operator answers. The token stays in this tab, and goes into one header.

const KEY = "cronhpa-token";

export class SignInNeeded extends Error {}
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function hasToken() {
  return Boolean(sessionStorage.getItem(KEY));
}

export function keepToken(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

export async function ask(path, {body, signal} = {}) {
  const headers = {Accept: "application/json"};
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  for (let attempt = 0; ; attempt += 1) {
    let answer;
    try {
      answer = await fetch(`api/${path}`, {
        method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-cache", redirect: "error",
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "the operator does not answer");
    }
    if (answer.ok) return answer.json();
    if (answer.status === 401) throw new SignInNeeded();
    if (answer.status === 429 && attempt < 4) {
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
      continue;
    }
    const told = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, told.error ?? `answer ${answer.status}`);
  }
}

// Calls look() again and again, after the ms that it returns or else after `refresh` ms; an error ends it if onError returns false.
export function polling(refresh, onError, look) {
  const ending = new AbortController();
  let timer = 0;

  async function poll() {
    try {
      timer = setTimeout(poll, (await look()) ?? refresh);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (onError(error)) timer = setTimeout(poll, refresh);
    }
  }

  const end = () => {
    ending.abort();
    clearTimeout(timer);
  };
  return {begin: poll, end, signal: ending.signal};
}

// The token for a code that `kubectl cronhpa page` put into the address; the command itself answers, once.
export async function handedOver(code) {
  const answer = await fetch("sign-in", {method: "POST", cache: "no-store", redirect: "error",
    headers: {"Content-Type": "application/json"}, body: JSON.stringify({code})});
  if (!answer.ok) throw new SignInNeeded();
  return (await answer.json()).token;
}

export function objectPath(namespace, name) {
  return `objects/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}
