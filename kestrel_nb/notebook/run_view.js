// The page's part of a run: it draws what the kernel sends, and sends back what a person pressed.
//
// Data becomes text nodes. The only HTML is what the kernel made safe, and it is walked into known elements once more.
// Nothing here decides anything: a card goes when the kernel says that its question was answered.

const GUARD_MS = 600; // a card that has just appeared takes no press for so long, and shows it
const NO_REPLY_MS = 3000;
const UNHEARD_MS = 2000; // after which a Stop that the kernel has not heard is explained
const PING_MS = 15000; // a pending card looks this often whether the kernel still answers
const FLOAT_MS = 1200; // a view that is being drawn needs no floating card
const UNSEEN_MS = 1000; // a card out of sight for so long is named in a corner of the page
const SPEAK_MS = 1000;
const FOLLOW_PX = 64;
const TABLE_PAGE = 10;
const LINES = 200;
const DIFF_LINES = 400;

// ---- shortcuts of the front end -----------------------------------------------------------------------------------------

/** A key in a view is the view's: "d d" there must not delete the cell. Only saving goes on. A front end looks for the mark
 *  on its way up from the element with focus, which may match a shortcut before its parents are looked at; so that element
 *  gets the mark, before the front end has the key. */
const MARK = "data-lm-suppress-shortcuts";

if (!globalThis.__kestrelKeys) {
  globalThis.__kestrelKeys = true;
  window.addEventListener("keydown", keepKey, true);
}

function isSave(event) {
  return (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "s";
}

function keepKey(event) {
  if (!event.target.closest?.(`.kestrel-view[${MARK}]`)) return;
  if (!isSave(event)) {
    event.target.setAttribute(MARK, "true");
    return;
  }
  const lifted = [];
  for (let el = event.target; el; el = el.parentElement) if (el.hasAttribute(MARK)) lifted.push(el);
  for (const el of lifted) el.removeAttribute(MARK);
  setTimeout(() => lifted.forEach((el) => el.setAttribute(MARK, "true")));
}

// ---- elements -------------------------------------------------------------------------------------------------------

let serial = 0;
const uid = () => `kestrel-${(serial += 1)}`;

/** `make("span.kestrel-name", {title: "x"}, "text", node)`; strings become text nodes, null is left out. */
function make(kind, attributes, ...children) {
  const [tag, ...classes] = kind.split(".");
  const el = document.createElement(tag);
  if (classes.length) el.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) el.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) el.setAttribute(name, value);
  }
  el.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return el;
}

/** A sentence of ours: what stands between backticks is code. */
const worded = (text) => text.split("`").map((part, index) => (index % 2 ? make("code", {}, marked(part)) : marked(part)));

/** Text with the spelled-out hidden characters marked. */
function marked(text) {
  return String(text)
    .split(/(\[(?:U\+[0-9A-F]{4,6}|ESC)\])/)
    .map((part, i) => (i % 2 ? make("mark", null, part) : part));
}

const sentence = (parts) => parts.map(([tag, text]) => (tag ? make(tag, null, marked(text)) : marked(text))).flat();
const sep = (text = " · ") => make("span.kestrel-sep", null, text);
const mark = (state) => make("span.kestrel-mark", { "data-state": state, "aria-hidden": "true" });
const button = (label, name = "", attributes = {}) => make(`button.kestrel-button${name}`, { type: "button", ...attributes }, label);
const link = (label) => make("button.kestrel-link", { type: "button" }, label);

const TAGS = new Set(
  ("P STRONG EM S CODE PRE BLOCKQUOTE UL OL LI HR BR A TABLE THEAD TBODY TR TH TD MARK SPAN DIV DETAILS SUMMARY B " +
    "FIGURE FIGCAPTION").split(" "),
);
const KEPT = ["class", "data-state", "data-level", "data-n", "open", "border", "cellpadding"];

/** Finished HTML of the kernel as nodes; an element or attribute that is not known is left out. */
function safe(html) {
  const out = document.createDocumentFragment();
  copy(new DOMParser().parseFromString(html, "text/html").body, out);
  return out;
}

function copy(from, to) {
  for (const node of from.childNodes) {
    if (node.nodeType === Node.TEXT_NODE) to.append(node.data);
    else if (node.nodeType === Node.ELEMENT_NODE && TAGS.has(node.tagName)) to.append(element(node));
    else if (node.nodeType === Node.ELEMENT_NODE && node.tagName === "IMG") to.append(picture(node));
  }
}

function element(node) {
  const el = document.createElement(node.tagName);
  for (const name of KEPT) if (node.hasAttribute(name)) el.setAttribute(name, node.getAttribute(name));
  if (node.tagName === "OL" && /^\d+$/.test(node.getAttribute("start") || "")) el.start = Number(node.getAttribute("start"));
  if (node.tagName === "A" && /^(https?|mailto):/i.test(node.getAttribute("href") || "")) {
    el.setAttribute("href", node.getAttribute("href"));
    el.setAttribute("rel", "noopener noreferrer");
    el.setAttribute("target", "_blank");
  }
  copy(node, el);
  return el;
}

function picture(node) {
  const source = node.getAttribute("src") || "";
  if (!/^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/.test(source)) return node.getAttribute("alt") || "";
  return make("img", { src: source, alt: node.getAttribute("alt"), width: node.getAttribute("width"), height: node.getAttribute("height") });
}

function seconds(value) {
  if (!(value >= 0)) return "";
  if (value < 60) return `${Math.floor(value)} s`;
  return `${Math.floor(value / 60)} min ${String(Math.floor(value % 60)).padStart(2, "0")} s`;
}

function took(value) {
  if (value < 0.995) return `${value.toFixed(2)} s`;
  return value < 9.95 ? `${value.toFixed(1)} s` : seconds(Math.round(value));
}

const count = (number) => Number(number).toLocaleString("en-US");
const counted = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

// ---- what the page remembers -------------------------------------------------------------------------------------------

/** What a person opened or closed, and which cards were seen; it outlives a reload of the page. */
const memory = {
  get(key) {
    try {
      return sessionStorage.getItem(`kestrel:${key}`);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      sessionStorage.setItem(`kestrel:${key}`, value);
    } catch {
      // A page without storage forgets.
    }
  },
};

/** How many views of each run this page shows; `initialize` draws the cards of a run that has none. */
const mounted = (globalThis.__kestrelMounted ??= { counts: new Map(), events: new EventTarget(), silent: new Set() });
mounted.silent ??= new Set();

function mount(key, step) {
  mounted.counts.set(key, (mounted.counts.get(key) || 0) + step);
  mounted.events.dispatchEvent(new Event("change"));
}

function remember(details, key, open) {
  const kept = memory.get(key);
  details.open = kept === null ? open : kept === "1";
  details.querySelector("summary").addEventListener("click", () => memory.set(key, details.open ? "0" : "1"));
}

// ---- what the kernel sent ------------------------------------------------------------------------------------------------

/** The run as this page knows it. `changed(block, patch)` and so on are told of each piece of news. */
class Feed {
  constructor(model, listener) {
    this.model = model;
    this.listener = listener;
    this.onPage = () => this.whole(model.get("page"));
    this.onMessage = (message) => this.take(message);
    model.on("change:page", this.onPage);
    model.on("msg:custom", this.onMessage);
    this.blocks = new Map();
    this.header = {};
    this.skew = 0;
    this.whole(model.get("page"));
  }

  close() {
    this.model.off("change:page", this.onPage);
    this.model.off("msg:custom", this.onMessage);
  }

  now() {
    return Date.now() / 1000 + this.skew;
  }

  whole(page) {
    const { blocks, errors, ...header } = page || {};
    const keys = new Set((blocks || []).map((block) => block.key));
    this.news(() => {
      this.takeHeader(header);
      for (const key of [...this.blocks.keys()]) if (!keys.has(key)) this.drop(key);
      for (const block of blocks || []) this.put(block, true);
      for (const [id, message] of Object.entries(errors || {})) this.listener.failed?.(id, message);
    });
  }

  take(message) {
    this.news(() => {
      if (message.type === "patch") {
        for (const key of message.gone || []) this.drop(key);
        for (const block of message.blocks || []) this.put(block, false);
        if (message.header) this.takeHeader(message.header);
      } else if (message.type === "text" || message.type === "seal") {
        this.listener.text?.(message);
      } else if (message.type === "answer_failed") {
        this.listener.failed?.(message.id, message.message);
      } else if (message.type === "pong") {
        this.listener.pong?.();
      }
    });
  }

  news(work) {
    this.listener.before?.();
    work();
    this.listener.after?.();
  }

  takeHeader(header) {
    if (header.now) this.skew = header.now - Date.now() / 1000;
    this.header = header;
    this.listener.head?.(header);
  }

  put(patch, whole) {
    const old = this.blocks.get(patch.key);
    const block = whole ? patch : { ...old, ...patch };
    if (!whole && "rest" in patch) delete block.html;
    this.blocks.set(patch.key, block);
    this.listener.block?.(block, patch, old, whole);
  }

  drop(key) {
    this.blocks.delete(key);
    this.listener.gone?.(key);
  }

  send(message) {
    this.model.send(message);
  }
}

// ---- text ---------------------------------------------------------------------------------------------------------------

class TextBlock {
  constructor(block, run) {
    this.text = make("div.kestrel-text");
    this.el = this.text;
    this.tail = document.createTextNode("");
    this.caret = make("span.kestrel-caret", { "aria-hidden": "true" });
    if (block.kind === "reasoning") {
      this.summary = make("summary", null, "Reasoning");
      this.el = make("details.kestrel-fold", null, this.summary, this.text);
      remember(this.el, `${run.key}/${block.key}`, false);
    }
  }

  update(block, patch) {
    if ("html" in patch) {
      const fresh = safe(patch.html);
      const same = this.done && fresh.textContent === this.text.textContent;
      if (!same) this.text.replaceChildren(fresh);
    } else if ("rest" in patch) {
      this.line?.remove();
      this.text.append(safe(patch.rest));
    }
    if (patch.more) this.text.append(make("p.kestrel-label", null, patch.more));
    this.done = block.done;
    if (block.done) this.end();
    else if ("tail" in patch) this.open(patch.tail);
    if (this.summary) this.summary.textContent = block.done ? `Reasoning, ${counted(block.words, "word")}` : "Reasoning";
  }

  end() {
    this.line?.remove();
    this.line = null;
    this.caret.remove();
  }

  /** The text after the last finished Markdown block, as it arrives. */
  open(tail) {
    this.line?.remove();
    this.tail = document.createTextNode(tail);
    this.line = make("p", { style: "white-space: pre-wrap" }, this.tail, this.caret);
    this.text.append(this.line);
  }

  grow(message) {
    if (message.type === "seal") {
      this.line?.remove();
      this.text.append(safe(message.html));
      this.open(message.tail);
    } else if (this.line) {
      this.tail.appendData(message.text);
    }
  }
}

// ---- one call -------------------------------------------------------------------------------------------------------------

class RowBlock {
  constructor(block, run) {
    this.run = run;
    this.shell = make("div", { style: "display: contents" });
    this.el = this.shell;
    this.name = make("span.kestrel-name");
    this.mark = mark("streaming");
    this.args = make("code.kestrel-args");
    this.result = make("span.kestrel-result");
    this.word = make("span.kestrel-word");
    this.time = make("span.kestrel-time");
    this.cells = [this.mark, this.name, sep(" "), this.args, sep(), this.result, sep(), this.word, sep(), this.time];
    this.detail = make("div.kestrel-detail");
    this.card = null;
    this.shown = LINES;
    this.page = 0;
  }

  update(block, patch) {
    this.block = block;
    this.mark.dataset.state = block.state;
    this.name.replaceChildren(...marked(block.tool));
    this.args.replaceChildren(...marked(block.line));
    this.result.replaceChildren(...marked(block.card ? "asks you, see the card" : block.result));
    this.word.textContent = block.word;
    this.tick(this.run.feed.now());
    if (["detail", "progress", "table", "images", "diff", "arguments", "text_too", "note", "state"].some((name) => name in patch)) this.drawDetail();
    this.drawCard();
    this.drawDecision();
  }

  tick(now) {
    const { seconds: spent, started_at: since, state } = this.block;
    if (spent !== null && spent !== undefined) this.time.textContent = took(spent);
    else this.time.textContent = since && state === "running" ? seconds(now - since) : "";
    this.card?.tick(now);
  }

  /** A row that can be opened is a `details`; it never turns back, so that focus stays where it is. */
  drawDetail() {
    const parts = this.parts();
    const can = parts.length > 0;
    if (!this.row || (can && this.row.tagName !== "DETAILS")) {
      const next = can
        ? make("details.kestrel-tool", null, make("summary.kestrel-row", null, ...this.cells), this.detail)
        : make("div.kestrel-tool", null, make("div.kestrel-row", null, ...this.cells));
      if (this.row) this.row.replaceWith(next);
      else this.shell.prepend(next);
      this.row = next;
      this.touched = false;
      if (can) {
        const key = `${this.run.key}/${this.block.key}`;
        remember(next, key, this.opensItself());
        next.querySelector("summary").addEventListener("click", () => { this.touched = true; });
      }
    } else if (can && !this.touched && memory.get(`${this.run.key}/${this.block.key}`) === null) {
      this.row.open = this.opensItself();
    }
    this.row.dataset.state = this.block.state;
    this.detail.replaceChildren(...parts);
  }

  opensItself() {
    const { state, images } = this.block;
    return state === "failed" || state === "declined" || (state === "done" && images.length > 0);
  }

  parts() {
    const b = this.block;
    const parts = [];
    if (b.arguments) parts.push(pre(b.arguments, `${b.code ? "Code" : "Arguments"} of ${b.tool}`, b.code ? "" : ".kestrel-wrap"));
    if (b.arguments_more) parts.push(make("p.kestrel-label", null, b.arguments_more));
    if (b.diff && !b.card) parts.push(difference(b.diff, `Difference of ${b.tool}`));
    if (b.state === "running" || b.state === "cancelled") {
      if (b.progress.length) parts.push(pre(b.progress.join("\n"), `Progress of ${b.tool}`));
      return parts;
    }
    for (const [n, image] of b.images.entries()) parts.push(figure(image, `Figure ${n + 1} of ${b.tool}`));
    if (b.images_more) parts.push(make("p.kestrel-label", null, b.images_more));
    if (b.detail && (b.text_too || !b.table) && !(b.diff && b.state === "done")) parts.push(...this.text());
    if (b.table) parts.push(this.table(b.table));
    if (b.note) parts.push(make("p.kestrel-label", null, b.note));
    return parts;
  }

  text() {
    const b = this.block;
    if (b.detail_kind === "error") return [pre(b.detail, "Error", ".kestrel-wrap")];
    const lines = b.detail.split("\n");
    const parts = [pre(lines.slice(0, this.shown).join("\n"), `Result of ${b.tool}`)];
    if (lines.length > this.shown || b.more) {
      const more = lines.length > this.shown ? link("Show 200 more") : null;
      more?.addEventListener("click", () => {
        this.shown += LINES;
        this.drawDetail();
        this.detail.querySelector(".kestrel-tablefoot button")?.focus();
      });
      const words = more ? `First ${count(this.shown)} of ${count(lines.length)} lines` : `${counted(b.more, "more character")} left out here`;
      parts.push(make("div.kestrel-tablefoot", null, make("span", null, words), more));
    }
    return parts;
  }

  table(table) {
    const start = this.page * TABLE_PAGE;
    const rows = table.rows.slice(start, start + TABLE_PAGE);
    const heads = table.heads ? table.heads.slice(start, start + TABLE_PAGE) : rows.map((_, n) => [String(start + n)]);
    const grid = tableOf(table.columns, table.text_columns, rows, { names: table.head_names, left: table.head_text, rows: heads });
    const foot = make("div.kestrel-tablefoot");
    if (table.rows.length > TABLE_PAGE) {
      const words = `Rows ${count(start)}–${count(start + rows.length - 1)} of ${count(table.total_rows)} × ${count(table.total_columns)} columns`;
      foot.append(make("span", null, words), this.turn("Previous", -1, start > 0), this.turn("Next", 1, start + TABLE_PAGE < table.rows.length));
    } else {
      foot.append(make("span", null, table.foot));
    }
    foot.append(make("span", null, make("code", null, table.frame)));
    return make("div", null, make("div.kestrel-scroll", null, grid), foot);
  }

  turn(label, step, can) {
    const turn = link(label);
    turn.disabled = !can;
    turn.addEventListener("click", () => {
      this.page += step;
      this.drawDetail();
      const again = [...this.detail.querySelectorAll(".kestrel-link")].find((el) => el.textContent === label);
      (again?.disabled ? again.parentNode.querySelector(".kestrel-link:not([disabled])") : again)?.focus();
    });
    return turn;
  }

  drawCard() {
    const card = this.block.card;
    if (card && this.card?.id !== card.id) {
      this.card?.remove();
      this.card = new Card(card, this.run, this.block);
      this.shell.append(this.card.el);
      this.card.appear();
      this.card.sight = new Sight(this.card);
    } else if (!card && this.card) {
      const hadFocus = this.card.el.contains(document.activeElement);
      const pressed = this.card.sending;
      this.card.remove();
      this.card = null;
      if (hadFocus) this.focusRow();
      if (pressed && this.block.by && this.block.by !== "button") this.run.elsewhere(this.block);
    }
  }

  focusRow() {
    const target = this.row.querySelector("summary");
    if (target) target.focus({ preventScroll: true });
    else this.run.focusRoot();
  }

  drawDecision() {
    this.decision?.remove();
    this.decision = null;
    if (this.block.decision) {
      this.decision = make("p.kestrel-message", null, sentence(this.block.decision));
      this.shell.append(this.decision);
    }
  }

  remove() {
    this.card?.remove();
    this.shell.remove();
  }
}

function pre(text, label, name = "") {
  return make(`pre.kestrel-pre${name}`, { role: "group", "aria-label": label }, marked(text));
}

function difference(diff, label, limit = Infinity) {
  const lines = diff.text.split("\n").slice(0, limit);
  const kind = (line) => (/^(@@|\+\+\+|---)/.test(line) ? ".kestrel-hunk" : { "+": ".kestrel-add", "-": ".kestrel-del" }[line[0]] || "");
  const drawn = lines.map((line, i) => make(`span${kind(line)}`, { "data-n": diff.numbers[i] || "" }, marked(line), "\n"));
  return make("pre.kestrel-pre.kestrel-diff", { role: "group", "aria-label": label }, make("code", null, ...drawn));
}

function figure(image, alt) {
  const [width, height] = image.box;
  const size = width ? { width, height } : {};
  const source = image.data && /^image\/(png|jpeg|gif|webp)$/.test(image.type) ? `data:${image.type};base64,${image.data}` : null;
  const drawing = source ? make("img", { ...size, alt, src: source }) : null;
  return make("figure.kestrel-figure", null, drawing, make("figcaption", null, image.words));
}

/** `heads`: the labels of the rows, as `{names, left, rows}`. */
function tableOf(columns, left, rows, heads) {
  const side = (flag) => (flag ? ".kestrel-t" : "");
  const cell = (tag, flag, value) => {
    if (value === null) return make(`${tag}${side(flag)}`, null, make("span.kestrel-null", null, "<NA>"));
    return make(`${tag}${side(flag)}`, null, /^ /.test(value) ? make("code", null, marked(value)) : marked(value));
  };
  const corner = heads ? heads.names.map((name, i) => (name ? cell("th", heads.left[i], name) : make("td"))) : [];
  const head = columns.map((name, i) => cell("th", left[i], name));
  const line = (row, n) => {
    const labels = heads ? heads.rows[n].map((value, i) => cell("th", heads.left[i], value)) : [];
    return make("tr", null, ...labels, ...row.map((value, i) => cell("td", left[i], value)));
  };
  return make("table.kestrel-table", null, make("thead", null, make("tr", null, ...corner, ...head)), make("tbody", null, ...rows.map(line)));
}

// ---- the approval card --------------------------------------------------------------------------------------------------

class Card {
  constructor(card, run, block) {
    Object.assign(this, { card, run, block, id: card.id, sending: false, form: null, dead: false, fresh: true });
    const [ask, why, rule] = [uid(), uid(), uid()];
    this.left = make("span.kestrel-left", { role: "timer", "aria-live": "off" });
    this.error = make("p.kestrel-error", { role: "alert" });
    this.alert = make("div.kestrel-hidden", { role: "alert" });
    this.open = make("div", { hidden: true });
    this.el = make(
      "div.kestrel-card",
      { role: "group", tabindex: "-1", "aria-labelledby": ask, "aria-describedby": why },
      make("p.kestrel-ask", { id: ask }, this.question(), this.left),
      make("p.kestrel-why", { id: why }, ...worded(card.why)),
      this.preview(),
      this.pairs(),
      this.error,
      this.makeButtons(rule),
      this.open,
      make(
        "p.kestrel-answer",
        null,
        make("span", { id: rule }, "For this session adds the rule ", make("code", null, `${card.tool}: auto`)),
        sep("·"),
        make("span", null, "Answer from another notebook: ", make("code", null, `%kestrel approve ${card.id}`)),
      ),
      this.alert,
    );
    this.error.hidden = true;
    this.listen();
    this.settle();
    this.guard = setTimeout(() => {
      this.fresh = false;
      this.settle();
    }, GUARD_MS);
  }

  question() {
    const { tool, about } = this.card;
    if (about.add) return make("span", null, make("b", null, "May it run"), " ", make("code", null, marked(tool)), make("b", null, ` to add ${about.add}?`));
    const word = about.on ? [" ", make("b", null, "on")] : about.send ? [make("b", null, ", sending data to")] : about.read ? [make("b", null, ", reading from")] : [];
    const what = about.on || about.send || about.read;
    const rest = what ? [...word, " ", make("code", null, marked(what))] : [];
    return make("span", null, make("b", null, "May it run"), " ", make("code", null, marked(tool)), ...rest, make("b", null, "?"));
  }

  preview() {
    const { kind, text, label, numbers, about, cut } = this.card;
    const lines = text.split("\n");
    this.hidden = lines.length > DIFF_LINES;
    const draw = (limit) => {
      const part = lines.slice(0, limit).join("\n");
      if (kind === "diff") return difference({ text, numbers }, label, limit);
      const el = pre(part, label, ".kestrel-wrap");
      if (kind === "command") el.prepend(make("span.kestrel-prompt", { "aria-hidden": "true" }, "$ "));
      const host = about.send || about.read;
      if (kind === "request" && host && part.includes(host)) {
        const at = part.indexOf(host);
        el.replaceChildren(...marked(part.slice(0, at)), make("span.kestrel-host", null, marked(host)), ...marked(part.slice(at + host.length)));
      }
      return el;
    };
    this.shown = draw(this.hidden ? DIFF_LINES : Infinity);
    const box = make("div", null, this.shown);
    if (this.hidden) {
      const all = link(`Show all ${count(lines.length)} lines`);
      all.addEventListener("click", () => {
        this.hidden = false;
        const whole = draw(Infinity);
        this.shown.replaceWith(whole);
        this.shown = whole;
        all.replaceWith(make("span.kestrel-hint", null, "All lines are shown."));
        this.overflow();
        this.settle();
      });
      box.append(make("div.kestrel-tablefoot", null, make("span", null, `First ${DIFF_LINES} of ${count(lines.length)} lines`), all));
    }
    if (cut) box.append(make("p.kestrel-hint", null, `${count(cut)} more characters do not fit here, so it cannot be approved with a button.`));
    return box;
  }

  pairs() {
    const { pairs } = this.card;
    if (!pairs.length) return null;
    return make("dl.kestrel-pairs", null, ...pairs.flatMap(([name, value]) => [make("dt", null, marked(name)), make("dd", { style: "white-space: pre-wrap" }, marked(value))]));
  }

  makeButtons(rule) {
    this.yes = button("Approve", ".kestrel-button-main");
    this.always = button("Approve for this session", "", { "aria-describedby": rule });
    this.edit = button("Edit…", "", { "aria-expanded": "false" });
    this.no = button("Decline…", "", { "aria-expanded": "false" });
    this.on(this.yes, () => this.answer({ approved: true }));
    this.on(this.always, () => this.answer({ approved: true, remember: "session" }));
    this.on(this.edit, () => this.toggle("edit"));
    this.on(this.no, () => this.toggle("no"));
    this.buttons = [this.yes, this.always, this.edit, this.no];
    return make("div.kestrel-buttons", null, ...this.buttons);
  }

  /** A button acts on its own click, Enter or Space: not while it waits, not on key repeat, and not when the key went down
   *  somewhere else. */
  on(el, act) {
    let down = false;
    el.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      if (event.repeat || this.fresh) event.preventDefault();
      else down = true;
    });
    el.addEventListener("keyup", (event) => {
      if (event.key === " " && !down) event.preventDefault();
      down = false;
    });
    el.addEventListener("blur", () => { down = false; });
    el.addEventListener("click", () => {
      if (el.getAttribute("aria-disabled") !== "true") act();
    });
  }

  listen() {
    this.el.addEventListener("keydown", (event) => {
      if (event.target === this.el && (event.key === "Enter" || event.key === "Escape" || event.key === " ")) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
    this.el.addEventListener("blur", () => this.el.classList.remove("kestrel-focus"));
  }

  /** Which buttons wait. In a new card all do. While a form is open the other choices do, so that nobody edits and then
   *  approves the rest. */
  settle() {
    const stuck = this.fresh || this.sending || this.dead;
    const unseen = this.hidden || this.card.cut > 0;
    const wait = (el, waits, why = "") => {
      if (waits) el.setAttribute("aria-disabled", "true");
      else el.removeAttribute("aria-disabled");
      if (why) el.title = why;
      else el.removeAttribute("title");
    };
    const why = this.dead ? "The kernel does not answer" : stuck ? "" : this.form ? "Close the form first" : unseen ? "Look at all lines first" : "";
    wait(this.yes, stuck || this.form !== null || unseen, why);
    wait(this.always, stuck || this.form !== null || unseen, why);
    wait(this.edit, stuck || this.form === "no" || unseen, why);
    wait(this.no, stuck || this.form === "edit", this.dead || this.form === "edit" ? why : "");
    this.edit.setAttribute("aria-expanded", String(this.form === "edit"));
    this.no.setAttribute("aria-expanded", String(this.form === "no"));
    for (const el of this.submits || []) wait(el, stuck);
    this.tick(this.run.feed.now());
  }

  appear() {
    this.overflow();
    const seen = memory.get(`seen/${this.id}`);
    memory.set(`seen/${this.id}`, "1");
    this.tick(this.run.feed.now());
    if (seen) return;
    setTimeout(() => { this.alert.textContent = `May it run ${this.card.tool}? ${this.card.why}`; }, 50);
    this.run.cardAppeared(this);
  }

  /** A preview that scrolls can be scrolled with keys. */
  overflow() {
    requestAnimationFrame(() => {
      if (this.shown.scrollHeight > this.shown.clientHeight + 1 || this.shown.scrollWidth > this.shown.clientWidth + 1) this.shown.tabIndex = 0;
    });
  }

  focus() {
    this.el.classList.add("kestrel-focus");
    this.el.focus({ preventScroll: true });
  }

  tick(now) {
    if (this.sending) this.left.textContent = "Sending your answer…";
    else if (this.dead) this.left.textContent = "";
    else if (this.card.expires_at === null) this.left.textContent = "no time limit";
    else this.countDown(Math.max(0, Math.floor(this.card.expires_at - now)));
  }

  countDown(left) {
    this.left.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")} left, then declined`;
    if (left <= 60 && left > 50 && !this.warned) {
      this.warned = true;
      this.run.speak(`1 minute left to answer about ${this.card.tool}.`);
    }
  }

  // ---- forms ----

  toggle(form) {
    if (this.form === form) return this.back();
    this.form = form;
    this[`${form}Form`] ??= form === "edit" ? this.makeEdit() : this.makeDecline();
    this.open.replaceChildren(this[`${form}Form`]);
    this.open.hidden = false;
    this.submits = this.open.querySelectorAll(".kestrel-submit");
    this.settle();
    this.open.querySelector("textarea, input, select")?.focus();
  }

  back() {
    const opener = this.form === "edit" ? this.edit : this.no;
    this.form = null;
    this.open.replaceChildren(); // what was typed stays in the form that was taken out
    this.open.hidden = true;
    this.settle();
    opener.focus();
  }

  formKeys(el) {
    el.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.preventDefault();
        this.back();
      }
      if (event.key === "Enter" && event.target.tagName === "INPUT") event.preventDefault();
      if (!isSave(event)) event.stopPropagation();
    });
    return el;
  }

  makeDecline() {
    const [id, hint] = [uid(), uid()];
    const reason = make("textarea.kestrel-input.kestrel-prose", { id, rows: "2", "aria-describedby": hint });
    const send = button("Decline this call", ".kestrel-submit");
    const back = button("Back");
    this.on(send, () => this.answer({ approved: false, reason: reason.value }));
    this.on(back, () => this.back());
    const label = make("label", { for: id, style: "font-family: inherit" }, "Reason");
    const help = make("p.kestrel-hint", { id: hint }, "The model reads this and may propose something else. It may stay empty.");
    return this.formKeys(
      make("div.kestrel-open", { role: "group", "aria-label": "Decline" }, make("div.kestrel-field", null, label, reason, help), make("div.kestrel-buttons", null, send, back)),
    );
  }

  makeEdit() {
    this.fields = this.card.fields.map((field) => new Field(field));
    const send = button("Approve as edited", ".kestrel-button-main.kestrel-submit");
    const back = button("Back");
    this.on(send, () => this.answerEdited());
    this.on(back, () => this.back());
    const hint = make("span.kestrel-hint", null, "The model is told that you changed the arguments.");
    return this.formKeys(
      make("div.kestrel-open", { role: "group", "aria-label": "Edit the arguments" }, ...this.fields.map((field) => field.el), make("div.kestrel-buttons", null, send, back, hint)),
    );
  }

  answerEdited() {
    const bad = this.fields.filter((field) => !field.check());
    if (bad.length) return bad[0].input.focus();
    const changes = Object.fromEntries(this.fields.filter((field) => field.changed()).map((field) => [field.name, field.value()]));
    return this.answer({ approved: true, changes });
  }

  // ---- answering ----

  answer(content) {
    if (this.sending || this.dead) return;
    this.sending = true;
    this.error.hidden = true;
    this.settle();
    try {
      this.run.feed.send({ type: "answer", id: this.id, ...content });
    } catch {
      this.sending = false;
      this.lost([["b", "Your answer did not arrive:"], ["", " the kernel is not connected."]]);
      return;
    }
    this.timer = setTimeout(() => {
      if (!this.sending) return;
      this.sending = false;
      this.lost(this.run.pulse.words("No reply."));
      this.run.pulse.beat();
    }, NO_REPLY_MS);
  }

  /** The question is still open, and the card says what went wrong. */
  fail(parts) {
    clearTimeout(this.timer);
    this.sending = false;
    this.error.replaceChildren(...sentence(parts));
    this.error.hidden = false;
    this.settle();
  }

  failed(message) {
    const field = this.form === "edit" ? this.fields.find((one) => message.startsWith(`${one.name}:`) || message.startsWith(`${one.name}.`) || message.startsWith(`${one.name}[`)) : null;
    if (field) {
      clearTimeout(this.timer);
      this.sending = false;
      field.complain(message);
      this.settle();
      field.input.focus();
    } else {
      this.fail([["b", "Your answer was not taken:"], ["", ` ${message}`]]);
    }
  }

  /** No sign of life from the kernel: the card says so, in `words`, and takes no press until there is one. */
  lost(words) {
    if (this.sending || this.dead) return;
    this.dead = true;
    this.fail([...words, ["", " The question is kept: "], ["code", "%kestrel inbox"], ["", " lists it. To go on here, run the cell again."]]);
    this.sight?.draw();
  }

  found() {
    if (!this.dead) return;
    this.dead = false;
    this.error.hidden = true;
    this.settle();
    this.sight?.draw();
  }

  remove() {
    clearTimeout(this.timer);
    clearTimeout(this.guard);
    this.sight?.close();
    this.el.remove();
  }
}

/** One argument in the form behind "Edit…". A value that is not changed is not sent: the kernel has the exact one. */
class Field {
  constructor(field) {
    this.field = field;
    this.name = field.name;
    const id = uid();
    this.tip = make("p.kestrel-hint", { id: uid() });
    this.note = make("p.kestrel-hint", { hidden: true });
    this.problem = make("p.kestrel-error", { id: uid(), hidden: true });
    this.keys = field.kind === "code" ? make("p.kestrel-hint", { id: uid() }, "Tab indents. Shift+Tab goes back, Shift+Enter goes on to the buttons.") : null;
    this.input = this.makeInput(id);
    this.input.addEventListener("input", () => this.review());
    this.tip.append(...marked([field.hint, this.absent()].filter(Boolean).join(" ")));
    this.tip.hidden = !this.tip.firstChild;
    this.el = make("div.kestrel-field", null, make("label", { for: id }, marked(this.name)), this.input, this.problem, this.note, this.keys, this.tip);
    this.review();
  }

  /** What the tool does without this argument. */
  absent() {
    const { given, required } = this.field;
    if (given || (required && this.field.default === undefined)) return "";
    return this.field.default === undefined ? "Not given." : `Not given; default ${this.field.default}`;
  }

  makeInput(id) {
    const { kind, value, options } = this.field;
    const common = { id, "aria-describedby": `${this.tip.id} ${this.problem.id}` };
    if (kind === "check") {
      const box = make("input.kestrel-check", { ...common, type: "checkbox" });
      box.checked = value === "true";
      return box;
    }
    if (kind === "select") {
      const select = make("select.kestrel-input.kestrel-input-short", common, ...options.map((option) => make("option", { value: option }, option)));
      select.value = value;
      return select;
    }
    if (kind === "code") return codeArea({ ...common, "aria-describedby": `${this.keys.id} ${common["aria-describedby"]}` }, value);
    if (kind === "area" || kind === "json") {
      const area = make("textarea.kestrel-input", { ...common, rows: String(Math.min(8, value.split("\n").length + 1)) });
      area.value = value;
      return area;
    }
    const short = kind === "text" ? "" : ".kestrel-input-short";
    const input = make(`input.kestrel-input${short}`, { ...common, inputmode: kind === "integer" ? "numeric" : kind === "number" ? "decimal" : null });
    input.value = value;
    return input;
  }

  value() {
    return this.field.kind === "check" ? this.input.checked : this.input.value;
  }

  initial() {
    const { kind, value } = this.field;
    if (kind === "check") return value === "true";
    if (kind === "text") return value.replace(/[\r\n]/g, "");
    return kind === "select" ? value : value.replace(/\r\n?/g, "\n"); // as a text area gives it back
  }

  changed() {
    return this.value() !== this.initial();
  }

  review() {
    this.complain("");
    this.note.replaceChildren();
    this.note.hidden = !this.changed();
    if (!this.changed()) return;
    const back = link("Put back");
    back.addEventListener("click", () => {
      if (this.field.kind === "check") this.input.checked = this.initial();
      else this.input.value = this.field.value;
      this.review();
      this.input.focus();
    });
    const asked = this.field.kind === "code" ? [" "] : this.field.given ? [" The model asked for ", make("code", null, marked(this.field.value.slice(0, 200))), " "] : [" The model left it out. "];
    this.note.append("Changed.", ...asked, back);
  }

  /** Whether the value has the form that its kind needs; the rest is checked in the kernel. */
  check() {
    const text = String(this.value()).trim();
    if (!this.changed() || (text === "" && !this.field.required)) return true;
    const wrong = {
      integer: /^[-+]?\d+$/.test(text) ? "" : "a whole number",
      number: text !== "" && Number.isFinite(Number(text)) ? "" : "a number",
      json: isJson(text) ? "" : "valid JSON",
    }[this.field.kind];
    if (wrong) this.complain(`${this.name}: must be ${wrong}`);
    return !wrong;
  }

  complain(message) {
    if (message) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
    this.problem.hidden = !message;
    const at = message.indexOf(":") + 1;
    this.problem.replaceChildren(...(message ? [make("b", null, marked(message.slice(0, at))), ...marked(message.slice(at))] : []));
  }
}

/** A field for a program. Tab writes spaces, since whoever indents must not come upon a button with the next key. */
function codeArea(attributes, value) {
  const rows = String(Math.max(8, Math.min(16, value.split("\n").length + 1)));
  const plain = { spellcheck: "false", autocorrect: "off", autocapitalize: "off", autocomplete: "off", wrap: "off", rows };
  const area = make("textarea.kestrel-input.kestrel-codearea", { ...attributes, ...plain });
  area.value = value;
  area.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const line = area.value.slice(0, area.selectionStart).split("\n").at(-1);
    if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      area.closest(".kestrel-open").querySelector(".kestrel-submit").focus();
    } else if (event.key === "Enter") {
      event.preventDefault();
      write(area, `\n${/^[ \t]*/.exec(line)[0]}`);
    } else if (event.key === "Tab" && !event.shiftKey) {
      event.preventDefault();
      indent(area, line);
    }
  });
  return area;
}

function indent(area, line) {
  const { selectionStart: start, selectionEnd: end, value } = area;
  const chosen = value.slice(start - line.length, end);
  if (!chosen.slice(line.length).includes("\n")) return write(area, " ".repeat(4 - (line.length % 4)));
  area.setSelectionRange(start - line.length, end);
  return write(area, chosen.replace(/^(?=.)/gm, "    "));
}

/** As if it were typed, so that it can be undone. */
function write(area, text) {
  if (!document.execCommand("insertText", false, text)) {
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input"));
  }
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// ---- small parts --------------------------------------------------------------------------------------------------------

class NoticeBlock {
  constructor() {
    this.line = make("p");
    this.el = make("div.kestrel-notice", null, this.line);
    this.since = performance.now();
  }

  update(block) {
    this.block = block;
    this.el.dataset.level = block.level;
    this.draw(block.text);
  }

  draw(text) {
    const end = text.search(/(:(?=\s)|(?=\s\()|\.(?=\s|$))/);
    const at = end < 0 ? text.length : end + (/[:.]/.test(text[end]) ? 1 : 0);
    this.line.replaceChildren(make("b", null, marked(text.slice(0, at))), ...marked(text.slice(at)));
  }

  /** A wait before the next try counts down. */
  tick() {
    if (!this.block.retry) return;
    const gone = (performance.now() - this.since) / 1000;
    this.draw(this.block.text.replace(/in (\d+(?:\.\d+)?) s\b/, (_, wait) => `in ${Math.max(0, Math.ceil(wait - gone))} s`));
  }
}

class TodoBlock {
  constructor() {
    this.title = make("p");
    this.list = make("ul");
    this.el = make("div.kestrel-todo", null, this.title, this.list);
  }

  update(block) {
    this.title.textContent = block.title;
    const line = (item) => make("li", { "data-state": item.mark }, mark(item.mark), make("span", null, marked(item.text)), sep(", "), make("span.kestrel-word", null, item.word));
    this.list.replaceChildren(...block.items.map(line));
  }
}

class SentBlock {
  constructor(block, run) {
    const grid = tableOf(block.columns, block.text_columns, block.rows, null);
    const more = block.more ? make("p.kestrel-label", null, block.more) : null;
    const whole = make("p.kestrel-label", null, sentence(block.whole));
    this.el = make("details.kestrel-fold", null, make("summary", null, block.title), make("div.kestrel-detail", null, make("div.kestrel-scroll", null, grid), more, whole));
    remember(this.el, `${run.key}/${block.key}`, block.opens);
  }

  update() {}
}

const KINDS = { text: TextBlock, reasoning: TextBlock, tool: RowBlock, notice: NoticeBlock, todo: TodoBlock, sent: SentBlock };

const UNHEARD = "Stopping… code is running that can't be stopped from here: use Interrupt (the ■ in the toolbar).";

// ---- the run --------------------------------------------------------------------------------------------------------------

class Run {
  constructor(model, el) {
    this.key = model.get("key");
    this.views = new Map();
    this.mark = mark("running");
    this.state = make("span.kestrel-state", null, "Running");
    this.facts = make("span.kestrel-facts");
    this.stop = button("Stop", ".kestrel-stop");
    this.stop.addEventListener("click", () => this.pressStop());
    this.status = make("div.kestrel-hidden", { role: "status" });
    this.body = make("div.kestrel-body");
    this.tail = make("div.kestrel-tail");
    this.errors = make("div");
    this.root = make(
      "div.kestrel-view.kestrel-run",
      { role: "group", tabindex: "-1", "data-state": "running", "data-lm-suppress-shortcuts": "true" },
      make("div.kestrel-header", null, this.mark, this.state, this.facts, this.stop),
      this.status,
      this.body,
      this.errors,
      this.tail,
    );
    el.append(this.root);
    this.spoken = 0;
    this.feed = { now: () => Date.now() / 1000 };
    this.feed = new Feed(model, this);
    this.clock = setInterval(() => this.tick(), 1000);
    this.pulse = new Pulse(this.feed, this.key, () => this.cards());
  }

  close() {
    clearInterval(this.clock);
    clearTimeout(this.speaking);
    clearTimeout(this.stopping);
    this.pulse.close();
    this.feed.close();
    for (const view of this.views.values()) view.card?.remove();
    this.root.remove();
  }

  cards() {
    return [...this.views.values()].map((view) => view.card).filter(Boolean);
  }

  pong() {
    this.pulse?.pong();
    if (!this.stopping) return;
    clearTimeout(this.stopping);
    this.stopWords = "Stopping…";
  }

  pressStop() {
    this.stop.setAttribute("aria-disabled", "true");
    try {
      this.feed.send({ type: "stop" });
      this.feed.send({ type: "ping" });
    } catch {
      this.note("The kernel is not connected.", " If it was restarted, run the cell again.");
      return;
    }
    clearTimeout(this.stopping);
    this.stopWords = "Stopping…";
    this.stopping = setTimeout(() => this.unheard(), UNHEARD_MS);
    this.drawTail();
  }

  /** A kernel that does not even say that it is there: code has its thread, or it is another kernel by now. */
  unheard() {
    if (this.ended) return;
    this.stopWords = this.pulse.cut ? "The kernel was restarted. Run the cell again." : UNHEARD;
    this.speak(this.stopWords);
    this.drawTail();
  }

  // ---- news ----

  before() {
    this.follows = this.edgeInSight();
    this.height = this.root.offsetHeight;
  }

  after() {
    if (this.feed.header) this.drawTail();
    if (this.follows && this.root.offsetHeight > this.height) this.follow();
  }

  head(header) {
    this.header = header;
    this.root.dataset.state = header.mark;
    this.root.setAttribute("aria-label", `Kestrel run, ${header.model}`);
    this.mark.dataset.state = header.mark;
    this.state.textContent = header.word;
    this.drawFacts();
    if (header.status !== "running" && !this.ended) this.end(header);
  }

  drawFacts() {
    const facts = [...(this.header.facts || [])];
    if (this.header.timed && this.header.started_at) {
      const time = seconds((this.header.ended_at ?? this.feed.now()) - this.header.started_at);
      facts.splice(facts.findIndex((fact) => /^step |steps?$/.test(fact)) + 1 || 1, 0, time);
    }
    this.facts.replaceChildren(...facts.filter(Boolean).flatMap((fact) => [sep(), ...marked(fact)]));
  }

  end(header) {
    this.ended = true;
    const hadFocus = this.stop === document.activeElement;
    this.stop.remove();
    this.tail.remove();
    if (hadFocus) this.focusRoot();
    this.errors.replaceChildren(...header.error.map((parts) => make("p.kestrel-message", null, sentence(parts))));
    const step = header.step;
    this.speak(`${header.word}, ${counted(step, "step")}.`);
  }

  block(block, patch, old) {
    let view = this.views.get(block.key);
    if (!view) {
      view = new KINDS[block.kind](block, this);
      this.views.set(block.key, view);
      this.body.append(view.el);
    }
    view.update(block, patch);
    this.tell(block, old);
  }

  gone(key) {
    const view = this.views.get(key);
    this.views.delete(key);
    view?.el.remove();
  }

  text(message) {
    this.views.get(message.key)?.grow(message);
  }

  failed(id, message) {
    this.cards().find((card) => card.id === id)?.failed(message);
  }

  elsewhere(block) {
    const verb = block.decision?.[0]?.[1]?.startsWith("Approved") ? "approved" : "declined";
    this.note(`${block.tool} was ${verb} elsewhere`, " before your press. Nothing ran twice.");
  }

  note(strong, rest) {
    this.body.append(make("div.kestrel-notice", null, make("p", null, make("b", null, strong), rest)));
  }

  // ---- time, sound, place ----

  tick() {
    if (this.ended) return;
    this.drawFacts();
    for (const view of this.views.values()) view.tick?.(this.feed.now());
  }

  drawTail() {
    if (this.ended) return;
    if (this.stopWords) {
      this.tail.textContent = this.stopWords;
      return;
    }
    const last = [...this.feed.blocks.values()].at(-1);
    const busy = last && ((last.kind === "text" && !last.done) || ["streaming", "waiting", "running"].includes(last.state) || last.retry);
    this.tail.textContent = busy ? "" : "Thinking…";
  }

  tell(block, old) {
    if (this.ended) return;
    if (block.kind === "tool" && block.state !== old?.state) {
      const step = this.header?.step ? `Step ${this.header.step}. ` : "";
      if (block.state === "running") this.speak(`${step}${block.tool} is running.`);
      else if (["done", "failed", "declined", "cancelled"].includes(block.state)) this.speak(`${block.tool} ${block.word}${block.result ? `, ${block.result}` : ""}.`);
    } else if (block.kind === "text" && block.done && old && !old.done) {
      this.speak(`Answer complete, ${counted(block.words, "word")}.`);
    }
  }

  /** At most one sentence a second; the last one wins. */
  speak(words) {
    clearTimeout(this.speaking);
    const wait = Math.max(0, this.spoken + SPEAK_MS - performance.now());
    this.speaking = setTimeout(() => {
      this.spoken = performance.now();
      this.status.textContent = words;
    }, wait);
  }

  focusRoot() {
    this.root.focus({ preventScroll: true });
  }

  cardAppeared(card) {
    if (!isTyping()) card.focus();
    if (this.follows || this.edgeInSight()) card.el.scrollIntoView({ block: "nearest" });
  }

  scroller() {
    for (let el = this.root.parentElement; el; el = el.parentElement) {
      if (el.scrollHeight > el.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(el).overflowY)) return el;
    }
    return document.scrollingElement;
  }

  edges() {
    const scroller = this.scroller();
    const inner = scroller === document.scrollingElement ? { top: 0, bottom: innerHeight } : scroller.getBoundingClientRect();
    return { scroller, inner, bottom: this.root.getBoundingClientRect().bottom };
  }

  edgeInSight() {
    const { inner, bottom } = this.edges();
    return bottom > inner.top && bottom <= inner.bottom + FOLLOW_PX;
  }

  follow() {
    const { scroller, inner, bottom } = this.edges();
    if (scroller && bottom > inner.bottom) scroller.scrollTop += bottom - inner.bottom + 4;
  }
}

/** Whether a person is typing somewhere: then focus is not taken. */
function isTyping() {
  let el = document.activeElement;
  while (el?.shadowRoot?.activeElement) el = el.shadowRoot.activeElement;
  return Boolean(el && (el.isContentEditable || /^(INPUT|TEXTAREA|SELECT|IFRAME)$/.test(el.tagName) || el.closest(".cm-editor, .CodeMirror")));
}

/** Asks the kernel now and then whether it is there, while a card is open. */
class Pulse {
  constructor(feed, key, cards) {
    Object.assign(this, { feed, key, cards, cut: false });
    this.timer = setInterval(() => this.beat(), PING_MS);
    this.onLive = () => { // the front end says that the connection changed
      this.cut = true;
      this.beat(mounted.silent.has(key));
    };
    feed.model.on("comm_live_update", this.onLive);
  }

  beat(always = false) {
    if (this.waiting || !(always || this.cards().length)) return;
    try {
      this.feed.send({ type: "ping" });
    } catch {
      this.silent();
      return;
    }
    this.waiting = setTimeout(() => {
      this.waiting = null;
      this.silent();
    }, NO_REPLY_MS);
  }

  /** A connection that broke and has no other end tells of a restart; silence alone may be a kernel that is busy. */
  words(otherwise) {
    if (this.cut) return [["b", "The kernel was restarted."]];
    return [["b", otherwise], ["", " The kernel is busy or was restarted."]];
  }

  silent() {
    mounted.silent.add(this.key);
    for (const card of this.cards()) card.lost(this.words("The kernel does not answer."));
  }

  pong() {
    clearTimeout(this.waiting);
    this.waiting = null;
    this.cut = false;
    mounted.silent.delete(this.key);
    for (const card of this.cards()) card.found();
  }

  close() {
    clearInterval(this.timer);
    clearTimeout(this.waiting);
    this.feed.model.off("comm_live_update", this.onLive);
  }
}

// ---- a card out of sight ----------------------------------------------------------------------------------------------------

/** Names the runs whose cards nobody sees, in one box for the page. Nothing can be answered there. */
const corner = (globalThis.__kestrelCorner ??= make("div.kestrel-view.kestrel-run.kestrel-floating.kestrel-corner", {
  role: "group",
  "aria-label": "Runs that wait out of sight",
  "data-lm-suppress-shortcuts": "true",
}));

class Sight {
  constructor(card) {
    this.card = card;
    this.unseen = false;
    const show = button("Show");
    show.addEventListener("click", () => this.show());
    this.words = make("span", null, "A run waits for you: ", make("code", null, marked(card.card.tool)));
    this.line = make("p.kestrel-corner-line", null, this.words, show);
    this.observer = new IntersectionObserver((entries) => this.see(entries.at(-1)), { threshold: [0, 0.1, 0.2] });
    this.observer.observe(card.el);
  }

  see(entry) {
    clearTimeout(this.soon);
    const seen = entry.isIntersecting && entry.intersectionRatio >= 0.1;
    if (seen) this.mark(false);
    else this.soon = setTimeout(() => this.mark(true), UNSEEN_MS);
  }

  mark(unseen) {
    this.unseen = unseen;
    this.draw();
  }

  draw() {
    if (this.unseen && !this.card.dead) corner.append(this.line);
    else this.line.remove();
    if (!corner.firstChild) corner.remove();
    else if (!corner.isConnected) document.body.append(corner);
  }

  /** A cell that the page does not draw, or of a notebook behind another tab, cannot be scrolled to. */
  show() {
    if (!this.card.el.getClientRects().length) {
      this.words.replaceChildren("Its cell is not drawn now: open its notebook, and scroll to the cell.");
      return;
    }
    this.card.el.scrollIntoView({ block: "center" });
    this.card.focus();
  }

  close() {
    clearTimeout(this.soon);
    this.observer.disconnect();
    this.mark(false);
  }
}

// ---- a card that cannot get lost --------------------------------------------------------------------------------------------

/** Pending cards of a run that no output on this page shows: the cell was run again, or its output cleared. */
class Floating {
  constructor(model) {
    this.key = model.get("key");
    this.rows = new Map();
    this.closed = new Set();
    const close = button("Close", "", { "aria-label": "Close" });
    close.addEventListener("click", () => this.dismiss());
    this.box = make(
      "div.kestrel-view.kestrel-run.kestrel-floating",
      { role: "group", "aria-label": "Questions of a run that is not on this page", "data-lm-suppress-shortcuts": "true" },
      make("div.kestrel-corner-line", null, make("span.kestrel-label", null, "A run whose output is not on this page waits for you."), close),
    );
    this.feed = { now: () => Date.now() / 1000 };
    this.feed = new Feed(model, this);
    this.onMount = () => this.place();
    mounted.events.addEventListener("change", this.onMount);
    this.clock = setInterval(() => this.cards().forEach((card) => card.tick(this.feed.now())), 1000);
    this.pulse = new Pulse(this.feed, this.key, () => this.cards());
    this.place();
  }

  close() {
    clearInterval(this.clock);
    clearTimeout(this.soon);
    this.pulse.close();
    this.feed.close();
    mounted.events.removeEventListener("change", this.onMount);
    this.box.remove();
  }

  cards() {
    return this.drawn ? [...this.rows.values()] : [];
  }

  after() {
    if (this.onMount) this.place();
  }

  pong() {
    this.pulse?.pong();
  }

  failed(id, message) {
    this.cards().find((card) => card.id === id)?.failed(message);
  }

  pending() {
    if (this.feed.header?.status !== "running") return [];
    return [...this.feed.blocks.values()].filter((block) => block.card && !this.closed.has(block.card.id));
  }

  /** The questions are still open: only the box goes. */
  dismiss() {
    for (const id of this.rows.keys()) this.closed.add(id);
    this.place();
  }

  place() {
    clearTimeout(this.soon);
    const lost = !mounted.counts.get(this.key) && this.pending().length > 0;
    if (!lost) this.hide();
    else if (this.drawn) this.show();
    else if (!mounted.silent.has(this.key)) this.soon = setTimeout(() => this.show(), FLOAT_MS);
  }

  hide() {
    this.drawn = false;
    for (const card of this.rows.values()) card.remove();
    this.rows.clear();
    this.box.remove();
  }

  show() {
    this.drawn = true;
    const open = new Map(this.pending().map((block) => [block.card.id, block]));
    for (const [id, card] of this.rows) {
      if (!open.has(id)) {
        card.remove();
        this.rows.delete(id);
      }
    }
    if (!this.box.isConnected) document.body.append(this.box);
    for (const [id, block] of open) {
      if (this.rows.has(id)) continue;
      const card = new Card(block.card, this, block);
      this.rows.set(id, card);
      this.box.append(card.el);
      card.appear();
    }
  }

  cardAppeared(card) {
    if (!isTyping()) card.focus();
  }

  speak() {}
}

// ---- the door ---------------------------------------------------------------------------------------------------------------

function initialize({ model }) {
  const floating = new Floating(model);
  return () => floating.close();
}

function render({ model, el }) {
  const key = model.get("key");
  const run = new Run(model, el);
  mount(key, 1);
  const onFinal = () => {
    const record = safe(model.get("final") || "").querySelector(".kestrel-record");
    if (!record) return;
    run.close();
    el.replaceChildren(record);
  };
  model.on("change:final", onFinal);
  onFinal();
  try {
    model.send({ type: "ready" });
  } catch {
    // No kernel: what was saved is shown all the same.
  }
  return () => {
    model.off("change:final", onFinal);
    run.close();
    mount(key, -1);
  };
}

export default { initialize, render };
