#include "serve/generation/answer_reader.h"

#include <random>
#include <utility>

namespace quire {
namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

AnsweredCall& call_at(std::vector<AnsweredCall>& calls, int index) {
  if (calls.empty() || calls.back().index != index) calls.emplace_back().index = index;
  return calls.back();
}

}  // namespace

AnswerReader::AnswerReader(const AnswerParsing& parsing)
    : parser_(parsing.dialect, parsing.tools, parsing.start, random_seed()),
      include_reasoning_(parsing.include_reasoning),
      parallel_calls_(parsing.parallel_calls) {}

std::vector<OutputEvent> AnswerReader::read(std::string_view text, bool last) {
  std::vector<OutputEvent> events;
  parser_.feed(text, events);
  if (last) parser_.finish(events);
  std::erase_if(events, [this](const OutputEvent& event) {
    switch (event.kind) {
      case OutputEvent::Kind::kReasoning:
        return !include_reasoning_;
      case OutputEvent::Kind::kContent:
        return false;
      case OutputEvent::Kind::kCall:
      case OutputEvent::Kind::kArguments:
      case OutputEvent::Kind::kCallEnd:
        return !parallel_calls_ && event.index > 0;
    }
    return false;
  });
  return events;
}

AnswerParts parts_of(const std::vector<OutputEvent>& events) {
  AnswerParts parts;
  for (const OutputEvent& event : events) {
    switch (event.kind) {
      case OutputEvent::Kind::kContent:
        parts.content += event.text;
        break;
      case OutputEvent::Kind::kReasoning:
        parts.reasoning += event.text;
        break;
      case OutputEvent::Kind::kCall: {
        AnsweredCall& call = call_at(parts.calls, event.index);
        call.begins = true;
        call.id = event.id;
        call.name = event.text;
        break;
      }
      case OutputEvent::Kind::kArguments:
        call_at(parts.calls, event.index).arguments += event.text;
        break;
      case OutputEvent::Kind::kCallEnd:
        break;
    }
  }
  return parts;
}

void add_parts(std::vector<AnsweredCall>& calls, std::vector<AnsweredCall> piece) {
  for (AnsweredCall& part : piece) {
    if (part.begins) {
      calls.push_back(std::move(part));
    } else {
      call_at(calls, part.index).arguments += part.arguments;
    }
  }
}

}  // namespace quire
