// The KV blocks: one cell each, in the colour of the request that holds it.
import {h} from './dom.js';
import {count, plural} from './format.js';
import {fit} from './paint.js';

const FREE = 0;
const CACHED = 1;
const RETAINED = 2;
const MIN_CELL = 4;
const MAX_CELL = 15;
const MOST_HEIGHT = 260;

// A cell's use as the server writes it: below 4 a state, else twice the request and whether shared.
const requestOf = (use) => Math.floor((use - 4) / 2);
const isShared = (use) => use % 2 === 1;

// The largest cells with which all of them fit.
function layout(cells, width) {
  for (let size = MAX_CELL; size > MIN_CELL; --size) {
    const columns = Math.max(1, Math.floor(width / size));
    if (Math.ceil(cells / columns) * size <= MOST_HEIGHT) return {size, columns};
  }
  return {size: MIN_CELL, columns: Math.max(1, Math.floor(width / MIN_CELL))};
}

export class BlockMap {
  // `open(request)` is called with the number of a request that was clicked, `name(request)` gives
  // its name.
  constructor(palette, tip, {open, name}) {
    this.palette = palette;
    this.name = name;
    this.uses = [];
    this.canvas = h('canvas', {role: 'img', class: 'clickable'});
    this.summary = h('p', {class: 'muted small'});
    this.root = h('div', {},
      this.canvas,
      h('ul', {class: 'legend'},
        h('li', {}, h('span', {class: 'swatch use-held'}), 'held by a request (its colour)'),
        h('li', {}, h('span', {class: 'swatch use-shared'}), 'shared by several'),
        h('li', {}, h('span', {class: 'swatch use-cached'}), 'free, content cached'),
        h('li', {}, h('span', {class: 'swatch use-free'}), 'free')),
      this.summary);
    this.canvas.addEventListener('pointermove', (event) => {
      const text = this.#describe(this.#at(event));
      if (text) tip.show(event, text);
      else tip.hide();
    });
    this.canvas.addEventListener('pointerleave', () => tip.hide());
    this.canvas.addEventListener('click', (event) => {
      const use = this.uses[this.#at(event)];
      if (use >= 4) open(requestOf(use));
    });
  }

  update(blocks, blockSize) {
    const before = this.uses;
    this.blocks = blocks;
    this.uses = [];
    for (let i = 0; i < blocks.cells.length; i += 2) {
      for (let n = 0; n < blocks.cells[i]; ++n) this.uses.push(blocks.cells[i + 1]);
    }
    const each = blocks.per_cell === 1 ? `A cell is a block of ${plural(blockSize, 'token')}.`
      : `A cell shows what most of ${blocks.per_cell} blocks of ${plural(blockSize, 'token')} are.`;
    this.summary.textContent = `${count(blocks.total)} blocks: ${count(blocks.used)} held, ` +
      `of them ${count(blocks.shared)} shared; ${count(blocks.cached)} cached, ${count(blocks.free)} free. ${each}`;
    this.canvas.setAttribute('aria-label', `KV blocks. ${this.summary.textContent}`);
    const sameLayout = this.layout?.width === this.canvas.clientWidth && before.length === this.uses.length;
    if (sameLayout) this.#drawCells((use, i) => use !== before[i]);
    else this.draw();
  }

  // All cells.
  draw() {
    const width = this.canvas.clientWidth;
    if (width === 0 || this.uses.length === 0) return;
    const {size, columns} = layout(this.uses.length, width);
    const height = Math.ceil(this.uses.length / columns) * size;
    this.layout = {size, columns, width};
    this.pen = fit(this.canvas, width, height);
    this.pen.clearRect(0, 0, width, height);
    this.#drawCells(() => true);
  }

  #drawCells(wanted) {
    const {size, columns} = this.layout;
    const gap = size > 6 ? 1 : 0.5;
    this.uses.forEach((use, i) => {
      if (!wanted(use, i)) return;
      const x = i % columns * size;
      const y = Math.floor(i / columns) * size;
      this.pen.clearRect(x, y, size, size);
      this.#cell(this.pen, use, x, y, size - gap);
    });
  }

  #cell(pen, use, x, y, size) {
    if (use === FREE) {
      pen.fillStyle = this.palette.sunken;
      pen.fillRect(x, y, size, size);
      if (size > 6) {
        pen.strokeStyle = this.palette.line;
        pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
      }
      return;
    }
    if (use === CACHED || use === RETAINED) {
      pen.fillStyle = use === CACHED ? this.palette.cached : this.palette.muted;
      pen.fillRect(x, y, size, size);
      return;
    }
    const request = requestOf(use);
    pen.fillStyle = this.palette.request(request);
    pen.fillRect(x, y, size, size);
    if (!isShared(use)) return;
    pen.fillStyle = this.palette.ink;
    const dot = Math.max(2, size / 3);
    pen.fillRect(x + (size - dot) / 2, y + (size - dot) / 2, dot, dot);
  }

  #at(event) {
    if (!this.layout) return -1;
    const {size, columns} = this.layout;
    const column = Math.floor(event.offsetX / size);
    return column >= columns ? -1 : Math.floor(event.offsetY / size) * columns + column;
  }

  #describe(i) {
    const use = this.uses[i];
    if (use === undefined) return '';
    const per = this.blocks.per_cell;
    const last = Math.min((i + 1) * per, this.blocks.total) - 1;
    const where = per === 1 ? `block ${i}` : `blocks ${i * per} to ${last}, mostly`;
    if (use === FREE) return `${where}: free`;
    if (use === CACHED) return `${where}: free, content cached`;
    if (use === RETAINED) return `${where}: held for an output that has ended`;
    return `${where}: ${this.name(requestOf(use))}${isShared(use) ? ', shared' : ''}`;
  }
}
