#include "apps/timeline_page.h"

#include "base/json.h"

namespace quire {
namespace {

// The page; its script reads the runs from the element "data".
constexpr std::string_view kBeforeData = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Batch slots over time</title>
<style>
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --line: #d5d8dc; --dim: #62676d; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --paper: #17191c; --line: #3a3f45; --dim: #9aa0a6; }
}
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: var(--ink);
       background: var(--paper); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .1rem; }
p { margin: .2rem 0 .6rem; color: var(--dim); }
.plot { display: grid; grid-template-columns: 4.2rem 1fr; }
.labels { display: flex; flex-direction: column; color: var(--dim); font-size: 12px; }
.labels span { flex: 1; display: flex; align-items: center; min-height: 0; }
canvas { width: 100%; display: block; border: 1px solid var(--line); }
.axis { grid-column: 2; display: flex; justify-content: space-between; color: var(--dim);
        font-size: 12px; }
.key { display: flex; gap: 1.4rem; flex-wrap: wrap; color: var(--dim); font-size: 13px; }
.key i { display: inline-block; width: 1.5rem; height: .8rem; margin-right: .4rem;
         vertical-align: middle; border: 1px solid var(--line); }
#tip { position: fixed; pointer-events: none; padding: .25rem .5rem; border-radius: 4px;
       background: var(--ink); color: var(--paper); font-size: 13px; display: none; }
label { color: var(--dim); font-size: 13px; }
</style>
<h1>Batch slots over time</h1>
<p>Each row is a slot of the batch, each colour a request. A slot that is empty, or that computes
tokens nobody wants, is time that the machine gives away.</p>
<div class="key"><span><i style="background:hsl(210 60% 55%)"></i>a request's output tokens</span>
<span><i style="background:hsl(210 60% 30%)"></i>its prompt</span>
<span><i style="background:repeating-linear-gradient(45deg,hsl(210 25% 70%) 0 3px,transparent 3px 6px)"></i>ended:
computed, thrown away</span><span><i></i>empty</span>
<label><input type="checkbox" id="steps"> one column a step, instead of time</label></div>
<main></main>
<div id="tip"></div>
<script id="data" type="application/json">)html";

constexpr std::string_view kAfterData = R"html(</script>
<script>
'use strict';
const runs = JSON.parse(document.getElementById('data').textContent);
const tip = document.getElementById('tip');
const bySteps = document.getElementById('steps');
const hue = request => (request * 137.508) % 360;
const longest = steps => Math.max(...runs.map(run => steps ? run.steps.length : run.end));
const span = (run, i, steps) => steps ? [i, i + 1] : [run.steps[i][0], run.steps[i][1]];

for (const run of runs) {
  const section = document.createElement('section');
  const title = document.createElement('h2');
  title.textContent = run.name;
  const caption = document.createElement('p');
  caption.textContent = run.caption;
  const plot = document.createElement('div');
  plot.className = 'plot';
  const labels = document.createElement('div');
  labels.className = 'labels';
  for (let slot = 0; slot < run.slots; ++slot) {
    const label = document.createElement('span');
    label.textContent = run.slots <= 16 || slot % 4 === 0 ? 'slot ' + slot : '';
    labels.append(label);
  }
  run.canvas = document.createElement('canvas');
  run.canvas.setAttribute('role', 'img');
  run.canvas.setAttribute('aria-label', run.name + ': ' + run.caption);
  run.axis = document.createElement('div');
  run.axis.className = 'axis';
  plot.append(labels, run.canvas, run.axis);
  section.append(title, caption, plot);
  document.querySelector('main').append(section);
  run.canvas.addEventListener('mousemove', event => point(run, event));
  run.canvas.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
}

function draw() {
  const steps = bySteps.checked;
  const end = longest(steps);
  for (const run of runs) {
    const canvas = run.canvas;
    const scale = window.devicePixelRatio || 1;
    const row = run.slots > 16 ? 14 : 24;
    canvas.style.height = run.slots * row + 'px';
    canvas.width = canvas.clientWidth * scale;
    canvas.height = run.slots * row * scale;
    const pen = canvas.getContext('2d');
    const unit = canvas.width / end;
    run.steps.forEach((step, i) => {
      const [from, to] = span(run, i, steps);
      for (const [slot, request, tokens, samples, wanted] of step[2]) {
        const x = from * unit;
        const y = slot * row * scale;
        const width = Math.max((to - from) * unit, 1);
        const height = row * scale - 1;
        const prompt = tokens > 1 || !samples;
        if (wanted) {
          pen.fillStyle = `hsl(${hue(request)} 60% ${prompt ? 32 : 55}%)`;
          pen.fillRect(x, y, width + .5, height);
        } else {
          pen.fillStyle = `hsl(${hue(request)} 20% 60% / .35)`;
          pen.fillRect(x, y, width + .5, height);
          pen.fillStyle = `hsl(${hue(request)} 20% 50% / .8)`;
          for (let line = -(Math.floor(x) % 6); line < width; line += 6) {
            if (line >= 0) pen.fillRect(x + line, y, 1, height);
          }
        }
      }
    });
    const unitName = steps ? ' steps' : ' s';
    const label = value => (steps ? Math.round(value) : value.toFixed(1)) + unitName;
    run.axis.replaceChildren(...[0, .25, .5, .75, 1].map(part => {
      const mark = document.createElement('span');
      mark.textContent = label(part * end);
      return mark;
    }));
  }
}

function point(run, event) {
  const box = run.canvas.getBoundingClientRect();
  const steps = bySteps.checked;
  const at = (event.clientX - box.left) / box.width * longest(steps);
  const slot = Math.floor((event.clientY - box.top) / box.height * run.slots);
  const i = run.steps.findIndex((_, j) => at < span(run, j, steps)[1]);
  const row = i < 0 ? undefined : run.steps[i][2].find(each => each[0] === slot);
  tip.textContent = i < 0 ? `slot ${slot}: the run has ended` :
    !row ? `step ${i}, slot ${slot}: empty` :
    `step ${i}, slot ${slot}: request ${row[1]}, ${row[2]} token${row[2] > 1 ? 's' : ''}` +
    (row[4] ? '' : ', thrown away');
  tip.style.display = 'block';
  tip.style.left = Math.min(event.clientX + 12, window.innerWidth - 300) + 'px';
  tip.style.top = event.clientY + 14 + 'px';
}

bySteps.addEventListener('change', draw);
window.addEventListener('resize', draw);
draw();
</script>
</html>
)html";

json::value to_json(const TimelineRun& run) {
  json::array steps;
  for (const TracedStep& step : run.trace->steps()) {
    json::array rows;
    for (const SlotUse& use : step.rows) {
      rows.push_back(json::array{use.slot, use.request, use.num_tokens, use.samples ? 1 : 0,
                                 use.wanted ? 1 : 0});
    }
    steps.push_back(json::array{step.start_s, step.end_s, std::move(rows)});
  }
  const double end = run.trace->steps().empty() ? 0 : run.trace->steps().back().end_s;
  return json::object{{"name", run.name},
                      {"caption", run.caption},
                      {"slots", run.trace->num_slots()},
                      {"end", end},
                      {"steps", std::move(steps)}};
}

// As the text of a script element, which "</" would end.
std::string escape_for_script(std::string text) {
  for (std::size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3)) {
    text.replace(at, 2, "<\\/");
  }
  return text;
}

}  // namespace

std::string timeline_page(std::span<const TimelineRun> runs) {
  json::array data;
  for (const TimelineRun& run : runs) data.push_back(to_json(run));
  return std::string(kBeforeData) + escape_for_script(json::serialize(data)) +
         std::string(kAfterData);
}

}  // namespace quire
