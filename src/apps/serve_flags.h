// The flags of `quire serve`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "base/status.h"
#include "engine/api.h"
#include "serve/http/server.h"
#include "serve/service.h"

namespace quire {

struct ServeFlags {
  EngineArgs engine;
  std::string model_as_named;  // on the command line: "ORG/NAME", a path; empty: the bundled one
  HttpServerConfig http;
  std::string api_key_file;  // empty: none
  ServiceConfig service;
  double shutdown_timeout_s = 30;
  std::string log_format = "text";
  bool disable_page = false;
  std::string otlp_traces_endpoint;        // empty: as the environment says
  std::string prefix_cache_scope = "key";  // or global
  std::string root_path;                   // a prefix that routes may have; empty: none
  std::string batch_database;              // empty: default_batch_database()
  bool default_batch_database = true;      // false: none where batch_database is empty
  std::string price_per_hour;              // a number, or a device of the catalogue; empty: none
  // Made-up tokens at a known speed, without weights.
  std::optional<double> simulate_step_ms;
  double simulate_token_us = 0;
};

// All of them: the server's, the engine's, and those that only the program has.
void add_serve_flags(CLI::App& app, ServeFlags& flags);
// Those of a server whose engine and log are somebody else's.
void add_server_flags(CLI::App& app, ServeFlags& flags);

// Where the Batch API's state lies unless --batch-database says otherwise: in $XDG_STATE_HOME or
// ~/.local/state. A server on another port than the default one has a file of its own there, the
// same after every start.
std::string default_batch_database(const HttpServerConfig& http);

// A --price-per-hour: US dollars, or a device of the catalogue with a price; nullopt for no text.
// kInvalidArgument.
Result<std::optional<double>> read_price(const std::string& text);

// Fills in what follows from other flags and from the environment, and fetches a model that is not
// here (local_model.h). kInvalidArgument for settings that cannot be.
Status complete_serve_flags(ServeFlags& flags);
// The same of the flags of add_server_flags().
Status complete_server_flags(ServeFlags& flags);

}  // namespace quire
