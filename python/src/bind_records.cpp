// Inbox and what comes out of it. Arrays are views of what C++ holds, which they keep alive.
#include <algorithm>
#include <memory>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <span>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "gil.h"
#include "inbox.h"
#include "serve/protocols/embedding_vector.h"

namespace quire::python {

namespace nb = nanobind;

namespace {

constexpr double kMaxTimeout = 3600;

struct EmbeddingVector {
  std::vector<float> values;
};

// A read-only array of numpy's over `values`, which are `owner`'s.
template <typename T>
nb::object view(const std::vector<T>& values, std::initializer_list<std::size_t> shape,
                nb::handle owner) {
  return nb::ndarray<nb::numpy, const T>(values.data(), shape, owner).cast();
}

template <typename T, std::vector<T> LogprobColumns::*kColumn>
nb::object column(nb::pointer_and_handle<LogprobColumns> self) {
  return view((*self.p).*kColumn, {self.p->token_ids.size()}, self.h);
}
template <typename T, std::vector<T> LogprobColumns::*kColumn>
nb::object top_column(nb::pointer_and_handle<LogprobColumns> self) {
  return view((*self.p).*kColumn, {self.p->token_ids.size(), self.p->width}, self.h);
}

// What vLLM's dicts are made of: for each position its entries (token id, logprob, rank), the token
// itself first, then the alternatives that it is not among.
nb::list rows(const LogprobColumns& columns) {
  nb::list rows;
  for (std::size_t i = 0; i < columns.token_ids.size(); ++i) {
    nb::list row;
    const TokenId token = columns.token_ids[i];
    row.append(nb::make_tuple(token, columns.logprobs[i], columns.ranks[i]));
    for (std::size_t j = i * columns.width; j < (i + 1) * columns.width; ++j) {
      if (columns.top_ids[j] == token || columns.top_ids[j] == LogprobColumns::kNoToken) continue;
      row.append(nb::make_tuple(columns.top_ids[j], columns.top_logprobs[j], columns.top_ranks[j]));
    }
    rows.append(std::move(row));
  }
  return rows;
}

nb::object stop_reason(const OutputRecord& output) {
  if (output.stop_string) return nb::cast(*output.stop_string);
  if (output.stop_token_id) return nb::cast(*output.stop_token_id);
  return nb::none();
}

nb::object forced_tokens(const OutputRecord& output) {
  if (output.forced_tokens.empty()) return nb::none();
  nb::list list;
  for (const bool each : output.forced_tokens) list.append(each);
  return list;
}

std::optional<double> seconds(const std::optional<Instant>& instant) {
  return instant ? std::optional<double>(to_seconds(*instant)) : std::nullopt;
}

nb::tuple times(const RequestRecord& record) {
  const RequestMetrics& metrics = record.metrics;
  return nb::make_tuple(to_seconds(metrics.arrival), seconds(metrics.first_scheduled),
                        seconds(metrics.first_token), seconds(metrics.finished),
                        metrics.num_preemptions);
}

// Extends `into` rather than returning what has come: where a signal's exception follows the call,
// nothing is lost.
void take_into(Inbox& inbox, nb::list into, double timeout_s) {
  if (!(timeout_s >= 0 && timeout_s <= kMaxTimeout)) {
    throw nb::value_error("a timeout is 0 to 3600 seconds");
  }
  const auto timeout = Duration(static_cast<std::int64_t>(timeout_s * 1e9));
  std::vector<std::shared_ptr<RequestRecord>> records;
  {
    const WithoutGil released;
    records = inbox.take(calls_end() ? Duration::zero() : timeout);
  }
  for (std::shared_ptr<RequestRecord>& record : records) into.append(std::move(record));
}

}  // namespace

void bind_records(nb::module_& module) {
  nb::class_<LogprobColumns>(module, "Logprobs")
      .def("__len__", [](const LogprobColumns& self) { return self.token_ids.size(); })
      .def("rows", rows)
      .def_prop_ro("token_ids", column<TokenId, &LogprobColumns::token_ids>)
      .def_prop_ro("logprobs", column<float, &LogprobColumns::logprobs>)
      .def_prop_ro("ranks", column<std::int32_t, &LogprobColumns::ranks>)
      .def_prop_ro("top_token_ids", top_column<TokenId, &LogprobColumns::top_ids>)
      .def_prop_ro("top_logprobs", top_column<float, &LogprobColumns::top_logprobs>)
      .def_prop_ro("top_ranks", top_column<std::int32_t, &LogprobColumns::top_ranks>);

  nb::class_<OutputRecord>(module, "OutputRecord")
      .def_ro("index", &OutputRecord::index)
      .def_ro("text", &OutputRecord::text)
      .def_ro("token_ids", &OutputRecord::token_ids)
      .def_prop_ro("token_ids_array",
                   [](nb::pointer_and_handle<OutputRecord> self) {
                     return view(self.p->token_ids, {self.p->token_ids.size()}, self.h);
                   })
      .def_prop_ro(
          "logprobs",
          [](OutputRecord& self) { return self.logprobs.empty() ? nullptr : &self.logprobs; },
          nb::rv_policy::reference_internal)
      .def_prop_ro("forced_tokens", forced_tokens)
      .def_ro("cumulative_logprob", &OutputRecord::cumulative_logprob)
      .def_ro("finished", &OutputRecord::finished)
      .def_prop_ro("finish_reason",
                   [](const OutputRecord& self) {
                     return self.finish_reason.empty() ? std::optional<std::string_view>()
                                                       : self.finish_reason;
                   })
      .def_prop_ro("stop_reason", stop_reason);

  nb::class_<RequestRecord>(module, "RequestRecord")
      .def_ro("key", &RequestRecord::key)
      .def_ro("request_id", &RequestRecord::request_id)
      .def_ro("outputs", &RequestRecord::outputs)
      .def_prop_ro(
          "prompt_logprobs",
          [](RequestRecord& self) {
            return self.prompt_logprobs.empty() ? nullptr : &self.prompt_logprobs;
          },
          nb::rv_policy::reference_internal)
      .def(
          "embedding",
          [](const RequestRecord& self, std::size_t dimensions, bool normalize) {
            const std::span<const float> state(self.embedding);
            return std::make_shared<EmbeddingVector>(EmbeddingVector{
                shaped_embedding(state.first(std::min(dimensions, state.size())), normalize)});
          },
          nb::arg("dimensions"), nb::arg("normalize"))
      .def_ro("num_prompt_tokens", &RequestRecord::num_prompt_tokens)
      .def_ro("num_cached_tokens", &RequestRecord::num_cached_tokens)
      .def_prop_ro("times", times)
      .def_prop_ro("step_time",
                   [](const RequestRecord& self) { return to_seconds(self.step_time); })
      .def_ro("finished", &RequestRecord::finished)
      .def_prop_ro("error", [](const RequestRecord& self) -> nb::object {
        return self.error.ok() ? nb::none() : exception_of(self.error);
      });

  nb::class_<EmbeddingVector>(module, "EmbeddingVector")
      .def_ro("values", &EmbeddingVector::values)
      .def_prop_ro("array", [](nb::pointer_and_handle<EmbeddingVector> self) {
        return view(self.p->values, {self.p->values.size()}, self.h);
      });

  nb::class_<Inbox>(module, "Inbox")
      .def(nb::new_([](bool whole, bool with_descriptor) {
             return value_of(Inbox::create(
                 whole ? Inbox::Delivery::kWhole : Inbox::Delivery::kPieces, with_descriptor));
           }),
           nb::arg("whole"), nb::arg("with_descriptor") = false)
      .def("take_into", take_into, nb::arg("into"), nb::arg("timeout"))
      .def("fileno", &Inbox::fd);
}

}  // namespace quire::python
