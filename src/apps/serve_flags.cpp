#include "apps/serve_flags.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <optional>

#include <fmt/format.h>

#include "apps/count_option.h"
#include "apps/dialect_flags.h"
#include "apps/engine_flags.h"
#include "apps/flag_values.h"
#include "apps/key_file.h"
#include "apps/local_model.h"
#include "apps/pooler_config.h"
#include "base/printable.h"
#include "engine/engine_args.h"
#include "plan/device_catalog.h"
#include "serve/http/access.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

// A duration in seconds, fractions allowed.
void add_seconds(CLI::App& app, const std::string& name, milliseconds& target,
                 const std::string& description, const std::string& group) {
  constexpr double kMaxSeconds = 86'400;
  app.add_option_function<double>(
         name,
         [&target](double seconds) {
           target = milliseconds(static_cast<std::int64_t>(seconds * 1e3));
         },
         description)
      ->check(number(0.001, kMaxSeconds))
      ->type_name("SECONDS")
      ->default_str(fmt::format("{}", static_cast<double>(target.count()) / 1e3))
      ->group(group);
}

// Values one by one, or as the JSON list that vLLM accepts.
void add_names(CLI::App& app, const std::string& name, std::vector<std::string>& target,
               const std::string& value, const std::string& description, const std::string& group) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [&target, name](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             if (!text.starts_with('[')) {
               target.push_back(text);
               continue;
             }
             const auto list = parse_json(text, name);
             if (!list.ok()) throw CLI::ValidationError(name, list.status().message());
             for (const json::value& item : list->as_array()) {
               if (!item.is_string())
                 throw CLI::ValidationError(name, "expected a list of strings");
               target.emplace_back(item.get_string());
             }
           }
         },
         description)
      ->type_name(value)
      ->group(group);
}

void add_http_flags(CLI::App& app, ServeFlags& flags) {
  const std::string group = "Address and access";
  HttpServerConfig& http = flags.http;
  app.add_option("--host", http.host, "Address to listen on; 0.0.0.0 for all")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->group(group);
  app.add_option("--port", http.port, "Port to listen on; 0 takes a free one")
      ->type_name("PORT")
      ->check(whole_number(0, 65'535))
      ->capture_default_str()
      ->group(group);
  app.add_option("--uds", http.uds, "UNIX socket to listen on, instead of host and port")
      ->type_name("FILE")
      ->group(group);
  add_names(app, "--api-key", http.api_keys, "KEY",
            "Key that requests need (also QUIRE_API_KEY); may be given several times", group);
  app.add_option("--api-key-file", flags.api_key_file,
                 "File of keys, one a line, each with its own limits after it: KEY rpm-limit=60 "
                 "tpm-limit=100k max-parallel-requests=4")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--prefix-cache-scope", flags.prefix_cache_scope,
                 "Whose cached prefixes a request can use: those of its own key, or those of all "
                 "keys (global)")
      ->type_name("SCOPE")
      ->check(one_of({"key", "global"}))
      ->capture_default_str()
      ->group(group);
  add_names(app, "--allowed-hosts", http.allowed_hosts, "HOST",
            "Host headers to accept besides this machine's own names, while listening on loopback",
            group);
  add_names(app, "--allowed-origins", http.allowed_origins, "ORIGIN",
            "Origins of web pages that may use the server (CORS); \"*\" for any", group);
  app.add_option(
         "--root-path", flags.root_path,
         "Additional prefix of the routes, like /quire, for a proxy that does not remove it")
      ->type_name("PATH")
      ->group(group);
  app.add_option("--ssl-certfile", http.ssl_certfile, "Certificate chain (PEM) for TLS")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--ssl-keyfile", http.ssl_keyfile, "Private key of the certificate (PEM)")
      ->type_name("FILE")
      ->group(group);

  const std::string limits = std::string(kRarelyNeeded) + "limits of connections";
  add_count(app, "--max-body-bytes", http.max_body_bytes, "Largest request body", 1, 1LL << 40)
      ->group(limits);
  add_count(app, "--max-total-body-bytes", http.max_total_body_bytes,
            "Memory of all request bodies at once; beyond it, slow senders are refused first", 1,
            1LL << 44)
      ->group(limits);
  add_count(app, "--max-response-bytes", flags.service.max_response_bytes,
            "Largest answer that a request may ask for, except in streams; the size is computed in "
            "advance from its prompts, n, max_tokens and logprobs",
            1 << 16, 1LL << 40)
      ->group(limits);
  add_count(app, "--max-connections", http.max_connections, "Connections at once", 1, 1 << 20)
      ->group(limits);
  add_count(app, "--max-unsent-bytes", http.max_unsent_bytes,
            "Output that may wait for a slow client; beyond it, the client is disconnected", 1024,
            1LL << 32)
      ->group(limits);
  app.add_option("--http-workers", http.num_workers, "Threads that parse and tokenize requests")
      ->type_name("N")
      ->check(whole_number(1, 256))
      ->capture_default_str()
      ->group(limits);
  add_seconds(app, "--header-timeout", http.header_timeout, "Time for a request's header to arrive",
              limits);
  add_seconds(app, "--body-timeout", http.body_timeout, "Time without a byte of a request's body",
              limits);
  add_seconds(app, "--body-deadline", http.body_deadline,
              "Time for a request's whole body to arrive", limits);
  add_count(app, "--min-body-rate", http.min_body_rate,
            "Minimum bytes per second of a body, on average, after --body-timeout has passed", 1,
            1LL << 40)
      ->group(limits);
  add_seconds(app, "--write-timeout", http.write_timeout, "Time in which the client reads nothing",
              limits);
  add_seconds(app, "--idle-timeout", http.idle_timeout, "Time between the requests of a connection",
              limits);
  add_seconds(app, "--keep-alive-interval", http.keep_alive_interval,
              "Time between comments in a stream that waits", limits);
}

void add_embedding_flags(CLI::App& app, EngineArgs& engine) {
  app.add_option("--pooling-type", engine.pooling_type,
                 "Tokens whose hidden states make an embedding: mean (of all), cls (the first), "
                 "last; auto: as the model states, otherwise last")
      ->type_name("KIND")
      ->check(known_names("auto|mean|cls|last"))
      ->capture_default_str()
      ->group("Service");
  for (const std::string name : {"--pooler-config", "--override-pooler-config"}) {
    app.add_option_function<std::string>(name,
                                         [&engine, name](const std::string& text) {
                                           const Status status =
                                               read_pooler_config(name, text, engine);
                                           if (status.ok()) return;
                                           throw CLI::ValidationError(status.to_string());
                                         })
        ->group("");  // vLLM's; not in --help
  }
}

void add_service_flags(CLI::App& app, ServeFlags& flags) {
  const std::string group = "Service";
  ServiceConfig& service = flags.service;
  add_names(app, "--served-model-name,--model-name", service.served_model_names, "NAME",
            "Names of the model in requests (default: the model's own; its id on the Hugging Face "
            "hub and its path are accepted, too); KServe writes --model_name",
            group);
  app.add_flag("--strict-fields", service.strict_fields,
               "Refuse unknown request fields, instead of listing them in X-Ignored-Fields")
      ->group(group);
  add_dialect_flags(app, service.dialect, group);
  app.add_option("--shutdown-timeout", flags.shutdown_timeout_s,
                 "Time for requests in flight to finish after SIGTERM or SIGHUP")
      ->type_name("SECONDS")
      ->check(number(0, 86'400))
      ->capture_default_str()
      ->group(group);
  add_seconds(app, "--heartbeat-timeout", service.heartbeat_timeout,
              "Time without progress of the engine after which /health fails", group);
  app.add_option("--max-ttft", service.max_ttft_s,
                 "Refuse requests (429) whose first token would come later, as predicted from the "
                 "queue and the rate at which requests end")
      ->type_name("SECONDS")
      ->check(number(0, 86'400))
      ->group(group);
  add_count(app, "--rpm-limit", service.quotas.requests_per_minute,
            "Requests a minute that each API key may make; more are refused (429)", 1, kMaxQuota)
      ->group(group);
  add_count(app, "--tpm-limit", service.quotas.tokens_per_minute,
            "Tokens a minute, of prompts and outputs, that each API key may use", 1, kMaxQuota)
      ->group(group);
  add_count(app, "--max-parallel-requests", service.quotas.parallel_requests,
            "Requests that each API key may have running at a time", 1, kMaxQuota)
      ->group(group);
  app.add_option("--price-per-hour", flags.price_per_hour,
                 "Price of this machine in US dollars, or a device of quire plan --list-devices, "
                 "whose price it is: answers then have their cost (usage.cost), and so do metrics")
      ->type_name("USD|DEVICE")
      ->group(group);
  app.add_flag("--log-requests,!--no-log-requests", service.log_requests,
               "One log line for each request (default: on)")
      ->group(group);
  app.add_flag("--disable-page", flags.disable_page, "Serve no page at /, only the API")
      ->group(group);
  app.add_option("--otlp-traces-endpoint", flags.otlp_traces_endpoint,
                 "OTLP/HTTP receiver for traces of requests, like http://localhost:4318/v1/traces "
                 "(also OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OpenTelemetry's other variables)")
      ->type_name("URL")
      ->group(group);
  app.add_option("--batch-database", flags.batch_database,
                 "SQLite file of /v1/files and /v1/batches (default: quire/batches.sqlite3 in "
                 "$XDG_STATE_HOME or ~/.local/state; for a port other than 8000, "
                 "quire/batches-PORT.sqlite3)")
      ->type_name("FILE")
      ->group(group);
}

// Flags without meaning for a server whose engine and log belong to somebody else.
void add_program_flags(CLI::App& app, ServeFlags& flags) {
  const std::string group = "Service";
  const std::string simulation = std::string(kRarelyNeeded) + "a server without a model";
  app.add_option("--log-format", flags.log_format, "Format of the log")
      ->type_name("FORMAT")
      ->check(one_of({"text", "json"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--simulate-step-ms", flags.simulate_step_ms,
                 "Load no weights and make up tokens, with steps of this many milliseconds, to "
                 "test clients")
      ->type_name("MS")
      ->check(number(0, 1e6))
      ->group(simulation);
  app.add_option("--simulate-token-us", flags.simulate_token_us,
                 "With --simulate-step-ms: additional microseconds per computed token")
      ->type_name("US")
      ->check(number(0, 1e6))
      ->group(simulation);
}

}  // namespace

Result<std::optional<double>> read_price(const std::string& text) {
  if (text.empty()) return std::optional<double>();
  constexpr double kMost = 1e6;
  double price = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, price);
  if (error == std::errc() && rest == end) {
    if (price >= 0 && price <= kMost) return std::optional<double>(price);
    return Status::invalid_argument(
        fmt::format("--price-per-hour {}: expected 0 to {} US dollars", printable(text), kMost));
  }
  QUIRE_ASSIGN_OR_RETURN(const DeviceCatalog catalog, DeviceCatalog::builtin());
  const auto device = catalog.find(text);
  if (!device.ok()) {
    return Status::invalid_argument(
        fmt::format("--price-per-hour: {}", device.status().message()),
        "give a number, in US dollars, or a device of quire plan --list-devices");
  }
  if (device->usd_per_hour) return device->usd_per_hour;
  return Status::invalid_argument(
      fmt::format("--price-per-hour {}: the catalogue has no price of this device", text),
      "give a number, in US dollars");
}

void add_server_flags(CLI::App& app, ServeFlags& flags) {
  add_http_flags(app, flags);
  add_service_flags(app, flags);
}

void add_serve_flags(CLI::App& app, ServeFlags& flags) {
  add_server_flags(app, flags);
  add_program_flags(app, flags);
  add_embedding_flags(app, flags.engine);
  flags.engine.max_step_ms.reset();
  add_engine_flags(app, flags.engine);
}

std::string default_batch_database(const HttpServerConfig& http) {
  const bool own = http.uds.empty() && http.port != 0 && http.port != HttpServerConfig().port;
  const std::string file = own ? fmt::format("batches-{}.sqlite3", http.port) : "batches.sqlite3";
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    return std::string(state) + "/quire/" + file;
  }
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "." : home) + "/.local/state/quire/" + file;
}

namespace {

// Its keys are accepted, too.
Status take_key_file(ServeFlags& flags) {
  if (flags.api_key_file.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(const auto keys, read_key_file(flags.api_key_file, flags.service.quotas));
  for (const KeyLimits& each : keys) {
    flags.http.api_keys.push_back(each.key);
    flags.service.key_quotas.emplace(AccessPolicy::caller_with(each.key), each.limits);
  }
  return {};
}

}  // namespace

Status complete_server_flags(ServeFlags& flags) {
  if (!flags.root_path.empty() &&
      (!flags.root_path.starts_with('/') || flags.root_path.ends_with('/'))) {
    return Status::invalid_argument(
        fmt::format("--root-path {}: it does not begin with a slash, or ends with one",
                    flags.root_path),
        "write it like /quire");
  }
  if (const char* key = std::getenv("QUIRE_API_KEY"); key != nullptr && *key != '\0') {
    flags.http.api_keys.emplace_back(key);
  }
  QUIRE_RETURN_IF_ERROR(take_key_file(flags));
  flags.service.prefix_cache_scope =
      flags.prefix_cache_scope == "key" ? PrefixCacheScope::kKey : PrefixCacheScope::kGlobal;
  QUIRE_ASSIGN_OR_RETURN(flags.service.price_per_hour, read_price(flags.price_per_hour));
  flags.service.max_unsent_bytes = flags.http.max_unsent_bytes;
  flags.service.created = std::time(nullptr);
  return {};
}

Status complete_serve_flags(ServeFlags& flags) {
  QUIRE_RETURN_IF_ERROR(check_engine_args(flags.engine));
  QUIRE_RETURN_IF_ERROR(complete_server_flags(flags));
  flags.model_as_named = flags.engine.model;
  return make_models_local(flags.engine);
}

}  // namespace quire
