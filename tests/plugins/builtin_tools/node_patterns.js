// What the engine of Node makes of many patterns: a list of orders on standard input, a list of answers on the output.
const orders = JSON.parse(require("fs").readFileSync(0, "utf8"));

function answer({ text, pattern, flags, replace }) {
  let re;
  try {
    re = new RegExp(pattern, flags);
  } catch {
    return { invalid: true };
  }
  const all = flags.includes("g");
  if (replace !== null) {
    const counted = (all ? [...text.matchAll(re)] : [re.exec(text)]).filter(Boolean).length;
    re.lastIndex = 0;
    return { result: text.replace(re, replace), replacements: counted };
  }
  const found = all ? [...text.matchAll(re)] : [re.exec(text)].filter(Boolean);
  const matches = found.map((match) => match[0]);
  const groups = found.filter((match) => match.groups).map((match) => ({ ...match.groups }));
  return { matches, groups, truncated: false };
}

const text = JSON.stringify(orders.map(answer), (key, value) => (value === undefined ? null : value));
process.stdout.write(text);
