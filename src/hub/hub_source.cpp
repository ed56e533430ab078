#include "hub/hub_source.h"

#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "hub/file_hash.h"
#include "hub/patient_request.h"
#include "hub/url.h"
#include "weights/hub_cache.h"

namespace quire {
namespace {

constexpr std::size_t kMaxListBytes = 32U << 20;
constexpr std::size_t kMaxFiles = 100'000;
constexpr int kMaxMoves = 5;

std::string etag_of(std::string_view header) {
  if (header.starts_with("W/")) header.remove_prefix(2);
  if (header.size() >= 2 && header.starts_with('"') && header.ends_with('"')) {
    header = header.substr(1, header.size() - 2);
  }
  return std::string(header);
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// Where a redirect within the hub leads, of a repository that was renamed: only one without a host
// of its own. Others lead to where contents are kept.
std::optional<std::string> move_of(const FetchAnswer& answer, std::string_view endpoint) {
  const bool is_relative =
      answer.header("location").starts_with('/') && !answer.header("location").starts_with("//");
  if (answer.status / 100 != 3 || !is_relative ||
      origin_of(answer.location) != origin_of(endpoint)) {
    return std::nullopt;
  }
  return answer.location;
}

}  // namespace

Status HubSource::explain(const FetchAnswer& answer, const std::string& repo,
                          const std::string& what) const {
  const std::string_view code = answer.header("x-error-code");
  const std::string name = fmt::format("{} of {}", printable(repo), settings_.endpoint);
  std::string said(answer.header("x-error-message"));
  if (said.empty()) {
    const auto body = parse_json(answer.body, "answer");
    const json::object* object = body.ok() ? body->if_object() : nullptr;
    const json::value* error = object == nullptr ? nullptr : object->if_contains("error");
    if (error != nullptr && error->is_string()) said = std::string(error->get_string());
  }
  const std::string quote = said.empty() ? "" : fmt::format(" ({})", printable(said, 300));
  const bool has_token = !settings_.token.empty();
  if (code == "GatedRepo") {
    return Status::config(
        fmt::format("{} is gated: its authors ask for consent first{}", name, quote),
        has_token ? fmt::format("ask for access at {}/{} with the account of your token",
                                settings_.endpoint, printable(repo))
                  : "ask for access on its page, then set HF_TOKEN to a token of your account");
  }
  if (code == "EntryNotFound") {
    return Status::not_found(fmt::format("{} has no {}{}", name, printable(what), quote));
  }
  if (code == "RevisionNotFound") {
    return Status::not_found(fmt::format("{} has no revision {}{}", name, printable(what), quote),
                             "its branches and tags are on its page");
  }
  if (code == "DisabledRepo") {
    return Status::config(fmt::format("{} is disabled by the hub{}", name, quote));
  }
  if (code == "RepoNotFound" || answer.status == 404) {
    return Status::not_found(
        fmt::format("there is no model {}{}", name, quote),
        has_token ? "check its name" : "check its name; for a private one set HF_TOKEN");
  }
  if (answer.status == 401) {  // also of a model that does not exist, to whom brings no token
    return Status::config(
        fmt::format("{} is private, or does not exist{}", name, quote),
        has_token ? "the hub does not take your token: check HF_TOKEN, or huggingface.co/settings/"
                    "tokens"
                  : "check its name; for a private or gated model set HF_TOKEN");
  }
  if (answer.status == 403) {
    return Status::config(fmt::format("you have no access to {}{}", name, quote),
                          has_token ? "your token may not read it: give it that right, or ask for "
                                      "access on the model's page"
                                    : "ask for access on its page, then set HF_TOKEN");
  }
  if (answer.status == 429) {
    return Status::unavailable(
        fmt::format("{} answers that it is asked too often{}", settings_.endpoint, quote),
        "try again in a few minutes; with HF_TOKEN more is allowed");
  }
  return Status::unavailable(
      fmt::format("{} answers {} to a request for {} of {}{}", settings_.endpoint, answer.status,
                  printable(what), printable(repo), quote),
      "try again later, or check HF_ENDPOINT");
}

Result<FetchAnswer> HubSource::ask(const FetchRequest& request, const std::string& repo,
                                   const std::string& what, std::string& body) {
  FetchRequest moving = request;
  for (int moves = 0; moves <= kMaxMoves; ++moves) {
    body.clear();
    QUIRE_ASSIGN_OR_RETURN(FetchAnswer answer,
                           patient_request(transfers_, moving, kMaxListBytes, body, listener_));
    if (const auto moved = move_of(answer, settings_.endpoint)) {
      moving.url = *moved;
      continue;
    }
    const bool elsewhere = answer.status / 100 == 3 && request.head;
    if (!answer.success() && !elsewhere) return explain(answer, repo, what);
    return answer;
  }
  return Status::unavailable(fmt::format("{}: the hub redirects without an end", printable(repo)),
                             "try again later");
}

Result<HubRevision> HubSource::revision(const std::string& repo, const std::string& revision) {
  FetchRequest request;
  request.url = fmt::format("{}/api/models/{}/revision/{}", settings_.endpoint,
                            percent_encoded(repo, "/"), percent_encoded(revision));
  if (!settings_.token.empty()) {
    request.headers.push_back("Authorization: Bearer " + settings_.token);
  }
  std::string body;
  QUIRE_ASSIGN_OR_RETURN(const FetchAnswer answer, ask(request, repo, revision, body));
  const std::string where = fmt::format("{}: what it says of {}", settings_.endpoint, repo);
  const auto parsed = parse_json(body, where);
  const auto broken = [&](std::string_view why) {
    return Status::bad_model(fmt::format("{}: {}", where, why), "is HF_ENDPOINT a hub of models?");
  };
  if (!parsed.ok()) return Status::bad_model(parsed.status().message());
  const json::value& value = *parsed;
  if (!value.is_object()) return broken("no object");
  const JsonReader reader(value.get_object(), where);
  HubRevision found;
  QUIRE_ASSIGN_OR_RETURN(found.commit, reader.get_string("sha"));
  if (!is_hub_commit(found.commit)) return broken("sha is no commit");
  const json::value* files = reader.find("siblings");
  if (files == nullptr || !files->is_array()) return broken("no list of siblings");
  if (files->get_array().size() > kMaxFiles) {
    return broken(fmt::format("more than {} files", kMaxFiles));
  }
  for (const json::value& file : files->get_array()) {
    if (!file.is_object()) return broken("a sibling that is no object");
    QUIRE_ASSIGN_OR_RETURN(auto name, JsonReader(file.get_object(), where).get_string("rfilename"));
    if (!stays_below(name)) {
      return broken(fmt::format("a file with the name {}, which is refused", printable(name)));
    }
    found.files.push_back(std::move(name));
  }
  return found;
}

Result<HubFile> HubSource::file(const std::string& repo, const std::string& commit,
                                const std::string& name) {
  FetchRequest request;
  request.head = true;
  request.url = fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, percent_encoded(repo, "/"),
                            percent_encoded(commit), percent_encoded(name, "/"));
  if (!settings_.token.empty()) {
    request.headers.push_back("Authorization: Bearer " + settings_.token);
  }
  std::string body;
  QUIRE_ASSIGN_OR_RETURN(const FetchAnswer answer, ask(request, repo, name, body));
  const auto first_of = [&](std::string_view linked, std::string_view plain) {
    const std::string_view value = answer.header(linked);
    return value.empty() ? answer.header(plain) : value;
  };
  HubFile file;
  file.etag = etag_of(first_of("x-linked-etag", "etag"));
  // Of a redirect the length is its own.
  const bool here = answer.success();
  const auto size = number_of(first_of("x-linked-size", here ? "content-length" : ""));
  const auto broken = [&](std::string_view why) {
    return Status::bad_model(
        fmt::format("{} says of {} of {}: {}", settings_.endpoint, printable(name), repo, why),
        "is HF_ENDPOINT a hub of models?");
  };
  if (!size) return broken("no size");
  if (!FileHash::expecting(file.etag, *size)) {
    return broken(fmt::format("the entity tag {}, which is no hash of it", printable(file.etag)));
  }
  const std::string origin = origin_of(answer.location);
  const bool safe = origin.starts_with("https:") ||
                    (origin.starts_with("http:") && request.url.starts_with("http:"));
  if (!here && !safe) return broken("it is at an address that is not as safe as the hub's");
  const std::string_view said = answer.header("x-repo-commit");
  if (!said.empty() && said != commit) return broken("another commit");
  file.remote = {.name = printable(name, 200),
                 .url = request.url,
                 .content_url = here ? "" : answer.location,
                 .token = settings_.token,
                 .signing = std::nullopt,
                 .size = *size,
                 .hash_etag = file.etag,
                 .if_match = ""};
  return file;
}

}  // namespace quire
