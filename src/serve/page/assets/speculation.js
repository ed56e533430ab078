// What guessing tokens gives, where the server does: how many are right, and the time that they take and save.
import {h} from './dom.js';
import {count, duration, percent, plural, significant} from './format.js';

const FIGURES = [['method', 'Method'], ['length', 'Tokens in a step with guesses'], ['right', 'Guesses right'],
  ['speedup', 'Speed-up'], ['draft', 'Time to guess'], ['verify', 'Steps with guesses took'], ['rows', 'Of that, for guesses']];

export class SpeculationView {
  constructor() {
    this.values = new Map();
    this.figures = h('dl', {class: 'facts figures speculation'}, FIGURES.map(([id, title]) => {
      const value = h('dd', {}, '–');
      this.values.set(id, value);
      return h('div', {}, h('dt', {}, title), value);
    }));
    this.empty = h('p', {class: 'muted small'}, 'Nothing has been guessed yet.');
    this.places = h('ol', {class: 'places', 'aria-label': 'Guesses that were right, by place'});
    this.byPlace = h('div', {}, h('h3', {}, 'Guesses that were right, by place'), this.places);
    this.root = h('section', {class: 'sheet', 'aria-labelledby': 'speculation', hidden: true},
      h('h2', {id: 'speculation'}, 'Speculation'), this.figures, this.empty, this.byPlace);
    this.bars = [];
  }

  // `told` is undefined where the server guesses nothing.
  update(told) {
    this.root.hidden = told === undefined;
    if (told === undefined) return;
    const guessed = told.drafts > 0;
    const set = (id, text) => { this.values.get(id).textContent = guessed || id === 'method' ? text : '–'; };
    set('method', `${told.method}, up to ${plural(told.max_tokens, 'token')}`);
    set('length', significant(1 + told.accepted_tokens / told.drafts));
    set('right', `${percent(told.accepted_tokens / told.draft_tokens)} of ${count(told.draft_tokens)}`);
    set('speedup', told.speedup === undefined ? 'not known yet' : `${told.speedup.toFixed(2)} ×`);
    set('draft', duration(told.draft_s));
    set('verify', duration(told.verify_s));
    set('rows', duration(told.draft_rows_s));
    this.empty.hidden = guessed;
    this.byPlace.hidden = !guessed;
    if (guessed) this.#drawPlaces(told.accepted_at.map((right) => right / told.drafts));
  }

  #drawPlaces(shares) {
    if (this.bars.length !== shares.length) {
      this.bars = shares.map(() => ({fill: h('span', {class: 'data-2'}), share: h('span', {class: 'number'})}));
      this.places.replaceChildren(...this.bars.map(({fill, share}) =>
        h('li', {}, share, h('span', {class: 'place-track', 'aria-hidden': 'true'}, fill))));
    }
    shares.forEach((share, i) => {
      this.bars[i].fill.style.height = `${100 * share}%`;
      this.bars[i].share.textContent = percent(share);
    });
  }
}
