// System prompts with parameters, saved by name on this machine.
import {h, icon, notify} from './dom.js';
import {ask} from './overlay.js';

export class Presets {
  // `read()` gives {system, texts} of the settings as they are, `apply({system, texts})` sets them,
  // `onProblem(error)` is called where the browser could not keep one. `database` may be null.
  constructor(database, {read, apply, onProblem}) {
    this.database = database;
    this.callbacks = {read, apply, onProblem};
    this.presets = new Map();
    this.select = h('select', {id: 'preset', onchange: () => this.#chosen()});
    this.deleteButton = h('button', {
      type: 'button', class: 'quiet icon', 'aria-label': 'Delete the preset', title: 'Delete the preset', onclick: () => this.#delete(),
    }, icon('trash'));
    this.saveButton = h('button', {
      type: 'button', class: 'plain', title: 'Keep the system prompt and what is set below by a name', onclick: () => this.#save(),
    }, 'Save');
    this.element = h('div', {class: 'field wide'}, h('label', {for: 'preset', class: 'name'}, 'Preset'),
      h('div', {class: 'row presets'}, this.select, this.saveButton, this.deleteButton));
    this.#show('');
  }

  async load() {
    if (!this.database) return;
    try {
      this.presets = new Map((await this.database.all('presets')).map((each) => [each.name, each]));
      this.#show('');
    } catch (error) {
      this.callbacks.onProblem(error);
    }
  }

  #show(chosen) {
    const names = [...this.presets.keys()].sort((a, b) => a.localeCompare(b));
    this.select.replaceChildren(
      h('option', {value: ''}, names.length > 0 ? 'Choose one' : 'None saved yet'),
      ...names.map((name) => h('option', {value: name}, name)));
    this.select.value = chosen;
    this.select.disabled = names.length === 0;
    this.deleteButton.hidden = chosen === '';
  }

  #chosen() {
    const preset = this.presets.get(this.select.value);
    this.deleteButton.hidden = !preset;
    if (preset) this.callbacks.apply(preset);
  }

  async #save() {
    const name = await ask({
      title: 'Save as a preset', label: 'Name', value: this.select.value, action: 'Save',
      note: 'It keeps the system prompt and the parameters. A preset of the same name is replaced.',
    });
    if (name === null) return;
    const kept = this.#put({name, ...this.callbacks.read()});
    this.saveButton.focus();  // not later: the user has gone on by then
    await kept;
  }

  async #put(preset) {
    this.presets.set(preset.name, preset);
    this.#show(preset.name);
    await this.#keep(() => this.database.putPreset(preset));
  }

  async #delete() {
    const preset = this.presets.get(this.select.value);
    this.presets.delete(preset.name);
    this.#show('');
    notify(`“${preset.name}” deleted`, {label: 'Undo', action: () => this.#put(preset)});
    await this.#keep(() => this.database.deletePreset(preset.name));
  }

  async #keep(write) {
    if (!this.database) return;
    try {
      await write();
    } catch (error) {
      this.callbacks.onProblem(error);
    }
  }
}
