// A bar of shares with its legend: the memory plan.
import {h} from './dom.js';
import {percent} from './format.js';

// `parts`: [{label, value, kind}], where `kind` is a class of base.css: "data-1" ... "data-6"
// or "data-none". `write` turns a value into text; `total` is what the whole bar stands for.
export function sharesBar({label, parts, write, total}) {
  const shown = parts.filter(({value}) => value > 0);
  const spoken = shown.map((part) => `${part.label} ${write(part.value)}`).join(', ');
  const bar = h('div', {class: 'shares', role: 'img', 'aria-label': `${label}: ${spoken}`},
    shown.map((part) => {
      const piece = h('span', {class: part.kind, title: `${part.label}: ${write(part.value)}`});
      piece.style.flex = `${part.value / total} 0 0`;
      return piece;
    }));
  const legend = h('ul', {class: 'legend'}, shown.map((part) =>
    h('li', {},
      h('span', {class: `swatch ${part.kind}`}),
      h('span', {}, part.label),
      h('span', {class: 'muted number'}, `${write(part.value)} · ${percent(part.value / total)}`))));
  return h('div', {}, bar, legend);
}
