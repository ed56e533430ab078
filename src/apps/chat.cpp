// `quire chat`: a conversation in a terminal, with an engine in this process or with a server.
#include <memory>

#include <fmt/format.h>

#include "apps/chat/in_process.h"
#include "apps/chat/line_editor.h"
#include "apps/chat/remote.h"
#include "apps/chat/session.h"
#include "apps/chat/tools/tool_flags.h"
#include "apps/commands.h"
#include "apps/dialect_flags.h"
#include "apps/engine_flags.h"
#include "apps/help.h"
#include "apps/sampling_flags.h"

namespace quire {
namespace {

struct ChatFlags {
  EngineArgs engine;
  std::string base_url;
  std::string api_key;
  std::string model_name;
  std::string system;
  ToolFlags tools;
  DialectChoice dialect;
  json::object sampling;
  std::vector<const CLI::Option*> engine_options;  // all but --seed, which a server accepts, too
  const CLI::Option* seed = nullptr;
};

Status check_chat_flags(const ChatFlags& flags) {
  for (const std::string_view field : kNotOfChats) {
    if (!flags.sampling.contains(field)) continue;
    return Status::invalid_argument(
        fmt::format("a chat shows one answer and its text: {} has no place in it", field),
        "quire generate has it");
  }
  if (!flags.base_url.empty()) {
    for (const CLI::Option* option : flags.engine_options) {
      if (option->count() == 0) continue;
      return Status::invalid_argument(
          fmt::format("{} is for a chat without --base-url: the server has its own",
                      option->get_name()),
          "leave one of them out; --model-name names a model of the server");
    }
  } else if (!flags.model_name.empty()) {
    return Status::invalid_argument("--model-name names a model of a server",
                                    "give --base-url, or the model's path with --model");
  }
  return check_sampling_fields(flags.sampling);
}

Status run_session(ChatBackend& backend, const ChatFlags& flags,
                   std::vector<ChatFunction> functions, ChatView& view, Interrupts& interrupts) {
  if (!functions.empty()) QUIRE_RETURN_IF_ERROR(backend.check_tools());
  interrupts.threads_started();
  std::unique_ptr<LineSource> source = plain_lines();
  if (view.interactive()) {
    QUIRE_ASSIGN_OR_RETURN(source, edited_lines(interrupts));
  }
  CallRunner calls(std::move(functions), !flags.tools.yes, *source, view, interrupts);
  ChatSession session(backend, *source, view, interrupts, calls, flags.tools.rounds());
  session.set_system(flags.system);
  return session.run();
}

Status run_chat(const ChatFlags& flags) {
  QUIRE_RETURN_IF_ERROR(check_chat_flags(flags));
  Interrupts interrupts;
  QUIRE_ASSIGN_OR_RETURN(ChatView view, ChatView::create());
  QUIRE_ASSIGN_OR_RETURN(std::vector<ChatFunction> functions,
                         chat_functions(flags.tools, view.interactive()));
  if (flags.base_url.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const auto engine, start_engine(flags.engine));
    QUIRE_ASSIGN_OR_RETURN(const auto chat,
                           InProcessChat::create(*engine, flags.dialect, flags.sampling));
    return run_session(*chat, flags, std::move(functions), view, interrupts);
  }
  RemoteChatArgs args = {.base_url = flags.base_url,
                         .api_key = flags.api_key,
                         .model_name = flags.model_name,
                         .sampling = flags.sampling,
                         .seed = {}};
  if (flags.seed->count() > 0) args.seed = flags.engine.seed;
  QUIRE_ASSIGN_OR_RETURN(const auto chat, RemoteChat::connect(std::move(args)));
  return run_session(*chat, flags, std::move(functions), view, interrupts);
}

}  // namespace

Command add_chat(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  set_help(app, {{{"quire chat", "with the bundled model, in this process"},
                  {"quire chat --base-url http://localhost:8000", "with the model of a server"}}});
  const std::string what = "Chat";
  app.add_option("--system", flags->system, "System message")->type_name("TEXT")->group(what);
  app.add_option("--base-url", flags->base_url,
                 "Chat with the server at this address (http://host:8000) instead of a model here")
      ->type_name("URL")
      ->group(what);
  app.add_option("--api-key", flags->api_key, "The server's key")
      ->type_name("KEY")
      ->envname("QUIRE_API_KEY")
      ->group(what);
  app.add_option("--model-name", flags->model_name,
                 "Name of the server's model (default: the first)")
      ->type_name("NAME")
      ->group(what);
  add_tool_flags(app, flags->tools, "Tools");
  add_sampling_flags(app, flags->sampling, "Sampling");
  flags->engine.max_num_seqs = 1;  // one conversation needs memory for one
  const std::size_t num_before = app.get_options().size();
  add_dialect_flags(app, flags->dialect, "Tools");
  add_engine_flags(app, flags->engine);
  const auto options = app.get_options();
  for (std::size_t i = num_before; i < options.size(); ++i) {
    if (options[i]->check_name("--seed")) {
      flags->seed = options[i];
    } else {
      flags->engine_options.push_back(options[i]);
    }
  }
  return [flags] { return run_chat(*flags); };
}

}  // namespace quire
