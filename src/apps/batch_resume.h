// What an earlier run of a batch has written: the requests that --resume need not run again.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/json.h"
#include "base/status.h"

namespace quire {

class DoneRecords {
 public:
  // Reads a batch's output; a file that is not there has no records. What follows the last whole
  // line was torn by a crash or a full disk and does not count. kInvalidArgument for a whole line
  // that is no record.
  static Result<DoneRecords> read(const std::string& path);

  std::uint64_t whole_bytes() const { return whole_bytes_; }  // of the file, up to the torn line
  std::size_t size() const { return prompt_tokens_.size(); }

  bool contains(const json::value& id) const;

  // Says that a line of the input has `id`. kInvalidArgument if an earlier line had it too: then
  // the records cannot be told apart.
  Status take(const json::value& id, std::int64_t line);

  // Checks a request against the record that has its id: kInvalidArgument if that was made for a
  // prompt of another length, because then the input has changed.
  Status check_same(const json::value& id, std::int64_t line, std::int64_t num_prompt_tokens) const;

 private:
  std::uint64_t whole_bytes_ = 0;
  std::unordered_map<std::string, std::int64_t> prompt_tokens_;  // by id; -1 of an error record
  std::unordered_map<std::string, std::int64_t> lines_;          // of the input, by id
};

}  // namespace quire
