// `quire generate --input FILE --output FILE`: many prompts through one engine, one record a line,
// in input order or as they finish, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>

#include "apps/batch_input.h"
#include "apps/batch_resume.h"
#include "apps/output_file.h"
#include "base/clock.h"
#include "core/sampling_params.h"
#include "engine/api.h"

namespace quire {

// What a batch needs of an engine, so that it also runs over a simulated one.
class BatchBackend {
 public:
  virtual ~BatchBackend() = default;
  virtual Result<std::vector<TokenId>> encode(const BatchPrompt& prompt) const = 0;
  virtual std::int64_t max_model_len() const = 0;
  virtual Result<RequestId> submit(GenerateRequest request, OutputSink sink) = 0;
  virtual void abort(RequestId request_id) = 0;
};

class EngineBackend final : public BatchBackend {
 public:
  explicit EngineBackend(Engine& engine) : engine_(engine) {}
  Result<std::vector<TokenId>> encode(const BatchPrompt& prompt) const override;
  std::int64_t max_model_len() const override { return engine_.info().max_model_len; }
  Result<RequestId> submit(GenerateRequest request, OutputSink sink) override {
    return engine_.submit(std::move(request), std::move(sink));
  }
  void abort(RequestId request_id) override { engine_.abort(request_id); }

 private:
  Engine& engine_;
};

struct BatchOptions {
  SamplingParams defaults = {};   // of the lines
  bool max_tokens_given = false;  // in the defaults; else to the end of the context
  bool unordered = false;         // write records as they finish
  std::int64_t window = 1024;     // lines in memory at most
  DoneRecords* done = nullptr;    // of an earlier run, to skip
  std::function<bool()> interrupted = [] { return false; };
};

struct BatchSummary {
  std::int64_t num_requests = 0;  // records written
  std::int64_t num_errors = 0;    // error records among them
  std::int64_t num_skipped = 0;   // lines whose record was there already
  std::int64_t num_dropped = 0;   // requests that an interrupt ended; they have no record
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  double seconds = 0;
};

// Runs every line of `input`. Lines that are no valid request, and requests that the engine
// refuses, become error records. Stops at an interrupt: what still runs is aborted and not written,
// so that --resume runs it again. Errors: kIoError if `input` cannot be read or `output` not
// written, kInvalidArgument where `done` does not fit the input; what was written before stays.
Result<BatchSummary> run_batch(BatchBackend& engine, std::istream& input, OutputFile& output,
                               const BatchOptions& options);

// max_tokens up to the end of the context where none was given.
void default_max_tokens(SamplingParams& params, std::int64_t prompt_tokens,
                        std::int64_t max_model_len);

}  // namespace quire
