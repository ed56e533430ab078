// A function of Python's over the logits of a request, called on the executor's thread.
#pragma once

#include <memory>
#include <nanobind/nanobind.h>
#include <span>
#include <vector>

#include "core/logits_processor.h"

namespace quire::python {

// An object that may be let go by any thread, and after the interpreter's end.
class HeldObject {
 public:
  explicit HeldObject(nanobind::object object) : object_(std::move(object)) {}
  ~HeldObject();
  HeldObject(const HeldObject&) = delete;
  HeldObject& operator=(const HeldObject&) = delete;

  const nanobind::object& get() const { return object_; }  // with the GIL

 private:
  nanobind::object object_;
};

// The numbers of one row as an array of numpy's, which outlives the engine where a function keeps
// it. One row is processed at a time, so an engine has one.
class LogitsRow {
 public:
  // With the GIL; raises ImportError where numpy is missing.
  explicit LogitsRow(std::size_t vocab_size);

  std::span<float> values() const { return *values_; }
  const nanobind::object& array() const { return array_.get(); }  // float32 [vocab_size]

 private:
  std::shared_ptr<std::vector<float>> values_;
  HeldObject array_;
};

class LogitsCallable final : public LogitsProcessor {
 public:
  // `call` (output_token_ids, row) changes the row in place. With the GIL.
  LogitsCallable(nanobind::object call, std::shared_ptr<LogitsRow> row)
      : call_(std::move(call)), row_(std::move(row)) {}

  // kInvalidArgument with the exception that `call` ended with, kCancelled at the interpreter's
  // end.
  Status process(std::span<const TokenId> output_token_ids, std::span<float> logits) override;

  // Whether this thread is within process(): an engine that it called now would wait for itself.
  static bool is_calling();

 private:
  Status call(std::span<const TokenId> output_token_ids, std::span<float> logits);

  HeldObject call_;
  std::shared_ptr<LogitsRow> row_;
};

}  // namespace quire::python
