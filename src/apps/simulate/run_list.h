// The runs of one command: simulated one by one, gathered for its table, its JSON and its page.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/output_file.h"
#include "apps/progress.h"
#include "apps/simulate/report_html.h"

namespace quire {

class RunList {
 public:
  // `what`: model, device and traffic. `html`: the file of the page; empty: none.
  RunList(std::string what, std::size_t num_requests)
      : num_requests_(static_cast<double>(num_requests)), page_(std::move(what), provenance()) {}
  Status open_page(const std::string& html);  // before the first run: a path that is wrong shows

  using Simulate =
      std::function<Result<SimulationOutcome>(const std::function<void(std::size_t)>& progress)>;
  Status add(const std::vector<std::string>& labels, const Simulate& simulate);
  // `note`: a sentence on the runs; may be empty.
  Status close_page(const std::string& note);

  const std::vector<SimulatedRun>& runs() const { return runs_; }

 private:
  double num_requests_;
  SimulationPage page_;
  std::optional<OutputFile> html_;
  ProgressBar bar_{"simulating", "requests"};
  std::vector<SimulatedRun> runs_;
};

// One line for each run.
std::string run_table_head();
std::string run_table_row(const std::string& name, const SimulationSummary& summary);
// How far `changed` is from `base`, in the same columns.
std::string run_table_change(const std::string& name, const SimulationSummary& base,
                             const SimulationSummary& changed);

json::object to_json(const SimulatedRun& run);

}  // namespace quire
