// Runs one script in this context and says what came of it, as JSON text.
//
// The script shares the context and may have replaced everything in it before this code runs again. So all that is
// used here was taken before, is called through `apply`, and neither iterates nor looks anything up in a prototype.
(function () {
  "use strict";
  const MAX_MESSAGE = 2000;
  const { apply } = Reflect;
  const { stringify } = JSON;
  const runInGlobalScope = eval;
  const AnyError = Error;
  const promiseThen = Promise.prototype.then;
  const sliced = String.prototype.slice;
  const joined = Array.prototype.join;
  const functionText = Function.prototype.toString;
  const symbolText = Symbol.prototype.toString;
  const toNumber = Number;
  const toInteger = parseInt;
  const toFloat = parseFloat;
  const bigintText = BigInt.prototype.toString;

  let maxOutput = 0;
  let maxResult = 0;
  let output = "";
  let outputTotal = 0;
  let lines = 0;
  let state = "done"; // or failed, pending
  let value;

  function first(text, count) {
    return text.length > count ? apply(sliced, text, [0, count]) : text;
  }

  // What JSON has no word for becomes a string.
  function replaced(key, item) {
    switch (typeof item) {
      case "function":
        return apply(functionText, item, []);
      case "symbol":
        return apply(symbolText, item, []);
      case "bigint":
        return apply(bigintText, item, []);
      default:
        return item;
    }
  }

  function toJson(item) {
    const text = stringify(item, replaced);
    return text === undefined ? "null" : text;
  }

  function shown(item) {
    if (typeof item === "string") return item;
    if (item === undefined) return "undefined";
    if (item === null || typeof item === "number" || typeof item === "boolean") return "" + item;
    if (typeof item === "bigint") return apply(bigintText, item, []) + "n";
    if (typeof item === "symbol") return apply(symbolText, item, []);
    try {
      if (typeof item === "function") return "[Function: " + (item.name || "(anonymous)") + "]";
      if (item instanceof AnyError) return item.name + ": " + item.message;
      return toJson(item);
    } catch {
      return "[object]";
    }
  }

  // The first of several items may say where the others go: %s %d %i %f %j %o %O, as for any console; %c is for colours.
  function format(items) {
    const template = items[0];
    let line = "";
    let next = 1;
    let from = 0;
    for (let at = 0; at < template.length - 1; at++) {
      if (template[at] !== "%") continue;
      const kind = template[at + 1];
      if (kind !== "%" && (next === items.length || !isKind(kind))) continue;
      line += apply(sliced, template, [from, at]) + (kind === "%" ? "%" : formatted(kind, items[next++]));
      from = ++at + 1;
    }
    return { line: line + apply(sliced, template, [from]), next };
  }

  function isKind(kind) {
    return kind === "s" || kind === "d" || kind === "i" || kind === "f" || isObjectKind(kind) || kind === "c";
  }

  function isObjectKind(kind) {
    return kind === "o" || kind === "O" || kind === "j";
  }

  function formatted(kind, item) {
    if (kind === "c") return "";
    if (kind === "s" || isObjectKind(kind) || typeof item === "bigint") return shown(item);
    if (typeof item === "symbol" || typeof item === "function" || (typeof item === "object" && item !== null)) return "NaN";
    return "" + (kind === "d" ? toNumber(item) : kind === "i" ? toInteger(item) : toFloat(item));
  }

  function log(...items) {
    let line = lines++ ? "\n" : "";
    const used = items.length > 1 && typeof items[0] === "string" ? format(items) : { line: "", next: 0 };
    line += used.line;
    for (let at = used.next; at < items.length; at++) line += (at ? " " : "") + shown(items[at]);
    outputTotal += line.length;
    if (output.length < maxOutput) output += first(line, maxOutput - output.length);
  }

  function text(read) {
    try {
      const found = read();
      return typeof found === "string" ? first(found, MAX_MESSAGE) : "";
    } catch {
      return "";
    }
  }

  // `own`: thrown below this code, not below the script, so that its place says nothing.
  function described(error, own) {
    const isObject = error !== null && (typeof error === "object" || typeof error === "function");
    const name = isObject ? text(() => error.name) : "";
    const message = name ? text(() => error.message) : "Uncaught " + text(() => shown(error));
    return problem(name, message, isObject && !own ? text(() => error.stack) : "");
  }

  function problem(name, message, stack) {
    return whole(['"error":{"name":', stringify(name), ',"message":', stringify(message), ',"stack":', stringify(stack), "}"]);
  }

  // One text in one piece: the result of `+` is not always one, and then can't leave the engine.
  function whole(parts) {
    return apply(joined, parts, [""]);
  }

  function settle(how, what) {
    state = how;
    value = what;
  }

  const logged = log.bind(null); // shows no source
  globalThis.console = { log: logged, info: logged, debug: logged, warn: logged, error: logged };

  function start(order) {
    maxOutput = order.max_output;
    maxResult = order.max_result;
    let found;
    try {
      found = (0, runInGlobalScope)(order.code);
    } catch (error) {
      settle("failed", error);
      return;
    }
    try {
      apply(promiseThen, found, [(what) => settle("done", what), (error) => settle("failed", error)]);
      state = "pending";
    } catch {
      settle("done", found); // no promise
    }
  }

  function finish(uncaught) {
    return whole(["{", ending(uncaught), ',"stdout":', stringify(output), ',"stdout_total":', "" + outputTotal, "}"]);
  }

  function ending(uncaught) {
    if (state === "failed") return described(value, false);
    if (state === "pending") return problem("", "the promise was never settled", "");
    if (uncaught) return problem("", "Uncaught " + uncaught, "");
    try {
      const result = toJson(value);
      if (result.length <= maxResult) return whole(['"result":', stringify(result)]);
      const count = result.length + " characters as JSON of at most " + maxResult;
      return problem("", "the result is too long, " + count + "; give a part of it", "");
    } catch (error) {
      return described(error, true);
    }
  }

  // Starts the script; the function that it returns is for when nothing is left to be done.
  return function (order) {
    start(order);
    return finish;
  };
})()
