// What an answer is asked for with: the parameters and, where two settings are compared, those of the other
// side.
import {h} from './dom.js';
import {Parameters} from './parameters.js';

const SIDES = ['A', 'B'];

class Side {
  constructor(info, name, saved, onChange) {
    this.name = name;
    this.parameters = new Parameters(info, saved?.texts, onChange, name === 'A' ? 'parameter' : `parameter-${name}`);
    const names = info.model.served_names;
    this.select = h('select', {id: `model-${name}`, onchange: onChange}, names.map((each) => h('option', {value: each}, each)));
    this.select.value = names.includes(saved?.model) ? saved.model : names[0];
    this.models = h('div', {class: 'field wide', hidden: names.length < 2},
      h('label', {for: `model-${name}`, class: 'name'}, 'model'), this.select);
    this.element = h('div', {class: 'side'}, this.models, this.parameters.element);
  }

  // {side, model, values, own}, as a request takes it. Throws ServerError, with `side`, for a parameter
  // that cannot be read.
  read() {
    try {
      return {side: this.name, model: this.select.value, values: this.parameters.values(), own: this.parameters.own()};
    } catch (error) {
      error.side = this.name;
      throw error;
    }
  }

  save() {
    return {texts: this.parameters.texts(), model: this.select.value};
  }
}

// What one side has that the other has not: "temperature 0.2, top_k 5". `usual`: the defaults by name.
function labelOf(mine, other, usual) {
  const write = (value) => value === undefined || value === null ? 'default' : typeof value === 'string' ? value : JSON.stringify(value);
  const textOf = ({values}, name) => write(values[name] ?? usual[name]);
  const names = Object.keys({...mine.values, ...other.values}).filter((name) => textOf(mine, name) !== textOf(other, name));
  const parts = names.map((name) => `${name} ${textOf(mine, name)}`);
  if (mine.model !== other.model) parts.unshift(mine.model);
  return parts.join(', ') || 'the same settings';
}

export class Settings {
  // `saved` is what save() gave, or undefined; `onChange` is called after each change.
  constructor(info, saved, onChange) {
    this.onChange = onChange;
    this.usual = Object.fromEntries(info.sampling.map(({name, default: value}) => [name, value]));
    this.sides = SIDES.map((name) => new Side(info, name, saved?.sides[name], onChange));
    this.buttons = this.sides.map(({name}) => h('button', {
      type: 'button', 'aria-label': `Settings of side ${name}`, onclick: () => this.#show(name),
    }, name));
    this.switch = h('button', {
      type: 'button', class: 'quiet small', title: 'Two settings side by side on one prompt, with the same seed',
      onclick: () => this.#setComparing(!this.comparing),
    }, 'Compare');
    this.tabs = h('div', {class: 'row sides'}, h('div', {class: 'segments', role: 'group', 'aria-label': 'Sides'}, this.buttons),
      h('span', {class: 'small muted'}, 'side by side'));
    this.element = h('div', {class: 'settings'});
    this.comparing = saved?.comparing ?? false;
    this.#show('A');
  }

  save() {
    return {comparing: this.comparing, sides: Object.fromEntries(this.sides.map((side) => [side.name, side.save()]))};
  }

  #setComparing(comparing) {
    this.comparing = comparing;
    const [a, b] = this.sides;
    if (comparing) b.parameters.write(a.parameters.texts());
    this.#show(comparing ? 'B' : 'A');
    this.onChange();
  }

  #show(name) {
    this.shown = name;
    this.switch.setAttribute('aria-pressed', String(this.comparing));
    this.sides.forEach((side, i) => this.buttons[i].setAttribute('aria-pressed', String(side.name === name)));
    const {element} = this.sides.find((side) => side.name === name);
    // Only what is in view is in the page; the tabs stay where they are, and with them the focus.
    this.element.querySelector(':scope > .side')?.remove();
    if (!this.comparing) this.tabs.remove();
    else if (!this.tabs.isConnected) this.element.append(this.tabs);
    this.element.append(element);
  }

  // The parameters that are in view.
  get parameters() {
    return this.sides.find(({name}) => name === this.shown).parameters;
  }

  setDefault(name, usual, asked) {
    for (const {parameters} of this.sides) parameters.setDefault(name, usual, asked);
  }

  // Shows the field that an error names, on its side, at the place that it tells.
  focus({param, side, message}) {
    if (side && (this.comparing || side === 'A')) this.#show(side);
    this.parameters.focus(param, message);
  }

  // What to ask for: one {side, label, model, values, own}, or two that are compared. These have the same
  // seed, one output each, and tokens. Throws as Side.read().
  wanted() {
    if (!this.comparing) return [{...this.sides[0].read(), label: ''}];
    const [a, b] = this.sides.map((side) => side.read());
    const seed = a.values.seed ?? b.values.seed ?? crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
    return [[a, b], [b, a]].map(([mine, other]) => {
      const {n, ...values} = mine.values;
      return {...mine, label: labelOf(mine, other, this.usual), values: {logprobs: 0, ...values, seed}};
    });
  }

  // What to ask for where an answer goes on that stands on a side.
  wantedOf(side) {
    return this.sides.find(({name}) => this.comparing && name === side)?.read() ?? this.sides[0].read();
  }
}
