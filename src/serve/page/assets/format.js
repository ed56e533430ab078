// Numbers for people. The page writes as the rest of Quire does: bytes in powers of 1,024.

const number = new Intl.NumberFormat('en', {maximumFractionDigits: 0});

export function count(value) {
  return number.format(value);
}

export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${unit === 0 ? value : significant(value)} ${units[unit]}`;
}

// Three digits that count: "4.07", "40.7", "407".
export function significant(value) {
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 4));
}

// Seconds: "430 µs", "4.30 ms", "4.30 s", "3 min 20 s".
export function duration(seconds) {
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${significant(seconds * 1e3)} ms`;
  if (seconds < 60) return `${significant(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

export function percent(share) {
  if (share === 0) return '0%';
  const value = share * 100;
  if (value >= 10) return `${value.toFixed(0)}%`;
  return value >= 0.1 ? `${value.toFixed(1)}%` : '<0.1%';
}

// A model's name without what is the same for many: the folder or organization, and the ending of GGUF files.
export function shortName(name) {
  return (name.split('/').filter(Boolean).at(-1) ?? name).replace(/\.gguf$/, '');
}

export function plural(n, one) {
  return `${count(n)} ${one}${n === 1 ? '' : 's'}`;
}
