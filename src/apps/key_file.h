// A file of API keys (--api-key-file, as llama.cpp's server has it), each with limits of its own.
//
//   # who           what
//   sk-team-a       rpm-limit=600 tpm-limit=1m
//   sk-trial        rpm-limit=10 tpm-limit=20k max-parallel-requests=1
//   sk-internal     rpm-limit=none
//   sk-other
//
// A key a line, then what differs from the limits that all keys have, called as the flags. "none"
// takes a limit away. Empty lines and those that begin with # are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/quotas/key_quotas.h"

namespace quire {

inline constexpr std::int64_t kMaxQuota = 1'000'000'000;  // of each limit

struct KeyLimits {
  std::string key;
  QuotaLimits limits;
};

// `text` is the content of the file `name`, `defaults` what a key has of which nothing else is
// said. At least one key. kInvalidArgument naming the file, the line and what was expected there;
// the message repeats nothing of the line, which may be a key.
Result<std::vector<KeyLimits>> parse_key_file(std::string_view text, std::string_view name,
                                              const QuotaLimits& defaults);
// kNotFound, kIoError and the like for a file that cannot be read.
Result<std::vector<KeyLimits>> read_key_file(const std::string& path, const QuotaLimits& defaults);

}  // namespace quire
