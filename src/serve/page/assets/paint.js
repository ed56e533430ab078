// What the pictures share: colours of requests and of the scheme in force, canvases as sharp as the
// screen, a tip beside the pointer.
import {h} from './dom.js';

// Neighbouring numbers get hues far apart (the golden angle).
function hue(request) {
  return Math.round((request * 137.508) % 360);
}

// The scheme's colours, as a canvas takes them.
export class Palette {
  constructor() {
    this.probe = h('span', {hidden: true});
    document.body.append(this.probe);
    this.read();
  }

  read() {
    const resolve = (colour) => {
      this.probe.style.color = colour;
      return getComputedStyle(this.probe).color;
    };
    this.dark = resolve('light-dark(#000, #fff)') === 'rgb(255, 255, 255)';
    for (const name of ['ink', 'muted', 'line', 'sunken', 'data-1', 'data-2', 'data-3']) {
      this[name] = resolve(`var(--${name})`);
    }
    this.cached = resolve('light-dark(#c9ccd1, #4b515a)');
  }

  // Of a request's output tokens.
  request(number) {
    return `hsl(${hue(number)} ${this.dark ? '52% 58%' : '58% 60%'})`;
  }

  // Of its prompt: the same hue, deeper.
  prompt(number) {
    return `hsl(${hue(number)} ${this.dark ? '55% 34%' : '62% 34%'})`;
  }

  // Over either, for hatches.
  stroke(number) {
    return `hsl(${hue(number)} ${this.dark ? '70% 80%' : '75% 88%'})`;
  }
}

// Calls `changed` when the colour scheme does.
export function watchScheme(changed) {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
  new MutationObserver(changed).observe(document.documentElement, {attributeFilter: ['data-theme']});
}

// Fits a canvas to `width` by `height` pixels of the page; its pen then draws in these.
export function fit(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * scale));
  const t = Math.max(1, Math.round(height * scale));
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== t) canvas.height = t;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return pen;
}

export class Tip {
  constructor() {
    this.element = h('div', {class: 'tip', hidden: true});
    document.body.append(this.element);
  }

  show(event, text) {
    this.element.textContent = text;
    this.element.hidden = false;
    const {width, height} = this.element.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - width - 8);
    const below = event.clientY + 18 + height < innerHeight;
    this.element.style.left = `${Math.max(8, x)}px`;
    this.element.style.top = `${below ? event.clientY + 18 : event.clientY - height - 10}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}
