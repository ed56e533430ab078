// Reports as one HTML page: figures and charts, no scripts, nothing from elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Where, when and how a report was made.
struct Provenance {
  std::string time;     // "2026-11-24 03:37 UTC"
  std::string version;  // of Quire
  std::string machine;  // that it ran on
  std::string command;  // without the key
};
Provenance provenance();  // now, of this process

// Up to the body, with the colours that charts use.
std::string page_head(std::string_view title);
// `machine_role` goes before the machine's name: "on".
std::string provenance_html(const Provenance& provenance, std::string_view machine_role);

}  // namespace quire
