#include "logits_callable.h"

#include <algorithm>
#include <nanobind/ndarray.h>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "gil.h"

namespace quire::python {

namespace nb = nanobind;

namespace {

thread_local bool calling = false;

nb::object array_over(const std::shared_ptr<std::vector<float>>& values) {
  auto owner = std::make_unique<std::shared_ptr<std::vector<float>>>(values);
  nb::capsule keeps(owner.get(), [](void* held) noexcept {
    const std::unique_ptr<std::shared_ptr<std::vector<float>>> last(
        static_cast<std::shared_ptr<std::vector<float>>*>(held));
  });
  owner.release();
  return nb::ndarray<nb::numpy, float>(values->data(), {values->size()}, keeps).cast();
}

std::string text_of(const nb::python_error& error) {
  const nb::str kind(error.type().attr("__name__"));
  const nb::str text(error.value());
  return fmt::format("{}: {}", kind.c_str(), text.c_str());
}

}  // namespace

HeldObject::~HeldObject() {
  const CallsPython inside;  // before the question: the end waits for those who are inside
  if (calls_end()) {
    [[maybe_unused]] const nb::handle leaked = object_.release();
    return;
  }
  const nb::gil_scoped_acquire gil;
  object_.reset();
}

LogitsRow::LogitsRow(std::size_t vocab_size)
    : values_(std::make_shared<std::vector<float>>(vocab_size)), array_(array_over(values_)) {}

Status LogitsCallable::process(std::span<const TokenId> output_token_ids, std::span<float> logits) {
  const CallsPython inside;
  if (calls_end()) return {StatusCode::kCancelled, "the interpreter has ended"};
  const nb::gil_scoped_acquire gil;
  calling = true;
  Status status = call(output_token_ids, logits);
  calling = false;
  return status;
}

Status LogitsCallable::call(std::span<const TokenId> output_token_ids, std::span<float> logits) {
  try {
    nb::list ids;
    for (const TokenId id : output_token_ids) ids.append(id);
    std::ranges::copy(logits, row_->values().begin());
    call_.get()(ids, row_->array());
    std::ranges::copy(row_->values(), logits.begin());
  } catch (const nb::python_error& error) {
    return Status::invalid_argument(fmt::format("logits_processors: {}", text_of(error)));
  }
  return {};
}

bool LogitsCallable::is_calling() { return calling; }

}  // namespace quire::python
