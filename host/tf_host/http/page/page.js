// The page at "/": a chat that shows which tokens a draft brought. Text is only ever set as text.
"use strict";

const $ = (id) => document.getElementById(id);
const KEY = "tf-plugins.key";
const TARGET = "target";
const NAMES = { [TARGET]: "model", drafter: "drafter", copy: "copies", grammar: "grammar" };

const chat = { messages: [], counts: new Map(), running: null, live: null, model: null, number: 0 };

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const whole = (n) => n.toLocaleString("en-US");
const percent = (part, of) => (of ? `${Math.round((100 * part) / of)}%` : "–");
const plural = (n, noun) => `${whole(n)} ${noun}${n === 1 ? "" : "s"}`;

function bytes(n) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (n < 1024) return `${unit === "B" ? n : n.toFixed(n < 10 ? 1 : 0)} ${unit}`;
    n /= 1024;
  }
  return `${n.toFixed(n < 10 ? 2 : 1)} GiB`;
}

// ---- The server ---------------------------------------------------------------------------------------------------

class Problem extends Error {
  constructor(message, { status = 0, code = null, retryS = null } = {}) {
    super(message);
    Object.assign(this, { status, code, retryS });
  }
}

function headers(more = {}) {
  const key = sessionStorage.getItem(KEY);
  if (!key) return more;
  const octets = String.fromCharCode(...new TextEncoder().encode(key)); // a header holds bytes, a key any text
  return { ...more, Authorization: `Bearer ${octets}` };
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: headers(options.headers), cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server cannot be reached; see whether it still runs, then try again.", { code: "unreachable" });
  }
  if (answer.ok || path === "health") return answer;
  const body = await answer.json().catch(() => ({}));
  const said = body.error || {};
  const retryS = Number(answer.headers.get("Retry-After")) || null;
  throw new Problem(said.message || `The server answered ${answer.status}.`, { status: answer.status, code: said.code, retryS });
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Problem("The reply broke off; see whether the server still runs, then try again.", { code: "broken" });
      held += value;
      const lines = held.split("\n");
      held = lines.pop();
      for (const line of lines) {
        const reading = /^: reading (\d+)\/(\d+)/.exec(line);
        if (reading) yield { reading: [Number(reading[1]), Number(reading[2])] };
        else if (line === "data: [DONE]") return;
        else if (line.startsWith("data: ")) yield parsed(line.slice(6));
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// A seed has 64 bits, more than a JavaScript number holds: it is kept as its digits.
function parsed(text) {
  const event = JSON.parse(text);
  if (event.tf) event.tf.seed = /"tf":\{[^{}]*"seed":(-?\d+)/.exec(text)?.[1];
  return event;
}

// ---- A turn -------------------------------------------------------------------------------------------------------

class Turn {
  constructor(role, text = "") {
    this.node = make("article", `turn ${role}`);
    this.node.setAttribute("aria-label", role === "user" ? "You" : "Reply");
    if (role !== "user") this.node.append(make("span", "who", chat.model || "Reply"));
    this.thought = this.node.appendChild(make("div", "thought text"));
    this.text = this.node.appendChild(make("div", "text", text));
    this.text.dir = "auto";
    if (role === "user") this.thought.remove();
    else this.facts = this.node.appendChild(make("p", "facts"));
    this.content = text;
    this.run = null;
    $("log").append(this.node);
  }

  // Tokens side by side from one source share a span, which is what that source brought to one round.
  add(text, source, into = this.text) {
    if (!this.run || this.run.dataset.of !== source || this.run.parentNode !== into) {
      this.run = into.appendChild(make("span", source === TARGET ? "" : "kept"));
      this.run.dataset.of = source;
      if (source !== TARGET) this.run.dataset.source = source;
      this.run.tokens = 0;
    }
    this.run.append(text);
    this.run.tokens += 1;
    if (source !== TARGET) this.run.title = `${NAMES[source] || source}: ${plural(this.run.tokens, "token")} kept`;
  }

  busy(on) {
    this.node.classList.toggle("busy", on);
    this.node.setAttribute("aria-busy", String(on));
  }

  say(...parts) {
    this.facts.replaceChildren(...parts.filter(Boolean).map((part) => make("span", "", part)));
  }
}

class Live {
  constructor(turn) {
    Object.assign(this, { turn, tokens: 0, rounds: 0, kept: 0, open: false, begun: 0, last: 0 });
  }

  count(sources) {
    const now = performance.now();
    this.begun ||= now;
    this.last = now;
    for (const source of sources) {
      this.tokens += 1;
      if (!this.open) this.rounds += 1;
      this.open = source !== TARGET; // a round ends with the model's own draw
      if (source !== TARGET) this.kept += 1;
      chat.counts.set(source, (chat.counts.get(source) || 0) + 1);
    }
    drawSoon();
  }

  get rate() {
    const seconds = (this.last - this.begun) / 1000;
    return this.tokens > 1 && seconds > 0.05 ? (this.tokens - 1) / seconds : null;
  }

  show() {
    this.turn.say(
      plural(this.tokens, "token"),
      this.rate && `${this.rate.toFixed(1)} tokens/s`,
      plural(this.rounds, "round"),
      `${percent(this.kept, this.tokens)} from drafts`,
    );
  }
}

function finalFacts(turn, tf, usage, reason) {
  const rate = tf.timings.tokens_per_second;
  turn.say(
    plural(usage.completion_tokens, "token"),
    rate && `${rate.toFixed(1)} tokens/s`,
    plural(tf.rounds, "round"),
    tf.drafted ? `kept ${whole(tf.accepted)} of ${whole(tf.drafted)} drafted (${percent(tf.accepted, tf.drafted)})` : "no drafts",
    tf.cached_tokens ? `${whole(tf.cached_tokens)} prompt tokens from a kept state` : null,
    `seed ${tf.seed}`,
    reason === "length" ? "ended at the token limit" : null,
  );
}

// ---- Sending ------------------------------------------------------------------------------------------------------

function options() {
  const body = {};
  for (const name of ["temperature", "max_tokens"]) {
    const field = $(name);
    if (!field.checkValidity()) return invalid(field);
    if (field.value !== "") body[name] = Number(field.value);
  }
  if (!$("seed").checkValidity()) return invalid($("seed"));
  if (!$("draft").checked) body.draft = false;
  return body;
}

function invalid(field) {
  field.closest("details").open = true;
  field.reportValidity();
  return null;
}

function bodyOf(request) {
  const seed = $("seed").value.trim();
  const text = JSON.stringify(request);
  return seed ? `${text.slice(0, -1)},"seed":${BigInt(seed)}}` : text;
}

async function send(text) {
  const more = options();
  if (chat.running || !more) return;
  removeErrors();
  $("empty").hidden = true;
  const asked = new Turn("user", text);
  const turn = new Turn("assistant");
  const live = (chat.live = new Live(turn));
  const running = (chat.running = new AbortController());
  const number = chat.number;
  const messages = [...chat.messages, { role: "user", content: text }];
  setRunning(true);
  turn.busy(true);
  turn.say("waiting");
  scroll(true);
  announce("Waiting for the reply.");
  pollIn(300);
  try {
    const body = { model: chat.model || undefined, messages, stream: true, return_token_ids: true };
    const answer = await ask("v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: bodyOf({ ...body, stream_options: { include_usage: true }, ...more }),
      signal: running.signal,
    });
    await follow(answer, turn, live);
    chat.messages = [...messages, { role: "assistant", content: turn.content }];
    announce(turn.content || "The reply is empty.");
  } catch (error) {
    if (chat.number !== number) return; // a new chat was begun: nothing of this one is wanted
    const stopped = error.name === "AbortError";
    if (stopped && live.tokens) {
      live.show();
      turn.facts.append(make("span", "", "stopped"));
      chat.messages = [...messages, { role: "assistant", content: turn.content }];
    } else {
      for (const part of [asked, turn]) live.tokens ? part.node.classList.add("failed") : part.node.remove();
      if (!$("prompt").value) setPrompt(text);
      $("empty").hidden = document.querySelector("#log .turn") !== null;
    }
    if (stopped) announce("Stopped.");
    else showProblem(error);
  } finally {
    turn.busy(false);
    if (chat.running === running) endRun();
  }
}

function endRun() {
  chat.running = chat.live = null;
  setRunning(false);
  drawNow();
  pollIn(0);
}

async function follow(answer, turn, live) {
  let usage = null;
  let reason = null;
  for await (const event of events(answer)) {
    if (event.error) throw new Problem(event.error.message, { code: event.error.code });
    if (event.reading) turn.say(`reading the prompt, ${whole(event.reading[0])} of ${whole(event.reading[1])} tokens`);
    usage = event.usage || usage;
    for (const choice of event.choices || []) {
      reason = choice.finish_reason || reason;
      show(choice, turn, live);
    }
    if (event.tf) finalFacts(turn, event.tf, usage, reason);
  }
}

function show(choice, turn, live) {
  const sources = choice.sources || [];
  const pieces = choice.pieces || [];
  const { content = "", reasoning_content: thought = "" } = choice.delta;
  if (sources.length) live.count(sources);
  const into = thought ? turn.thought : turn.text;
  const text = thought || content || "";
  turn.content += content || "";
  if (pieces.join("") === text) pieces.forEach((piece, i) => piece && turn.add(piece, sources[i], into));
  else if (text) turn.add(text, TARGET, into); // marks around the reasoning were taken out: no token to pin it on
}

function showProblem(error) {
  const problem = error instanceof Problem ? error : new Problem("The page made a mistake; reload it and try again.");
  if (!(error instanceof Problem)) console.error(error);
  $("empty").hidden = true;
  const box = make("div", "turn error");
  box.setAttribute("role", "alert");
  const message = problem.message.charAt(0).toUpperCase() + problem.message.slice(1);
  box.append(make("p", "", message.replace(/([^.!?])$/, "$1.")));
  const way = (name, act) => {
    const button = make("button", "quiet", name);
    button.type = "button";
    button.addEventListener("click", () => (box.remove(), act()));
    box.append(button);
  };
  if (problem.status === 401) way("Enter a key", () => askForKey(true));
  else if (problem.code === "context_length_exceeded") {
    if (chat.messages.length) way("New chat", () => newChat(true));
    way("Edit the message", () => $("prompt").focus());
  } else way("Try again", submit);
  $("log").append(box);
  scroll(true);
  if (problem.status === 401) askForKey(true);
}

function removeErrors() {
  for (const box of document.querySelectorAll("#log .error, #log .failed")) box.remove();
}

function submit() {
  const text = $("prompt").value.trim();
  if (!text || chat.running || !options()) return;
  setPrompt("");
  send(text);
}

function stop() {
  chat.running?.abort();
}

function newChat(keepPrompt = false) {
  stop();
  chat.number += 1;
  endRun();
  chat.messages = [];
  chat.counts.clear();
  for (const turn of document.querySelectorAll("#log .turn")) turn.remove();
  $("empty").hidden = false;
  if (keepPrompt !== true) setPrompt("");
  drawNow();
  $("prompt").focus();
}

// ---- What is drawn ------------------------------------------------------------------------------------------------

function setRunning(on) {
  $("stop").hidden = !on;
  $("send").hidden = on;
}

function setPrompt(text) {
  $("prompt").value = text;
  fitPrompt();
}

function fitPrompt() {
  const field = $("prompt");
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
}

function announce(text) {
  $("announce").textContent = text;
}

let following = true;

function scroll(force = false) {
  const log = $("log");
  if (force) following = true;
  if (following) log.scrollTop = log.scrollHeight;
}

let drawing = false;

function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    chat.live?.show();
    drawNow();
  });
}

function drawNow() {
  drawLegend();
  scroll();
}

function drawLegend() {
  const total = [...chat.counts.values()].reduce((sum, n) => sum + n, 0);
  const others = [...chat.counts.keys()].filter((source) => !(source in NAMES));
  const rows = [TARGET, "drafter", "copy", "grammar", ...others].map((source) => {
    const count = chat.counts.get(source) || 0;
    const row = make("li");
    const swatch = make("span", `swatch ${source === TARGET ? "plain" : "kept"}`, "abc");
    if (source !== TARGET) swatch.dataset.source = source;
    swatch.setAttribute("aria-hidden", "true");
    row.append(swatch, make("span", "", NAMES[source] || source));
    row.append(make("span", "count", whole(count)), make("span", "share", percent(count, total)));
    return row;
  });
  $("legend").replaceChildren(...rows);
}

function facts(list, rows) {
  list.replaceChildren(...rows.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
}

function meter(name, text, part, of, source) {
  const box = make("div", "meter");
  const line = make("div");
  line.append(make("span", "", name), make("span", "", text));
  const bar = make("progress");
  bar.max = of || 1;
  bar.value = part;
  bar.setAttribute("aria-label", `${name}: ${text}`);
  if (source) box.dataset.source = source;
  box.append(line, bar);
  return box;
}

function drawHealth(health) {
  const rows = [];
  if ("parallel" in health) rows.push(["Lanes busy", `${(health.decoding || 0) + (health.reading || 0)} of ${health.parallel}`]);
  if ("waiting" in health) rows.push(["Waiting", whole(health.waiting)]);
  if ("rounds" in health) rows.push(["Rounds", whole(health.rounds)]);
  if (health.rounds) rows.push(["Tokens a round", (health.tokens / health.rounds).toFixed(2)]);
  facts($("server"), rows);
  const drafted = Object.entries(health.drafted || {});
  $("drafts").replaceChildren(
    ...drafted.map(([source, count]) => {
      const kept = (health.kept || {})[source] || 0;
      const text = `${whole(kept)} of ${whole(count)} (${percent(kept, count)})`;
      return meter(`Kept, ${NAMES[source] || source}`, text, kept, count, source);
    }),
  );
  const kinds = Object.entries(health.ledger || {});
  const used = kinds.reduce((sum, [, n]) => sum + n, 0);
  $("ledger").replaceChildren();
  if (!health.budget) return;
  facts($("ledger"), [...kinds.map(([kind, n]) => [kind.charAt(0).toUpperCase() + kind.slice(1), bytes(n)])]);
  const bar = meter("Memory", `${bytes(used)} of ${bytes(health.budget)}`, used, health.budget);
  $("drafts").append(bar);
}

function drawState(text, state) {
  $("state").textContent = text;
  $("state").dataset.state = state;
}

// ---- Health, key and start ----------------------------------------------------------------------------------------

let timer = null;

function pollIn(ms) {
  clearTimeout(timer);
  timer = setTimeout(poll, ms);
}

async function poll() {
  if (!document.hidden) {
    try {
      const answer = await ask("health");
      const health = await answer.json();
      const words = { ok: "ready", draining: "shutting down", failed: "failed; see the server's log" };
      drawState(words[health.status] || health.status, health.status === "ok" ? "ok" : "bad");
      drawHealth(health);
    } catch {
      drawState("not reachable", "bad");
    }
  }
  pollIn(chat.running ? 1000 : 4000);
}

async function learnModel() {
  try {
    const list = await (await ask("v1/models")).json();
    chat.model = list.data[0].id;
    $("model").textContent = chat.model;
    document.title = `${chat.model} · tf-plugins`;
    $("max_tokens").max = list.data[0].max_model_len;
    $("max_tokens").placeholder = `to ${whole(list.data[0].max_model_len)}`;
  } catch (error) {
    if (error.status === 401) askForKey(sessionStorage.getItem(KEY) !== null);
  }
}

function askForKey(wrong) {
  const dialog = $("ask");
  if (dialog.open) return;
  $("ask-why").textContent = wrong
    ? "The server did not accept the key. Enter another; it is kept until this tab is closed."
    : "This server asks for an API key. It is kept until this tab is closed.";
  $("ask-key").value = "";
  dialog.showModal();
}

$("ask").addEventListener("close", () => $("prompt").focus());
$("ask-cancel").addEventListener("click", () => $("ask").close());
$("ask").querySelector("form").addEventListener("submit", () => {
  const key = $("ask-key").value.trim();
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
  learnModel();
  pollIn(0);
});
$("key").addEventListener("click", () => askForKey(false));
$("new").addEventListener("click", () => newChat());
$("stop").addEventListener("click", stop);
$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("settings").addEventListener("submit", (event) => event.preventDefault());
$("prompt").addEventListener("input", fitPrompt);
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chat.running && !$("ask").open) {
    event.preventDefault();
    stop();
    $("prompt").focus();
  }
});
document.addEventListener("visibilitychange", () => document.hidden || pollIn(0));
$("log").addEventListener("scroll", () => {
  const log = $("log");
  following = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
});

// Where there is little room the conversation comes first.
const narrow = matchMedia("(max-width: 52rem)");
const fold = () => document.querySelectorAll("aside .fold").forEach((part) => (part.open = !narrow.matches));
narrow.addEventListener("change", fold);
fold();
drawNow();
learnModel();
poll();
$("prompt").focus();
