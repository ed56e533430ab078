// Statuses as Python's exceptions: each code is a class of quire.errors, with `code` and `remedy`.
#pragma once

#include <nanobind/nanobind.h>
#include <utility>

#include "base/status.h"

namespace quire::python {

// Throws what stands for an error; needs the GIL.
[[noreturn]] void raise(const Status& error);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

// The exception that stands for an error, without raising it.
nanobind::object exception_of(const Status& error);

}  // namespace quire::python
