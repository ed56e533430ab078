// Gathers what an engine hands out for several requests, so that runs can be compared.
#pragma once

#include <bit>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/api.h"

namespace quire::test {

// One of the n outputs of a request.
struct Output {
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<std::uint32_t> logprob_bits;  // of the tokens, their alternatives after each
  std::vector<bool> forced_tokens;          // of the tokens, where it is asked for
  RequestOutput last;                       // the final piece

  bool operator==(const Output& other) const {
    return text == other.text && token_ids == other.token_ids &&
           logprob_bits == other.logprob_bits && forced_tokens == other.forced_tokens;
  }
};

class Collector {
 public:
  explicit Collector(std::size_t num_requests) : outputs_(num_requests) {}

  OutputSink sink(std::size_t index) {
    return [this, index](const RequestOutput& output) { add(index, output); };
  }
  // Until so many requests have ended, with all their outputs.
  void wait_for(std::size_t num_requests) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ >= num_requests; });
  }
  // [request][index]; after wait_for.
  std::vector<std::vector<Output>> take() { return std::move(outputs_); }
  // Of output 0 of each request.
  const std::vector<PositionLogprobs>& prompt_logprobs() const { return prompt_logprobs_; }

 private:
  void add(std::size_t index, const RequestOutput& output) {
    const std::lock_guard lock(mutex_);
    auto& request = outputs_[index];
    const auto sample = static_cast<std::size_t>(output.index);
    if (request.size() <= sample) request.resize(sample + 1);
    Output& to = request[sample];
    to.text += output.text;
    to.token_ids.insert(to.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
    to.forced_tokens.insert(to.forced_tokens.end(), output.forced_tokens.begin(),
                            output.forced_tokens.end());
    EXPECT_EQ(output.logprobs.size(), output.token_ids.size());
    for (const PositionLogprobs& position : output.logprobs) {
      to.logprob_bits.push_back(std::bit_cast<std::uint32_t>(position.token.logprob));
      for (const TokenLogprob& each : position.top) {
        to.logprob_bits.push_back(static_cast<std::uint32_t>(each.token_id));
        to.logprob_bits.push_back(std::bit_cast<std::uint32_t>(each.logprob));
      }
    }
    for (const PositionLogprobs& position : output.prompt_logprobs) {
      prompt_logprobs_.push_back(position);
    }
    EXPECT_TRUE(output.error.ok()) << output.error.to_string();
    if (!output.finished) return;
    to.last = output;
    if (output.request_finished) ++finished_;
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t finished_ = 0;
  std::vector<std::vector<Output>> outputs_;
  std::vector<PositionLogprobs> prompt_logprobs_;
};

}  // namespace quire::test
