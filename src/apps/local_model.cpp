#include "apps/local_model.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "apps/bundled_model.h"
#include "apps/engine_flags.h"
#include "apps/progress.h"
#include "base/log.h"
#include "base/printable.h"

namespace quire {
namespace {

using std::chrono::steady_clock;

bool is_here(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// "12.3 MB/s, 2 min left".
std::string pace(std::uint64_t since_start, std::uint64_t left, steady_clock::time_point start) {
  const double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
  const double rate = static_cast<double>(since_start) / std::max(seconds, 1e-3);
  if (seconds < 0.2 || rate < 1) return {};
  const double rest = static_cast<double>(left) / rate;
  return fmt::format(
      ", {:.1f} MB/s, {} left", rate / 1e6,
      rest < 90 ? fmt::format("{:.0f} s", rest) : fmt::format("{:.0f} min", rest / 60));
}

// What is wrong with a name that may have been meant as a path.
Status not_here(const Status& status, const ModelLocator& model) {
  if (model.kind != ModelLocator::Kind::kHub || status.code() == StatusCode::kCancelled ||
      status.code() == StatusCode::kIoError) {
    return status;
  }
  return Status(
      status.code(),
      fmt::format("no file or folder {}, and {}", printable(model.text()), status.message()),
      status.remedy());
}

// Calls `fetch` with a listener that shows how far it is.
template <typename Fetch>
auto with_progress(const ModelLocator& model, const std::function<bool()>& cancelled,
                   const Fetch& fetch) {
  constexpr double kMega = 1e6;
  ProgressBar bar(fmt::format("pulling {}", printable(model.text(), 60)), "MB");
  const auto start = steady_clock::now();
  std::optional<std::uint64_t> first;
  PullListener listener;
  listener.progress = [&](const std::string& file, std::uint64_t done, std::uint64_t total) {
    if (!first) first = done;
    bar.update(static_cast<double>(done) / kMega, static_cast<double>(total) / kMega,
               file + pace(done - std::min(done, *first), total - std::min(done, total), start));
  };
  listener.cancelled = cancelled;
  listener.note = [&](const std::string& text) {
    bar.clear();
    log_info("{}", text);
  };
  auto fetched = fetch(listener);
  bar.clear();
  return fetched;
}

// What `pull_part` fetches of a model that is not here; nullopt where it is, or nothing is to be
// had that way.
template <typename PullPart>
Result<std::optional<std::string>> part_of_absent_model(const std::string& named,
                                                        const PullPart& pull_part) {
  if (named.empty()) return std::optional<std::string>();
  QUIRE_ASSIGN_OR_RETURN(const ModelLocator model, locate_model(named));
  if (model.kind == ModelLocator::Kind::kPath) return std::optional<std::string>();
  QUIRE_ASSIGN_OR_RETURN(const HubSettings settings, hub_settings_from_environment());
  if (find_pulled(model, settings)) return std::optional<std::string>();
  const auto never = [] { return false; };
  const auto part = with_progress(model, never, [&](const PullListener& listener) {
    return pull_part(model, settings, listener);
  });
  if (!part.ok()) return not_here(part.status(), model);
  return *part ? std::optional((*part)->string()) : std::nullopt;
}

}  // namespace

Result<ModelLocator> locate_model(const std::string& named) {
  if (is_here(named)) {
    ModelLocator local;
    local.path = named;
    return local;
  }
  return parse_model_locator(named);
}

Result<std::string> at_revision(const std::string& named, const std::string& revision,
                                std::string_view flag) {
  QUIRE_ASSIGN_OR_RETURN(ModelLocator model, named.empty() ? Result<ModelLocator>(ModelLocator())
                                                           : locate_model(named));
  if (model.kind != ModelLocator::Kind::kHub) {
    if (revision == "main") return named;  // the default changes nothing
    return Status::invalid_argument(
        fmt::format("{} is given, and {} is no model of a hub", flag,
                    named.empty() ? "the one that it belongs to" : printable(named)),
        "leave it out, or name a model as ORG/NAME");
  }
  const std::string said = std::exchange(model.revision, revision);
  if (named.find('@') != std::string::npos && said != revision) {
    return Status::invalid_argument(
        fmt::format("two revisions are named, {} and {}", printable(said), printable(revision)),
        "give one of them");
  }
  QUIRE_ASSIGN_OR_RETURN(model, parse_model_locator(model.text()));
  return model.text();
}

Result<PulledModel> pull_shown(const ModelLocator& model, const HubSettings& settings,
                               const std::function<bool()>& cancelled) {
  return with_progress(model, cancelled, [&](const PullListener& listener) {
    return pull(model, settings, listener);
  });
}

Result<std::optional<std::string>> config_of_absent_model(const std::string& named) {
  return part_of_absent_model(named, pull_config);
}

Result<std::optional<std::string>> headers_of_absent_model(const std::string& named,
                                                           const std::filesystem::path& folder) {
  const auto pull_headers = [&](const ModelLocator& model, const HubSettings& settings,
                                const PullListener& listener) {
    return pull_gguf_headers(model, settings, listener, folder);
  };
  return part_of_absent_model(named, pull_headers);
}

Result<std::string> local_model(const std::string& named) {
  if (named.empty()) return bundled_model();
  QUIRE_ASSIGN_OR_RETURN(const ModelLocator model, locate_model(named));
  if (model.kind == ModelLocator::Kind::kPath) return model.path;
  QUIRE_ASSIGN_OR_RETURN(HubSettings settings, hub_settings_from_environment());
  if (const auto found = find_pulled(model, settings)) return found->string();
  auto pulled = pull_shown(model, settings, [] { return false; });
  if (!pulled.ok() && pulled.status().code() == StatusCode::kUnavailable) {
    settings.offline = true;  // what is here may do
    auto kept = pull_shown(model, settings, [] { return false; });
    if (kept.ok()) {
      log_warning("{}; using what is here", pulled.status().message());
      return kept->path.string();
    }
  }
  if (!pulled.ok()) return not_here(pulled.status(), model);
  return pulled->path.string();
}

Status make_models_local(EngineArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(args.model, local_model(args.model));
  if (args.speculation && !args.speculation->model.empty()) {
    QUIRE_ASSIGN_OR_RETURN(args.speculation->model, local_model(args.speculation->model));
  }
  if (args.tokenizer.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(args.tokenizer, local_model(args.tokenizer));
  return {};
}

}  // namespace quire
