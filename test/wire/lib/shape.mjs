// SPDX-License-Identifier: MIT
// Compares what came with a printed example: every member of the example must be there, with the
// same name at the same place and of the same kind. More members are fine.

function kind(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z$/.test(value))
    return 'time';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

/** What differs, one line each; [] when the answer has the shape of the example. A list of the
 * example stands for any number of items like its first. In `names` the members are names that
 * the caller chose (bySession): any of them, all of one kind. */
export function differences(example, actual, names = [], at = '') {
  if (kind(example) !== kind(actual)) {
    return [`${at || 'answer'}: ${kind(actual)} instead of ${kind(example)}`];
  }
  if (kind(example) === 'list') {
    return example.length === 0 ? []
      : actual.flatMap((item, i) => differences(example[0], item, names, `${at}[${i}]`));
  }
  if (kind(example) !== 'object') return [];
  if (names.includes(at)) {
    const [first] = Object.values(example);
    return Object.entries(actual).flatMap(
      ([key, value]) => differences(first, value, names, `${at}.${key}`));
  }
  return Object.entries(example).flatMap(([key, value]) => {
    const place = at === '' ? key : `${at}.${key}`;
    return key in actual ? differences(value, actual[key], names, place) : [`${place}: missing`];
  });
}
