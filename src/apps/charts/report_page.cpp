#include "apps/charts/report_page.h"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <thread>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "apps/charts/svg_chart.h"
#include "kernels/machine_limits.h"

namespace quire {
namespace {

constexpr std::string_view kPageHead = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --line: #d5d8dc; --dim: #62676d;
        --warn: #a13d00; --s0: #1f6fb2; --s1: #c2541b; --s2: #2c8a55; --s3: #8a4fb0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --paper: #17191c; --line: #3a3f45; --dim: #9aa0a6;
          --warn: #ffab73; --s0: #62aef0; --s1: #f0935c; --s2: #63c991; --s3: #c48fe6; }
}
body { margin: 2rem auto; max-width: 84rem; padding: 0 1rem; color: var(--ink);
       background: var(--paper); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .3rem; }
p { margin: .2rem 0 .6rem; color: var(--dim); }
pre { margin: .2rem 0 .8rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85em; }
p.warn { color: var(--warn); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr));
          gap: 1rem; margin: .8rem 0; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--dim); }
svg text.title { font-size: 14px; font-weight: 600; fill: var(--ink); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg polyline { fill: none; stroke-width: 2; }
svg polyline.s0 { stroke: var(--s0); } svg polyline.s1 { stroke: var(--s1); }
svg polyline.s2 { stroke: var(--s2); } svg polyline.s3 { stroke: var(--s3); }
svg circle.s0, svg rect.s0 { fill: var(--s0); } svg circle.s1, svg rect.s1 { fill: var(--s1); }
svg circle.s2, svg rect.s2 { fill: var(--s2); } svg circle.s3, svg rect.s3 { fill: var(--s3); }
</style>
)html";

// As a shell would read it.
std::string shell_word(std::string_view word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:,=@%+").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string result = "'";
  for (const char c : word) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

// The command of this process, without its key.
std::string own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);  // which says that it is empty
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::string command = "quire";
  bool key_follows = false;
  for (std::size_t begin = all.find('\0') + 1; begin != 0 && begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    const std::string word = all.substr(begin, end - begin);
    begin = end + 1;
    command += ' ';
    if (key_follows) {
      command += "...";
    } else if (word.starts_with("--api-key=")) {
      command += "--api-key=...";
    } else {
      command += shell_word(word);
    }
    key_follows = !key_follows && word == "--api-key";
  }
  return command;
}

}  // namespace

Provenance provenance() {
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 30);
  return Provenance{.time = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))),
                    .version = QUIRE_VERSION,
                    .machine = fmt::format("{}, {} CPUs, {:.0f} GiB", processor_name(),
                                           std::thread::hardware_concurrency(), memory),
                    .command = own_command()};
}

std::string page_head(std::string_view title) {
  std::string html(kPageHead);
  const std::string_view before = "<style>";
  html.insert(html.find(before), fmt::format("<title>{}</title>\n", escape_html(title)));
  return html;
}

std::string provenance_html(const Provenance& provenance, std::string_view machine_role) {
  return fmt::format("<p>{}; quire {}; {} {}.</p>\n<pre>{}</pre>\n", escape_html(provenance.time),
                     escape_html(provenance.version), machine_role, escape_html(provenance.machine),
                     escape_html(provenance.command));
}

}  // namespace quire
