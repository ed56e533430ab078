// Small line charts of the last two minutes.
import {h} from './dom.js';
import {fit} from './paint.js';

const HEIGHT = 110;
const SPAN_S = 120;
const LEFT = 52;
const BOTTOM = 16;

// 1, 2 or 5 times a power of ten, not below `value`.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= value * 0.999);
}

export class Chart {
  // `series`: [{name, colour}], colours by their name in the palette; `write` makes a value text.
  constructor(palette, {title, series, write, least}) {
    this.palette = palette;
    this.title = title;
    this.series = series;
    this.write = write;
    this.least = least;  // the scale reaches at least this
    this.points = [];    // {time, values}; null values are gaps
    this.canvas = h('canvas', {role: 'img'});
    this.now = series.map(() => h('span', {class: 'number'}, '–'));
    this.root = h('div', {},
      h('h3', {}, title),
      h('ul', {class: 'legend'}, series.map(({name, colour}, i) =>
        h('li', {}, h('span', {class: `swatch ${colour}`}), h('span', {class: 'muted'}, name), this.now[i]))),
      this.canvas);
  }

  add(time, values) {
    this.points.push({time, values});
    while (this.points[0].time < time - SPAN_S) this.points.shift();
    values.forEach((value, i) => {
      this.now[i].textContent = value === null ? '–' : this.write(value);
    });
    const spoken = this.series.map(({name}, i) => `${name} ${this.now[i].textContent}`).join(', ');
    this.canvas.setAttribute('aria-label', `${this.title}, now: ${spoken}`);
    this.draw();
  }

  clear() {
    this.points = [];
    this.draw();
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    const pen = fit(this.canvas, width, HEIGHT);
    pen.clearRect(0, 0, width, HEIGHT);
    const most = Math.max(this.least, ...this.points.flatMap(({values}) => values.map((value) => value ?? 0)));
    const top = roundUp(most);
    const end = this.points.at(-1)?.time ?? 0;
    const x = (time) => LEFT + (time - end + SPAN_S) / SPAN_S * (width - LEFT - 1);
    const y = (value) => 5 + (1 - value / top) * (HEIGHT - BOTTOM - 5);
    this.#axes(pen, width, top, y);
    this.series.forEach(({colour}, i) => this.#line(pen, this.palette[colour], i, x, y));
  }

  #axes(pen, width, top, y) {
    pen.strokeStyle = this.palette.line;
    pen.fillStyle = this.palette.muted;
    pen.lineWidth = 1;
    pen.font = '11px Inter, system-ui, sans-serif';
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    for (const part of [0, 0.5, 1]) {
      const at = Math.round(y(top * part)) + 0.5;
      pen.beginPath();
      pen.moveTo(LEFT, at);
      pen.lineTo(width, at);
      pen.stroke();
      pen.fillText(this.write(top * part), LEFT - 6, at);
    }
    pen.textBaseline = 'bottom';
    pen.textAlign = 'left';
    pen.fillText('2 min ago', LEFT, HEIGHT);
    pen.textAlign = 'right';
    pen.fillText('now', width, HEIGHT);
  }

  #line(pen, colour, index, x, y) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.lineJoin = 'round';
    pen.beginPath();
    let drawing = false;
    for (const {time, values} of this.points) {
      const value = values[index];
      if (value === null) {
        drawing = false;
        continue;
      }
      if (drawing) pen.lineTo(x(time), y(value));
      else pen.moveTo(x(time), y(value));
      drawing = true;
    }
    pen.stroke();
  }
}
