#include "apps/chat/session.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "apps/help.h"
#include "apps/sampling_flags.h"
#include "apps/terminal.h"
#include "base/nearest.h"

namespace quire {
namespace {

Status cancelled() { return {StatusCode::kCancelled, "interrupted"}; }

std::string count_or_unknown(const std::optional<std::int64_t>& count) {
  return count ? std::to_string(*count) : "an unknown number of";
}

}  // namespace

std::span<const ChatSession::CommandEntry> ChatSession::commands() {
  static constexpr auto kCommands = std::to_array<CommandEntry>({
      {"/help", "", "this list", &ChatSession::help},
      {"/clear", "", "forget the conversation, but for the system message", &ChatSession::clear},
      {"/system", "TEXT", "set the system message; \"\" takes it away, no TEXT shows it",
       &ChatSession::system},
      {"/regenerate", "", "answer the last question again", &ChatSession::regenerate},
      {"/undo", "", "take back the last question and its answer", &ChatSession::undo},
      {"/save", "FILE", "write the conversation to a file", &ChatSession::save},
      {"/load", "FILE", "go on with the conversation of a file", &ChatSession::load},
      {"/set", "NAME VALUE", "sample with it: /set temperature 0.2; alone it shows what holds",
       &ChatSession::set},
      {"/stats", "", "the last answer's speed, and how full the context is", &ChatSession::stats},
      {"/exit", "", "end the chat; so does Ctrl-D", &ChatSession::exit},
  });
  return kCommands;
}

Status ChatSession::run() {
  if (view_.interactive()) QUIRE_RETURN_IF_ERROR(greet());
  while (!ended_) {
    Status status;
    if (auto input = read_input(source_); !input.ok()) {
      status = input.status();
    } else if (input->kind == InputLine::Kind::kEnd) {
      return {};
    } else if (input->kind == InputLine::Kind::kInterrupted) {
      if (interrupts_.terminated() || (!input->typed && asked_to_leave_)) return cancelled();
      asked_to_leave_ = !input->typed;
      if (asked_to_leave_) status = view_.note("(Ctrl-C once more, or Ctrl-D, ends the chat)");
    } else {
      asked_to_leave_ = false;
      status = handle(*input);
    }
    if (status.ok()) continue;
    const bool final = status.code() == StatusCode::kCancelled ||
                       status.code() == StatusCode::kIoError || !view_.interactive();
    if (final) return status;
    QUIRE_RETURN_IF_ERROR(view_.error(status));
  }
  return {};
}

Status ChatSession::greet() {
  const auto length = backend_.max_model_len();
  return view_.note(fmt::format(
      "{}{}. Sampling: {}; /set changes it.\n"
      "Ctrl-C stops an answer, Ctrl-D ends the chat, /help shows more.",
      backend_.model_name(), length ? fmt::format(", {} tokens of context", *length) : "",
      backend_.sampling()));
}

Status ChatSession::handle(const UserInput& input) {
  if (input.text.empty()) return {};
  if (input.quoted || !input.text.starts_with('/')) return ask(history_.asking(input.text));
  // A question that begins with a slash has two.
  if (input.text.starts_with("//")) return ask(history_.asking(input.text.substr(1)));
  return obey(input.text);
}

Status ChatSession::obey(const std::string& line) {
  const std::size_t space = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string name = line.substr(0, space);
  const std::size_t begin = std::min(line.find_first_not_of(" \t\n", space), line.size());
  const std::string argument = line.substr(begin);
  std::vector<std::string> names;
  for (const CommandEntry& command : commands()) {
    names.emplace_back(command.name);
    if (command.name != name) continue;
    if (command.argument.empty() && !argument.empty()) {
      return Status::invalid_argument(fmt::format("{} takes nothing after it", name));
    }
    return (this->*command.run)(argument);
  }
  const auto suggestion = nearest(name, names);
  return Status::invalid_argument(
      fmt::format("there is no command {}", name),
      suggestion ? fmt::format("did you mean {}?", *suggestion) : "see /help");
}

// The conversation as it is answered next: after calls, their results are the last messages.
Status ChatSession::ask(Conversation asked) {
  if (!calls_.empty()) asked.tools = calls_.tools();
  for (std::int64_t round = 0;; ++round) {
    bool stopped = false;
    QUIRE_ASSIGN_OR_RETURN(const ChatAnswer answer, hear(asked, choice_of(round), stopped));
    last_ = answer;
    last_->text.clear();
    if (!stopped && !answer.calls.empty()) {
      QUIRE_RETURN_IF_ERROR(add_results(asked, answer));
      continue;
    }
    if (answer.end == ChatAnswer::End::kStopped && answer.text.empty()) {
      last_is_current_ = false;
      QUIRE_RETURN_IF_ERROR(
          view_.note("(stopped before an answer came; the question was not kept)"));
    } else {
      last_is_current_ = true;
      QUIRE_RETURN_IF_ERROR(note_end(answer));
      history_.take(std::move(asked), answer);
    }
    const bool ends = stopped && (interrupts_.terminated() || !view_.interactive());
    return ends ? cancelled() : Status();
  }
}

json::value ChatSession::choice_of(std::int64_t round) const {
  if (calls_.empty()) return nullptr;
  if (round >= rounds_.most) return "none";
  return round == 0 ? rounds_.first_choice : "auto";
}

Status ChatSession::add_results(Conversation& asked, const ChatAnswer& answer) {
  asked.messages.push_back(answer_message(answer));
  for (const AnsweredCall& call : answer.calls) {
    QUIRE_ASSIGN_OR_RETURN(json::object result, calls_.answer(call));
    asked.messages.push_back(std::move(result));
  }
  return {};
}

// One answer of the model, shown as it comes.
Result<ChatAnswer> ChatSession::hear(const Conversation& asked, const json::value& choice,
                                     bool& stopped) {
  bool shown = false;
  const std::stop_token stop = interrupts_.begin_answer();
  std::unique_ptr<WaitMark> waiting = view_.waiting();
  auto answer = backend_.answer(
      asked, choice,
      [this, &shown, &waiting](ChatBackend::Piece kind, std::string_view piece) {
        waiting.reset();
        shown = true;
        return kind == ChatBackend::Piece::kReasoning ? view_.reasoning(piece)
                                                      : view_.answer(piece);
      },
      stop);
  waiting.reset();
  interrupts_.end_answer();
  stopped = stop.stop_requested();
  const bool empty = answer.ok() && answer->calls.empty() && !stopped;
  if (shown || empty) QUIRE_RETURN_IF_ERROR(view_.end_answer());
  return answer;
}

Status ChatSession::note_end(const ChatAnswer& answer) {
  if (answer.end == ChatAnswer::End::kStopped && view_.interactive()) {
    return view_.note("(stopped)");
  }
  if (answer.end != ChatAnswer::End::kLength) return {};
  const auto most = backend_.max_model_len();
  const auto used = answer.num_prompt_tokens.value_or(0) + answer.num_output_tokens.value_or(0);
  if (most && used >= *most) {
    return view_.note(
        fmt::format("(the answer ends here, for the context of {} tokens is full; /undo or /clear "
                    "make room)",
                    *most));
  }
  return view_.note(fmt::format("(the answer ends here, after {} tokens; --max-tokens allows more)",
                                count_or_unknown(answer.num_output_tokens)));
}

Status ChatSession::help(const std::string&) {
  std::vector<HelpRow> rows;
  for (const CommandEntry& command : commands()) {
    rows.push_back(
        {fmt::format("{} {}", command.name, command.argument), std::string(command.help)});
  }
  return view_.note(
      help_rows(rows, static_cast<std::size_t>(terminal_width())) +
      "A message goes on in the next line after a \\ at its end; \"\"\" begins and ends one of "
      "several lines. A message that begins with / is written with //.");
}

Status ChatSession::clear(const std::string&) {
  history_.clear();
  last_is_current_ = false;
  return view_.note("(a new conversation)");
}

Status ChatSession::system(const std::string& text) {
  if (text.empty()) {
    const std::string_view current = history_.system();
    return view_.note(current.empty() ? "(there is no system message)" : current);
  }
  history_.set_system(text == "\"\"" ? "" : text);
  last_is_current_ = false;
  return view_.note("(from the next question on)");
}

Status ChatSession::regenerate(const std::string&) {
  auto asked = history_.asking_again();
  if (!asked) return Status::invalid_argument("there is no question to answer again");
  return ask(*std::move(asked));
}

Status ChatSession::undo(const std::string&) {
  if (!history_.undo()) return Status::invalid_argument("there is no question to take back");
  last_is_current_ = false;
  return view_.note("(the last question and its answer are taken back)");
}

Status ChatSession::save(const std::string& path) {
  if (path.empty()) return Status::invalid_argument("/save needs the name of a file");
  const Status status = history_.save(path);
  // Not being able to write this file is no reason to end the chat.
  if (!status.ok()) return Status::invalid_argument(status.message(), status.remedy());
  return view_.note(
      fmt::format("({} messages written to {})", history_.conversation().messages.size(), path));
}

Status ChatSession::load(const std::string& path) {
  if (path.empty()) return Status::invalid_argument("/load needs the name of a file");
  auto loaded = ChatHistory::load(path);
  if (!loaded.ok()) {
    return Status::invalid_argument(loaded.status().message(), loaded.status().remedy());
  }
  history_ = *std::move(loaded);
  last_is_current_ = false;
  return view_.note(
      fmt::format("({} messages read from {})", history_.conversation().messages.size(), path));
}

Status ChatSession::set(const std::string& text) {
  if (text.empty()) return view_.note(fmt::format("(sampling: {})", backend_.sampling()));
  const std::size_t space = text.find_first_of(" \t");
  if (space == std::string::npos) {
    return Status::invalid_argument("/set needs a name and a value", "as in /set temperature 0.2");
  }
  const std::string name = text.substr(0, space);
  const std::string written = text.substr(text.find_first_not_of(" \t", space));
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_sampling_value(name, written));
  if (std::ranges::find(kNotOfChats, name) != kNotOfChats.end()) {
    return Status::invalid_argument(fmt::format("{} has no place in a chat", name));
  }
  QUIRE_RETURN_IF_ERROR(check_sampling_fields({{name, value}}));
  QUIRE_RETURN_IF_ERROR(backend_.set_sampling(name, value));
  return view_.note(fmt::format("(sampling: {})", backend_.sampling()));
}

Status ChatSession::stats(const std::string&) {
  if (!last_) return view_.note("(no question has been answered yet)");
  std::string text = last_->ttft_s > 0
                         ? fmt::format("first token after {:.0f} ms", last_->ttft_s * 1e3)
                         : "no token came";
  if (last_->tokens_per_s > 0) text += fmt::format(", then {:.1f} tokens/s", last_->tokens_per_s);
  text += fmt::format("; {} new tokens", count_or_unknown(last_->num_output_tokens));
  const auto most = backend_.max_model_len();
  const std::string of = most ? fmt::format(" of {}", *most) : "";
  if (last_is_current_ && last_->num_prompt_tokens && last_->num_output_tokens) {
    text += fmt::format("; context: {}{} tokens",
                        *last_->num_prompt_tokens + *last_->num_output_tokens, of);
  } else {
    text += fmt::format("; context: known after the next answer{}",
                        most ? fmt::format(", at most {} tokens", *most) : "");
  }
  return view_.note(text);
}

Status ChatSession::exit(const std::string&) {
  ended_ = true;
  return {};
}

}  // namespace quire
