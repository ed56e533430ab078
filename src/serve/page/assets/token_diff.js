// Which tokens two answers do not have in common, by a shortest edit script (Myers' algorithm).

const MOST_EDITS = 1000;

const same = (a, b) => a.text === b.text && a.bytes === b.bytes;

// The edits from a[0, n) to b[0, m), or null where there are more than MOST_EDITS: the ends that the paths
// with 0, 1, 2... edits reach on each diagonal, until one reaches the end.
function paths(a, b) {
  const n = a.length;
  const m = b.length;
  const ends = [];
  let reach = new Map([[1, 0]]);
  for (let edits = 0; edits <= Math.min(n + m, MOST_EDITS); ++edits) {
    const next = new Map();
    for (let k = -edits; k <= edits; k += 2) {
      const left = reach.get(k - 1) ?? -1;
      const right = reach.get(k + 1) ?? -1;
      let x = k === -edits || (k !== edits && left < right) ? right : left + 1;
      while (x < n && x - k < m && same(a[x], b[x - k])) ++x;
      next.set(k, x);
    }
    ends.push(next);
    if ((next.get(n - m) ?? -1) >= n) return ends;
    reach = next;
  }
  return null;
}

// Two sets: the indices of the tokens of `a` that are not in `b`, and the other way round.
export function differing(a, b) {
  const onlyA = new Set();
  const onlyB = new Set();
  let x = a.length;
  let y = b.length;
  const ends = paths(a, b);
  if (ends === null) {
    // Too different to be worth more: all but what both begin with.
    let first = 0;
    while (same(a[first], b[first])) ++first;
    a.forEach((_, i) => i >= first && onlyA.add(i));
    b.forEach((_, i) => i >= first && onlyB.add(i));
    return [onlyA, onlyB];
  }
  for (let edits = ends.length - 1; edits > 0; --edits) {
    const k = x - y;
    const before = ends[edits - 1];
    const left = before.get(k - 1) ?? -1;
    const right = before.get(k + 1) ?? -1;
    const down = k === -edits || (k !== edits && left < right);
    x = down ? right : left;
    y = x - (down ? k + 1 : k - 1);
    if (down) onlyB.add(y);
    else onlyA.add(x);
  }
  return [onlyA, onlyB];
}
