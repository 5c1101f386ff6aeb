// YAML out of the values of a spec: what is written here, every YAML reader reads back as the same values.

const PLAIN = /^[A-Za-z_][A-Za-z0-9_./-]*$/;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"]);

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !WORDS.has(value.toLowerCase()) ? value : JSON.stringify(value);
}

function isEmpty(value) {
  return Array.isArray(value) ? value.length === 0 : Object.keys(value).length === 0;
}

export function yamlOf(value, indent = "") {
  if (value === null || typeof value !== "object") return `${indent}${scalar(value)}\n`;
  if (isEmpty(value)) return `${indent}${Array.isArray(value) ? "[]" : "{}"}\n`;
  if (Array.isArray(value)) {
    return value.map((item) => {
      const text = yamlOf(item, `${indent}  `);
      return `${indent}- ${text.slice(indent.length + 2)}`;
    }).join("");
  }
  return Object.entries(value).map(([key, item]) => (item !== null && typeof item === "object" && !isEmpty(item)
    ? `${indent}${scalar(key)}:\n${yamlOf(item, Array.isArray(item) ? indent : `${indent}  `)}`
    : `${indent}${scalar(key)}: ${yamlOf(item).trimEnd()}\n`)).join("");
}
