// One batch of the Batch API, from the upload of its file to the deletion of what is left of it.
#pragma once

#include <string>
#include <vector>

#include "serve_load/target.h"

namespace quire::load {

class SoakBatch {
 public:
  // Uploads a line for each of `bodies`, of requests to /v1/completions, and begins the batch.
  static Result<SoakBatch> begin(const Target& target, const std::vector<std::string>& bodies);

  // It may be through before it hears of it.
  void cancel();
  // Waits for the end, reads the results and deletes both files. An error where a line has no
  // result or a failed one, unless the batch was cancelled.
  Status finish();

 private:
  explicit SoakBatch(const Target& target) : target_(&target) {}
  Status check_results(const json::object& batch) const;

  const Target* target_;
  std::size_t num_lines_ = 0;
  std::string input_file_;
  std::string id_;
  bool cancelled_ = false;
};

}  // namespace quire::load
