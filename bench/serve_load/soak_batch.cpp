#include "serve_load/soak_batch.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "serve_load/requests.h"

namespace quire::load {
namespace {

constexpr std::chrono::milliseconds kBatchPause(50);
constexpr std::chrono::minutes kBatchPatience(5);

std::string upload_request(std::string_view lines) {
  const std::string form = fmt::format(
      "--soak\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--soak\r\nContent-Disposition: form-data; name=\"file\"; filename=\"soak.jsonl\"\r\n\r\n"
      "{}\r\n--soak--\r\n",
      lines);
  return fmt::format(
      "POST /v1/files HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: multipart/form-data; boundary=soak\r\nContent-Length: {}\r\n\r\n{}",
      form.size(), form);
}

Result<std::string> text_of(const json::object& object, std::string_view key) {
  return JsonReader(object, "the server's answer", StatusCode::kUnavailable).get_string(key);
}

}  // namespace

Result<SoakBatch> SoakBatch::begin(const Target& target, const std::vector<std::string>& bodies) {
  SoakBatch batch(target);
  batch.num_lines_ = bodies.size();
  std::string lines;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    lines += fmt::format(
        "{{\"custom_id\":\"{}\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{}}}\n", i,
        bodies[i]);
  }
  QUIRE_ASSIGN_OR_RETURN(const json::object file, target.ask_for_object(upload_request(lines)));
  QUIRE_ASSIGN_OR_RETURN(batch.input_file_, text_of(file, "id"));
  QUIRE_ASSIGN_OR_RETURN(
      const json::object made,
      target.ask_for_object(post_request(
          "/v1/batches",
          fmt::format(
              R"({{"input_file_id":"{}","endpoint":"/v1/completions","completion_window":"24h"}})",
              batch.input_file_))));
  QUIRE_ASSIGN_OR_RETURN(batch.id_, text_of(made, "id"));
  return batch;
}

void SoakBatch::cancel() {
  cancelled_ = true;
  (void)target_->ask(post_request(fmt::format("/v1/batches/{}/cancel", id_), ""));
}

Status SoakBatch::finish() {
  const auto deadline = std::chrono::steady_clock::now() + kBatchPatience;
  json::object batch;
  std::string state;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(batch, target_->ask_for_object(get_request("/v1/batches/" + id_)));
    QUIRE_ASSIGN_OR_RETURN(state, text_of(batch, "status"));
    if (state == "completed" || state == "failed" || state == "cancelled") break;
    if (std::chrono::steady_clock::now() > deadline) {
      return Status::unavailable(
          fmt::format("batch {} is {} after {} minutes", id_, state, kBatchPatience.count()));
    }
    std::this_thread::sleep_for(kBatchPause);
  }
  if (state != "completed" && !(cancelled_ && state == "cancelled")) {
    return Status::unavailable(fmt::format("batch {} ended as {}", id_, state));
  }
  if (state == "completed") QUIRE_RETURN_IF_ERROR(check_results(batch));
  for (const char* const key : {"output_file_id", "error_file_id"}) {
    const json::value* const file = batch.if_contains(key);
    if (file == nullptr || !file->is_string()) continue;
    const std::string id(file->get_string());
    QUIRE_RETURN_IF_ERROR(target_->ask(delete_request("/v1/files/" + id)).status());
  }
  return target_->ask(delete_request("/v1/files/" + input_file_)).status();
}

Status SoakBatch::check_results(const json::object& batch) const {
  QUIRE_ASSIGN_OR_RETURN(const std::string file, text_of(batch, "output_file_id"));
  QUIRE_ASSIGN_OR_RETURN(const std::string results,
                         target_->ask(get_request(fmt::format("/v1/files/{}/content", file))));
  const auto num_results = static_cast<std::size_t>(std::ranges::count(results, '\n'));
  std::size_t num_good = 0;
  constexpr std::string_view kGood = "\"status_code\":200";
  for (std::size_t at = results.find(kGood); at != std::string::npos;
       at = results.find(kGood, at + 1)) {
    ++num_good;
  }
  if (num_results == num_lines_ && num_good == num_lines_) return {};
  return Status::unavailable(fmt::format("batch {}: {} results, {} of them good, for {} lines", id_,
                                         num_results, num_good, num_lines_));
}

}  // namespace quire::load
