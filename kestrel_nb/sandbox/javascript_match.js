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

  function replace(order, pattern) {
    let replacements = 0;
    const result = order.text.replace(pattern, order.replace);
    if (result.length > order.max_output) return { error: "the result is too long: " + result.length + " characters" };
    pattern.lastIndex = 0;
    order.text.replace(pattern, () => {
      replacements++;
      return "";
    });
    return { result, replacements };
  }

  return function (order) {
    const pattern = compiled(order);
    let answer;
    if (typeof pattern === "string") answer = { invalid: pattern };
    else answer = order.replace === null ? search(order, pattern) : replace(order, pattern);
    return JSON.stringify(answer, (key, item) => (item === undefined ? null : item));
  };
})()
