// Searches or replaces with one pattern, and gives the answer as JSON text. No code of others runs here.
(function () {
  "use strict";

  function compiled(order) {
    try {
      return new RegExp(mended(order.pattern, order.flags), order.flags);
    } catch (error) {
      return error.message;
    }
  }

  // Under the flag v, quickjs-ng 0.17 refuses a "-" outside of classes, which stands for itself there.
  function mended(pattern, flags) {
    if (!flags.includes("v")) return pattern;
    const parts = [];
    let depth = 0;
    for (let at = 0; at < pattern.length; at++) {
      const char = pattern[at];
      const isModifier = /\(\?[a-z]*$/.test(pattern.slice(Math.max(0, at - 5), at));
      if (char === "\\") parts.push(char, pattern[++at]);
      else parts.push(char === "-" && !depth && !isModifier ? "\\x2d" : char);
      if (char === "[") depth++;
      else if (char === "]" && depth) depth--;
    }
    return parts.join("");
  }

  // Matches up to `max_matches` and `max_output` characters, and whether there are more.
  function search(order, pattern) {
    const matches = [];
    const groups = [];
    let size = 0;
    for (const match of found(order.text, pattern)) {
      size += match[0].length;
      for (const name in match.groups) size += name.length + (match.groups[name] || "").length;
      if (!matches.length && size > order.max_output) return { error: "the match is too long: " + size + " characters" };
      if (matches.length === order.max_matches || size > order.max_output) {
        return { matches, groups, truncated: true };
      }
      matches.push(match[0]);
      if (match.groups) groups.push(match.groups);
    }
    return { matches, groups, truncated: false };
  }

  function found(text, pattern) {
    if (pattern.global) return text.matchAll(pattern);
    const match = pattern.exec(text);
    return match ? [match] : [];
  }

  // String.prototype.replace would hold all matches in memory at once, hundreds of bytes for each.
  function replace(order, pattern) {
    const { text, max_output } = order;
    const done = [];
    let built = "";
    let template;
    let at = 0;
    let size = 0;
    let replacements = 0;

    function put(piece) {
      built += piece;
      if (built.length < 100000) return;
      size += built.length;
      if (size <= max_output) done.push(built);
      built = "";
    }

    for (const match of found(text, pattern)) {
      template ??= parsed(order.replace, match.length - 1, match.groups !== undefined);
      const { index } = match;
      if (index > at) put(text.slice(at, index));
      for (let each = 0; each < template.length && size <= max_output; each++) {
        put(typeof template[each] === "string" ? template[each] : template[each](match));
      }
      if (size > max_output) break;
      at = index + match[0].length;
      replacements++;
    }
    put(text.slice(at));
    if (size + built.length <= max_output) return { result: done.join("") + built, replacements };
    return { error: "the result is too long, over " + max_output + " characters; nothing was replaced" };
  }

  // GetSubstitution of ECMA-262: the texts and functions of a match that a replacement consists of.
  function parsed(replacement, captures, hasNames) {
    const special = hasNames ? /\$(?:[$&`']|\d\d?|<([^>]*)>)/g : /\$(?:[$&`']|\d\d?)/g;
    const pieces = [];
    let at = 0;
    for (let found; (found = special.exec(replacement)); at = special.lastIndex) {
      pieces.push(replacement.slice(at, found.index));
      pieces.push(put(found));
    }
    pieces.push(replacement.slice(at));
    return pieces.filter((piece) => piece !== "");

    function put(found) {
      const sign = found[0][1];
      if (sign === "$") return "$";
      if (sign === "&") return (match) => match[0];
      if (sign === "`") return (match) => match.input.slice(0, match.index);
      if (sign === "'") return (match) => match.input.slice(match.index + match[0].length);
      if (sign === "<") return (match) => match.groups[found[1]] ?? "";
      let index = Number(found[0].slice(1));
      if (index > captures && found[0].length === 3) {
        index = Number(sign); // the second digit is text
        special.lastIndex--;
      }
      if (index < 1 || index > captures) return replacement.slice(found.index, special.lastIndex);
      return (match) => match[index] ?? "";
    }
  }

  return function (order) {
    const pattern = compiled(order);
    let answer;
    if (typeof pattern === "string") answer = { invalid: pattern };
    else answer = order.replace === null ? search(order, pattern) : replace(order, pattern);
    return JSON.stringify(answer, (key, item) => (item === undefined ? null : item));
  };
})()
