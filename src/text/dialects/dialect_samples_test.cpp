#include "text/dialects/dialect_samples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

std::string text_of(const json::value& value) { return json::serialize(value); }

// As Python's repr() writes it, strings in single quotes.
std::string python_of(const json::value& value) {
  if (value.is_string()) {
    std::string out = "'";
    for (const char c : std::string_view(value.get_string())) {
      if (c == '\'' || c == '\\') out += '\\';
      if (c == '\n') {
        out += "\\n";
      } else if (c == '\t') {
        out += "\\t";
      } else {
        out += c;
      }
    }
    return out + "'";
  }
  if (value.is_bool()) return value.get_bool() ? "True" : "False";
  if (value.is_null()) return "None";
  std::string out;
  if (value.is_array()) {
    for (const json::value& item : value.get_array()) {
      out += (out.empty() ? "" : ", ") + python_of(item);
    }
    return "[" + out + "]";
  }
  if (value.is_object()) {
    for (const auto& item : value.get_object()) {
      out += (out.empty() ? "" : ", ") + python_of(json::value(item.key())) + ": " +
             python_of(item.value());
    }
    return "{" + out + "}";
  }
  return text_of(value);
}

std::string python_call(const SampleCall& call) {
  std::string out;
  for (const auto& item : call.arguments) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", std::string_view(item.key()),
                       python_of(item.value()));
  }
  return call.name + "(" + out + ")";
}

std::string gemma_of(const json::value& value, std::string_view mark) {
  if (value.is_string()) {
    return fmt::format("{}{}{}", mark, std::string_view(value.get_string()), mark);
  }
  std::string out;
  if (value.is_array()) {
    for (const json::value& item : value.get_array()) {
      out += (out.empty() ? "" : ",") + gemma_of(item, mark);
    }
    return "[" + out + "]";
  }
  if (value.is_object()) {
    for (const auto& item : value.get_object()) {
      out += fmt::format("{}{}:{}", out.empty() ? "" : ",", std::string_view(item.key()),
                         gemma_of(item.value(), mark));
    }
    return "{" + out + "}";
  }
  if (value.is_null()) return "None";
  return text_of(value);
}

// Of a value between tags: strings bare, others as JSON.
std::string tag_of(const json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : text_of(value);
}

std::string object_call(const SampleCall& call, std::string_view name = "name",
                        std::string_view arguments = "arguments") {
  return fmt::format(R"({{"{}": "{}", "{}": {}}})", name, call.name, arguments,
                     text_of(call.arguments));
}

template <typename Write>
std::string joined(const std::vector<SampleCall>& calls, std::string_view between, Write write) {
  std::string out;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) out += between;
    out += write(calls[i]);
  }
  return out;
}

std::string tagged(const SampleCall& call, std::string_view open, std::string_view key_open,
                   std::string_view key_close, std::string_view value_close,
                   std::string_view close) {
  std::string out(open);
  for (const auto& item : call.arguments) {
    out += fmt::format("{}{}{}{}{}", key_open, std::string_view(item.key()), key_close,
                       tag_of(item.value()), value_close);
  }
  return out + std::string(close);
}

std::string write_tags(std::string_view dialect, const std::vector<SampleCall>& calls) {
  if (dialect == "glm45") {
    return joined(calls, "\n", [](const SampleCall& call) {
      return tagged(call, "<tool_call>" + call.name + "\n", "<arg_key>", "</arg_key>\n<arg_value>",
                    "</arg_value>\n", "</tool_call>");
    });
  }
  if (dialect == "minimax_m2") {
    return "<minimax:tool_call>\n" +
           joined(calls, "\n",
                  [](const SampleCall& call) {
                    return tagged(call, "<invoke name=\"" + call.name + "\">\n",
                                  "<parameter name=\"", "\">", "</parameter>\n", "</invoke>");
                  }) +
           "\n</minimax:tool_call>";
  }
  const std::string outer = dialect == "seed_oss" ? "seed:tool_call" : "tool_call";
  return joined(calls, "\n", [&](const SampleCall& call) {
    return tagged(call, "<" + outer + ">\n<function=" + call.name + ">\n", "<parameter=", ">\n",
                  "\n</parameter>\n", "</function>\n</" + outer + ">");
  });
}

std::string write_deepseek(bool fenced, const std::vector<SampleCall>& calls) {
  const std::string body = joined(calls, fenced ? "\n" : "", [&](const SampleCall& call) {
    if (fenced) {
      return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + call.name + "\n```json\n" +
             text_of(call.arguments) + "\n```<｜tool▁call▁end｜>";
    }
    return "<｜tool▁call▁begin｜>" + call.name + "<｜tool▁sep｜>" + text_of(call.arguments) +
           "<｜tool▁call▁end｜>";
  });
  return "<｜tool▁calls▁begin｜>" + body + "<｜tool▁calls▁end｜>";
}

std::string write_harmony(const std::vector<SampleCall>& calls) {
  return joined(calls, "<|start|>assistant", [](const SampleCall& call) {
    return "<|channel|>commentary to=functions." + call.name + " <|constrain|>json<|message|>" +
           text_of(call.arguments) + "<|call|>";
  });
}

std::string write_kimi(const std::vector<SampleCall>& calls) {
  int index = 0;
  return "<|tool_calls_section_begin|>" +
         joined(calls, "",
                [&](const SampleCall& call) {
                  return fmt::format(
                      "<|tool_call_begin|>functions.{}:{}<|tool_call_argument_begin|>{}"
                      "<|tool_call_end|>",
                      call.name, index++, text_of(call.arguments));
                }) +
         "<|tool_calls_section_end|>";
}

std::string write_gemma(std::string_view open, std::string_view close, std::string_view mark,
                        const std::vector<SampleCall>& calls) {
  return joined(calls, "", [&](const SampleCall& call) {
    return fmt::format("{}call:{}{}{}", open, call.name, gemma_of(call.arguments, mark), close);
  });
}

}  // namespace

json::array sample_tools() {
  const auto parsed = parse_json(R"json([
    {"type": "function", "function": {"name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "q": {"type": "string"}, "t": {"type": "string"},
      "code": {"type": "string"}, "n": {"type": "integer"}, "x": {"type": "number"},
      "b": {"type": "boolean"}, "z": {"type": ["string", "null"]},
      "o": {"type": "object"}, "l": {"type": "array"}, "digits": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "set", "description": "Sets.", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "q": {"type": "string"}, "t": {"type": "string"},
      "code": {"type": "string"}, "n": {"type": "integer"}, "x": {"type": "number"},
      "b": {"type": "boolean"}, "z": {"type": ["string", "null"]},
      "o": {"type": "object"}, "l": {"type": "array"}, "digits": {"type": "string"}}}}}
  ])json",
                                 "sample tools");
  return parsed->as_array();
}

std::vector<json::object> sample_arguments() {
  const auto parsed = parse_json(R"json([
    {},
    {"city": "Paris"},
    {"q": "say \"hi\" \\ and 'bye', then \\n"},
    {"t": "naïve 東京 😀 \u00a0 end"},
    {"n": -12, "x": 0.0015, "b": true, "z": null},
    {"o": {"a": [1, {"b": "c"}], "e": {}}, "l": [], "b": false},
    {"code": "def f(x):\n\treturn x < 3 and \"<b>\"  # {}[]\n\n"},
    {"t": "</tool", "q": "</param", "city": "<"},
    {"t": "}]} [{( ,:= )", "l": ["}", "]", ")", ","]},
    {"digits": "5", "q": "true", "t": "null?", "n": 0},
    {"l": [[[]], [[1.5, -2], [null, true]]], "o": {"k": {"k": {"k": []}}}},
    {"city": "a rather long text that a model may well write into a parameter of a call"}
  ])json",
                                 "sample arguments");
  std::vector<json::object> all;
  for (const json::value& item : parsed->as_array()) all.push_back(item.as_object());
  return all;
}

std::string write_calls(std::string_view dialect, const std::vector<SampleCall>& calls) {
  const auto object = [](const SampleCall& call) { return object_call(call); };
  const auto list = [&] { return "[" + joined(calls, ", ", object) + "]"; };
  if (dialect == "hermes" || dialect == "longcat") {
    const std::string tag = dialect == "hermes" ? "tool_call" : "longcat_tool_call";
    return joined(calls, "\n", [&](const SampleCall& call) {
      return "<" + tag + ">\n" + object_call(call) + "\n</" + tag + ">";
    });
  }
  if (dialect == "qwen3_coder" || dialect == "seed_oss" || dialect == "minimax_m2" ||
      dialect == "glm45") {
    return write_tags(dialect, calls);
  }
  if (dialect == "minimax")
    return "<tool_calls>\n" + joined(calls, "\n", object) + "\n</tool_calls>";
  if (dialect == "llama3_json") {
    return joined(calls, "; ",
                  [](const SampleCall& call) { return object_call(call, "name", "parameters"); });
  }
  if (dialect == "pythonic") return "[" + joined(calls, ", ", python_call) + "]";
  if (dialect == "llama4_pythonic") {
    return "<|python_start|>[" + joined(calls, ", ", python_call) + "]<|python_end|>";
  }
  if (dialect == "lfm2") {
    return "<|tool_call_start|>[" + joined(calls, ", ", python_call) + "]<|tool_call_end|>";
  }
  if (dialect == "olmo3") {
    return "<function_calls>\n" + joined(calls, "\n", python_call) + "\n</function_calls>";
  }
  if (dialect == "mistral") {
    return joined(calls, "", [](const SampleCall& call) {
      return "[TOOL_CALLS]" + call.name + "[ARGS]" + text_of(call.arguments);
    });
  }
  if (dialect == "deepseek_v3" || dialect == "deepseek_v31") {
    return write_deepseek(dialect == "deepseek_v3", calls);
  }
  if (dialect == "kimi_k2") return write_kimi(calls);
  if (dialect == "openai") return write_harmony(calls);
  if (dialect == "granite") return "<|tool_call|>" + list();
  if (dialect == "phi4_mini_json") return "functools" + list();
  if (dialect == "cohere_command3") {
    int index = 0;
    return "<|START_ACTION|>[\n    " +
           joined(calls, ",\n    ",
                  [&](const SampleCall& call) {
                    return fmt::format(
                        R"({{"tool_call_id": "{}", "tool_name": "{}", "parameters": {}}})", index++,
                        call.name, text_of(call.arguments));
                  }) +
           "\n]<|END_ACTION|>";
  }
  if (dialect == "gemma4") return write_gemma("<|tool_call>", "<tool_call|>", "<|\"|>", calls);
  if (dialect == "functiongemma") {
    return write_gemma("<start_function_call>", "<end_function_call>", "<escape>", calls);
  }
  if (dialect == "functionary") {
    return joined(calls, "\n", [](const SampleCall& call) {
      return "<function=" + call.name + ">" + text_of(call.arguments) + "</function>";
    });
  }
  if (dialect == "internlm") {
    return joined(calls, "", [](const SampleCall& call) {
      return "<|action_start|><|plugin|>" + object_call(call, "name", "parameters") +
             "<|action_end|>";
    });
  }
  return {};
}

ParsedAnswer parse_pieces(const OutputDialect& dialect, const std::shared_ptr<const ToolSet>& tools,
                          ReasoningStart start, std::string_view text,
                          const std::vector<std::size_t>& cuts) {
  OutputParser parser(dialect, tools, start, /*id_seed=*/7);
  std::vector<OutputEvent> events;
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    parser.feed(text.substr(from, cut - from), events);
    from = cut;
  }
  parser.feed(text.substr(from), events);
  parser.finish(events);
  ParsedAnswer answer;
  const auto add_kind = [&](char kind) {
    if (answer.order.empty() || answer.order.back() != kind || kind == 'c') answer.order += kind;
  };
  for (const OutputEvent& event : events) {
    switch (event.kind) {
      case OutputEvent::Kind::kContent:
        answer.content += event.text;
        add_kind('t');
        break;
      case OutputEvent::Kind::kReasoning:
        answer.reasoning += event.text;
        add_kind('r');
        break;
      case OutputEvent::Kind::kCall:
        EXPECT_EQ(event.index, std::ssize(answer.calls));
        answer.calls.push_back({.name = event.text, .id = event.id, .arguments = {}});
        add_kind('c');
        break;
      case OutputEvent::Kind::kArguments:
        EXPECT_EQ(event.index + 1, std::ssize(answer.calls));
        EXPECT_FALSE(answer.calls.back().ended);
        answer.calls.back().arguments += event.text;
        break;
      case OutputEvent::Kind::kCallEnd:
        EXPECT_EQ(event.index + 1, std::ssize(answer.calls));
        answer.calls.back().ended = true;
        break;
    }
  }
  return answer;
}

}  // namespace quire
