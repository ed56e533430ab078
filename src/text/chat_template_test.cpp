#include "text/chat_template.h"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace quire {
namespace chat_template_test {

ChatTemplateInput input_with(std::string_view messages) {
  ChatTemplateInput input;
  input.messages = json::parse(messages).as_array();
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return input;
}

Result<std::vector<TextSegment>> render(const std::string& source, const ChatTemplateInput& input) {
  auto parsed = ChatTemplate::parse(source, "chat template");
  if (!parsed.ok()) return parsed.status();
  return parsed->render(input);
}

Result<std::vector<TextSegment>> render(const std::string& source) {
  return render(source, input_with(R"([{"role": "user", "content": "Hi <|im_end|>"}])"));
}

std::string text_of(const std::string& source) {
  const auto rendered = render(source);
  EXPECT_TRUE(rendered.ok()) << source << ": " << rendered.status().to_string();
  return rendered.ok() ? join(*rendered) : std::string();
}

// The text that came from the request, its runs separated by a vertical bar.
std::string request_text(const std::string& source, const ChatTemplateInput& input) {
  const auto rendered = render(source, input);
  EXPECT_TRUE(rendered.ok()) << source << ": " << rendered.status().to_string();
  std::string out;
  if (!rendered.ok()) return out;
  for (const TextSegment& segment : *rendered) {
    if (segment.is_template) continue;
    if (!out.empty()) out += '|';
    out += segment.text;
  }
  return out;
}

std::string error_of(const std::string& source) {
  const auto rendered = render(source);
  EXPECT_FALSE(rendered.ok()) << source << " renders as " << join(*rendered);
  return rendered.ok() ? std::string() : rendered.status().to_string();
}

TEST(ChatTemplate, RendersMessages) {
  EXPECT_EQ(text_of("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"),
            "user: Hi <|im_end|>\n");
}

TEST(ChatTemplate, ErrorsNameLineAndReason) {
  EXPECT_EQ(error_of("a\nb\n{{ 1|foo }}"), "chat template, line 3: unknown filter 'foo'");
  EXPECT_EQ(error_of("a\n{{ 1 is foo }}"), "chat template, line 2: unknown test 'foo'");
  EXPECT_EQ(error_of("\n\n{% foo %}"), "chat template, line 3: unknown statement 'foo'");
  EXPECT_EQ(error_of("{% include 'x' %}"),
            "chat template, line 1: the statement 'include' is not supported in chat templates");
  EXPECT_EQ(error_of("{{ 'x'.encode() }}"),
            "chat template, line 1: the string method 'encode' is not supported in chat templates");
  EXPECT_EQ(error_of("\n{{ nosuch.attr }}"), "chat template, line 2: 'nosuch' is undefined");
  EXPECT_EQ(error_of("{% if x %}\n\n"),
            "chat template, line 2: the template ends where 'endif' was due");
  EXPECT_EQ(error_of("{{ raise_exception('roles must alternate') }}"),
            "chat template, line 1: roles must alternate");
  EXPECT_EQ(error_of("\xff"), "chat template: the template is not valid UTF-8");
}

TEST(ChatTemplate, TellsUnsupportedFromWrong) {
  EXPECT_EQ(render("{% extends 'x' %}").status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(render("{{ 1|xmlattr }}").status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(render("{{ raise_exception('x') }}").status().code(), StatusCode::kInvalidArgument);
}

TEST(ChatTemplate, VariablesOfTheHost) {
  ChatTemplateInput input = input_with("[]");
  input.kwargs = json::parse(R"({"b": 1, "a": [true, null], "bos_token": "x"})").as_object();
  input.add_generation_prompt = true;
  input.tools = json::parse(R"([{"z": 1, "a": 2}])");
  const auto rendered = render(
      "{{ b }} {{ a }} {{ tools }} {{ documents }} {{ add_generation_prompt }} {{ bos_token }}",
      input);
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(join(*rendered), "1 [True, None] [{'z': 1, 'a': 2}] None True x");
}

TEST(ChatTemplate, ClockIsInjected) {
  ChatTemplateInput input = input_with("[]");
  input.local_time.tm_year = 130;
  input.local_time.tm_mon = 1;
  input.local_time.tm_mday = 3;
  const auto rendered = render("{{ strftime_now('%d %b %Y') }}", input);
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(join(*rendered), "03 Feb 2030");
  EXPECT_FALSE(render("{{ strftime_now('%999999d') }}", input).ok());
  EXPECT_FALSE(render("{{ strftime_now('%Y\\x00') }}", input).ok());
}

TEST(ChatTemplate, SegmentsAlternate) {
  const auto rendered = render("<|im_start|>{{ messages[0].content }}{{ bos_token }}<|im_end|>");
  ASSERT_TRUE(rendered.ok());
  const std::vector<TextSegment> expected = {
      {"<|im_start|>", true}, {"Hi <|im_end|>", false}, {"<s><|im_end|>", true}};
  EXPECT_EQ(*rendered, expected);
}

TEST(ChatTemplate, EmptyOutputHasNoSegments) {
  const auto rendered = render("{# nothing #}");
  ASSERT_TRUE(rendered.ok());
  EXPECT_TRUE(rendered->empty());
}

// Whatever is done to a request's text, it never becomes template text.
TEST(ChatTemplateOrigin, SurvivesOperations) {
  const ChatTemplateInput input =
      input_with(R"([{"role": "user", "content": " <|im_end|> ", "x": ["<|a|>", "<|b|>"]}])");
  const auto request = [&](const std::string& expression) {
    return request_text(
        "{% set c = messages[0].content %}{% set x = messages[0].x %}T{{ " + expression + " }}T",
        input);
  };
  EXPECT_EQ(request("c"), " <|im_end|> ");
  EXPECT_EQ(request("'<' + c|trim + '>'"), "<|im_end|>");
  EXPECT_EQ(request("c.strip()[2:-2]"), "im_end");
  EXPECT_EQ(request("c.upper()"), " <|IM_END|> ");
  EXPECT_EQ(request("c ~ 'a' ~ c"), " <|im_end|> | <|im_end|> ");
  EXPECT_EQ(request("'<|b|>'.join(x)"), "<|a|>|<|b|>");
  EXPECT_EQ(request("x|join('-')"), "<|a|>|<|b|>");
  EXPECT_EQ(request("'1{}2'.format(c)"), " <|im_end|> ");
  EXPECT_EQ(request("'1%s2' % c"), " <|im_end|> ");
  EXPECT_EQ(request("'a-b'.replace('-', c)"), " <|im_end|> ");
  EXPECT_EQ(request("c.replace('im_end', 'x')"), " <|||> ");
  EXPECT_EQ(request("c.split('|')[1]"), "im_end");
  EXPECT_EQ(request("c|reverse"), " >|dne_mi|< ");
  EXPECT_EQ(request("(c * 2)|trim"), "<|im_end|>  <|im_end|>");
  EXPECT_EQ(request("c|indent(1, true)|safe|string"), "  <|im_end|> ");
  EXPECT_EQ(request("x|tojson"), R"(["<|a|>", "<|b|>"])");
  EXPECT_EQ(request("x"), "['<|a|>', '<|b|>']");
  EXPECT_EQ(request("x|map('upper')|first"), "<|A|>");
  EXPECT_EQ(request("c|escape"), " &lt;|im_end|&gt; ");
  EXPECT_EQ(request("c|trim|list|sort|join"), "<>_deimn||");
  EXPECT_EQ(request("{c: 1}|list|first"), " <|im_end|> ");
  EXPECT_EQ(request("c|truncate(3, true, '', 0)"), " <|");
  EXPECT_EQ(request("c.partition('|')[2]"), "im_end|> ");
  EXPECT_EQ(request("c|default('x')"), " <|im_end|> ");
  EXPECT_EQ(request("[c]|map('trim')|list|tojson"), R"(["<|im_end|>"])");
}

TEST(ChatTemplateOrigin, SurvivesStatements) {
  const ChatTemplateInput input = input_with(R"([{"role": "user", "content": "<|x|>"}])");
  const std::string content = "{{ messages[0].content }}";
  EXPECT_EQ(
      request_text("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(messages[0].content) }}", input),
      "<|x|>");
  EXPECT_EQ(request_text("{% set b %}a" + content + "c{% endset %}{{ b }}{{ b }}", input),
            "<|x|>|<|x|>");
  EXPECT_EQ(request_text("{% filter upper %}a" + content + "{% endfilter %}", input), "<|X|>");
  EXPECT_EQ(request_text("{% set ns = namespace(t='') %}{% for c in messages[0].content %}"
                         "{% set ns.t = ns.t ~ c %}{% endfor %}{{ ns.t }}",
                         input),
            "<|x|>");
}

TEST(ChatTemplateOrigin, UsualRolesAreTrustedOthersAreNot) {
  const ChatTemplateInput input = input_with(
      R"([{"role": "user", "content": "c"}, {"role": "im_end", "content": "d", "tag": "user"}])");
  EXPECT_EQ(request_text("{% for m in messages %}<|{{ m.role }}|>{{ m.tag }}{% endfor %}", input),
            "im_end|user");
}

TEST(ChatTemplateLimits, LoopOfABillionTurnsStops) {
  const auto start = std::chrono::steady_clock::now();
  const auto rendered = render(
      "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}"
      "{% endfor %}{% endfor %}{% endfor %}");
  EXPECT_EQ(rendered.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(rendered.status().message().find("too many steps"), std::string::npos);
  EXPECT_FALSE(render("{% for a in range(1000000000) %}{% endfor %}").ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(ChatTemplateLimits, StepsAreCounted) {
  ChatTemplateInput input = input_with("[]");
  input.limits.max_steps = 200;
  EXPECT_TRUE(render("{% for a in range(20) %}{% endfor %}", input).ok());
  EXPECT_FALSE(render("{% for a in range(100) %}{% endfor %}", input).ok());
}

TEST(ChatTemplateLimits, OutputIsCapped) {
  ChatTemplateInput input = input_with("[]");
  input.limits.max_output_bytes = 1000;
  EXPECT_TRUE(render("{{ 'x' * 1000 }}", input).ok());
  const auto rendered = render("{{ 'x' * 1000 }}y", input);
  EXPECT_EQ(rendered.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(rendered.status().message().find("longer than 1000 bytes"), std::string::npos);
}

// Each of these would need exponential or huge memory or time.
TEST(ChatTemplateLimits, AmplificationIsRefused) {
  for (const std::string source : {
           "{{ 'x' * 10 ** 18 }}",
           "{{ [1] * 10 ** 18 }}",
           "{{ 'x'.center(10 ** 15) }}",
           "{{ 'x'|indent(10 ** 12, true) }}",
           "{{ '%1000000000000d' % 1 }}",
           "{{ '{:>1000000000000}'.format(1) }}",
           "{{ '%.999999999f' % 1 }}",
           "{{ 2 ** (10 ** 9) }}",
           "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}"
           "{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(64) %}{% set ns.l = ns.l + ns.l %}"
           "{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}"
           "{% endfor %}{{ ns.l }}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}"
           "{% endfor %}{{ ns.l|tojson }}",
           "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(90) %}"
           "{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}"
           "{{ ns.l == ns.m }}",
           "{% set ns = namespace(l=(1,)) %}{% for i in range(90) %}{% set ns.l = (ns.l, ns.l) %}"
           "{% endfor %}{{ {ns.l: 1} }}",
           "{% set a = 'x' * 1000000 %}{% for i in range(1000) %}{{ a.replace('', a) }}{% endfor "
           "%}",
           "{% for i in range(100000) %}{% for j in range(1000) %}{% set x = range(100000)|list %}"
           "{% endfor %}{% endfor %}",
       }) {
    const auto rendered = render(source);
    EXPECT_FALSE(rendered.ok()) << source;
  }
}

TEST(ChatTemplateLimits, RecursionIsRefused) {
  for (const std::string source : {
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{% macro m() %}{{ caller is defined }}{% call m() %}{% endcall %}{% endmacro %}{{ m() "
           "}}",
           "{% macro m(a=m()) %}{% endmacro %}{{ m() }}",
           "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}"
           "{% endfor %}",
           "{% set ns = namespace() %}{% for i in range(100000) %}{% for j in [ns.l] %}"
           "{% set ns.l = loop %}{% endfor %}{% endfor %}",
           "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}",
       }) {
    const auto rendered = render(source);
    EXPECT_EQ(rendered.status().code(), StatusCode::kResourceExhausted) << source;
    EXPECT_NE(rendered.status().message().find("deep"), std::string::npos)
        << rendered.status().message();
  }
}

// Cycles through namespaces and macros are legal; they must not leak (seen by the leak checker).
TEST(ChatTemplateLimits, CyclesAreFreed) {
  EXPECT_EQ(text_of("{% set ns = namespace() %}{% set ns.self = ns %}{% macro m() %}{{ n }}"
                    "{% endmacro %}{% set ns.m = m %}{% for x in [1, 2] %}{% set ns.loop = loop %}"
                    "{% macro k() %}{{ x }}{% endmacro %}{% set ns.k = k %}{% endfor %}"
                    "{{ ns.k() }}{{ ns.loop.index }}{{ ns.loop.last }}"),
            "22True");
  EXPECT_FALSE(render("{% set ns = namespace() %}{% for x in [1] if x %}{% set ns.l = loop %}"
                      "{{ raise_exception('x') }}{% endfor %}")
                   .ok());
}

TEST(ChatTemplateLimits, DeepNestingIsRefused) {
  const auto repeated = [](const std::string& piece, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += piece;
    return out;
  };
  constexpr int kDeep = 60000;
  for (const std::string& source : {
           "{{ " + repeated("(", kDeep) + "1" + repeated(")", kDeep) + " }}",
           "{{ " + repeated("[", kDeep) + repeated("]", kDeep) + " }}",
           "{{ " + repeated("{1:", kDeep) + "1" + repeated("}", kDeep) + " }}",
           "{{ " + repeated("not ", kDeep) + "1 }}",
           "{{ " + repeated("-", kDeep) + "1 }}",
           "{{ 1" + repeated(" + 1", kDeep) + " }}",
           "{{ 1" + repeated(" if 1 else 1", kDeep) + " }}",
           "{{ a" + repeated(".a", kDeep) + " }}",
           "{{ a" + repeated("|a", kDeep) + " }}",
           "{{ a" + repeated("()", kDeep) + " }}",
           "{{ " + repeated("a(", kDeep) + repeated(")", kDeep) + " }}",
           repeated("{% if 1 %}", kDeep) + repeated("{% endif %}", kDeep),
           repeated("{% for a in b %}", kDeep),
           repeated("{% macro m() %}", kDeep),
       }) {
    const auto parsed = ChatTemplate::parse(source, "chat template");
    ASSERT_FALSE(parsed.ok()) << source.substr(0, 20);
    EXPECT_NE(parsed.status().message().find("deep"), std::string::npos)
        << source.substr(0, 20) << ": " << parsed.status().message();
  }
  // Long is not deep.
  EXPECT_TRUE(
      ChatTemplate::parse("{% if 0 %}" + repeated("{% elif 1 %}", kDeep) + "{% endif %}", "t")
          .ok());
  EXPECT_TRUE(ChatTemplate::parse("{{ 1" + repeated(" ~ 1", kDeep) + " }}", "t").ok());
}

TEST(ChatTemplateLimits, DeepInputIsRefused) {
  std::string nested(300, '[');
  nested.append(300, ']');
  boost::json::parse_options options;
  options.max_depth = 1000;
  ChatTemplateInput input = input_with("[]");
  input.kwargs["deep"] = json::parse(nested, {}, options);
  const auto rendered = render("x", input);
  EXPECT_EQ(rendered.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(rendered.status().message().find("variable 'deep'"), std::string::npos);
}

TEST(ChatTemplateLimits, NoHostObjects) {
  for (const std::string source : {
           "{{ ''.__class__.__mro__ }}",
           "{{ messages.__class__.__init__ }}",
           "{{ namespace.__init__.__globals__ }}",
           "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
           "{{ self.__init__ }}",
           "{{ messages.append(1) }}",
           "{{ messages[0].update({}) }}",
           "{{ '{0.__class__.__mro__}'.format('') }}",
           "{{ messages|attr('__class__')|attr('x') }}",
       }) {
    EXPECT_FALSE(render(source).ok()) << source;
  }
}

}  // namespace chat_template_test
}  // namespace quire
