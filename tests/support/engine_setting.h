// How an engine is set up where outputs are compared under many settings.
#pragma once

#include <cstdint>
#include <string>

#include "engine/api.h"

namespace quire::test {

struct EngineSetting {
  std::string name;
  bool batch = true;  // all requests at once, else one after the other
  std::int32_t block_size = 16;
  std::int32_t chunk = 512;  // max_num_batched_tokens
  std::int32_t max_num_seqs = 40;
  int threads = 2;
  bool prefix_caching = true;
  bool preempt = false;  // a pool that cannot hold all sequences; its size is the test's to say
  std::int32_t max_steps_in_flight = 1;
  std::string batching = "continuous";
  std::string policy = "fcfs";
  std::string speculation = "{}";
};

inline EngineArgs args_of(const EngineSetting& setting) {
  EngineArgs args;
  args.threads = setting.threads;
  args.block_size = setting.block_size;
  args.max_num_batched_tokens = setting.chunk;
  args.max_num_seqs = setting.max_num_seqs;
  args.max_steps_in_flight = setting.max_steps_in_flight;
  args.enable_prefix_caching = setting.prefix_caching;
  args.batching = setting.batching;
  args.max_batch_delay_ms = 5;
  args.scheduling_policy = setting.policy;
  args.speculation = SpeculativeConfig::parse(setting.speculation).value();
  return args;
}

}  // namespace quire::test
