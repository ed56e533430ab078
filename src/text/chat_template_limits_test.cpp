// Templates that ask for much: whatever a filter, method or operator does in proportion to
// something is paid for before it is done, so that every template ends soon and within its memory,
// with a text or with an error that says why not.
#include <cstdlib>
#include <ctime>
#include <malloc.h>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace {

// What is allocated, and the most that was since `peak` was set.
std::size_t live = 0;
std::size_t peak = 0;

void* counted(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  live += malloc_usable_size(memory);
  if (live > peak) peak = live;
  return memory;
}

void released(void* memory) {
  if (memory == nullptr) return;
  const std::size_t size = malloc_usable_size(memory);
  live -= size < live ? size : live;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
// What asks for a buffer that it can do without (std::stable_sort) gets none.
void* operator new(std::size_t /*size*/, const std::nothrow_t& /*tag*/) noexcept { return nullptr; }
void operator delete(void* memory) noexcept { released(memory); }
void operator delete[](void* memory) noexcept { released(memory); }
void operator delete(void* memory, std::size_t) noexcept { released(memory); }
void operator delete[](void* memory, std::size_t) noexcept { released(memory); }

namespace quire {
namespace {

// Processor time: what else the machine does is not counted.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Most templates run with an eighth of everything, so that there can be many.
constexpr std::uint64_t kShare = 8;
constexpr std::size_t kMaxBytes = 64U << 20;
// Half a second on a machine of its own; sanitizers and neighbours in the caches take their share.
constexpr double kMaxSeconds = 5;

struct Spent {
  bool ok = false;
  std::string message;
  double seconds = 0;
  std::size_t bytes = 0;
};

Spent render(const std::string& source, const ChatTemplateInput& input = {}) {
  Spent spent;
  const auto chat_template = ChatTemplate::parse(source, "t");
  EXPECT_TRUE(chat_template.ok()) << chat_template.status().to_string();
  if (!chat_template.ok()) return spent;
  const std::size_t before = live;
  peak = live;
  const double start = cpu_seconds();
  {
    const auto rendered = chat_template->render(input);
    spent.ok = rendered.ok();
    spent.message = rendered.status().message();
    if (!rendered.ok()) {
      EXPECT_NE(rendered.status().code(), StatusCode::kInternal);
      if (rendered.status().code() == StatusCode::kResourceExhausted) {
        EXPECT_FALSE(rendered.status().remedy().empty() && spent.message.empty());
      }
    }
  }
  spent.seconds = cpu_seconds() - start;
  spent.bytes = peak - before;
  return spent;
}

void expect_bounded(const std::string& source, ChatTemplateInput input = {},
                    std::uint64_t share = kShare) {
  SCOPED_TRACE(source.substr(0, 300));
  input.limits.max_steps /= share;
  input.limits.max_bytes /= share;
  const Spent spent = render(source, input);
  EXPECT_LT(spent.seconds, kMaxSeconds / static_cast<double>(share));
  EXPECT_LE(spent.bytes, kMaxBytes / share);
  if (std::getenv("TEMPLATE_COSTS") != nullptr) {
    std::printf("%6.3f s %6.1f MiB  %-9s %s\n", spent.seconds,
                static_cast<double>(spent.bytes) / (1 << 20), spent.ok ? "rendered" : "refused",
                (source.substr(0, 150) + "  " + spent.message.substr(0, 60)).c_str());
  }
}

// A text as large as a template can make one, of two kinds; then something done to it, once and in
// a loop, with the result kept.
void expect_bounded_on_large_text(const std::string& work) {
  for (const char* text : {"('a b.' * 310000)", "('\xc3\xa9<\\n' * 190000)", "('a' * 38000)",
                           "('\\n' * 5000)", "(messages[0].content * 88000 ~ 'x')"}) {
    ChatTemplateInput input;
    input.messages = {json::object{{"role", "user"}, {"content", "input"}}};
    expect_bounded("{% set t = " + std::string(text) + " %}{% set x = " + work + " %}", input);
    expect_bounded("{% set t = " + std::string(text) +
                       " %}{% set ns = namespace(l=[]) %}{% for i in range(12500) %}{% set ns.l = "
                       "[ns.l, " +
                       work + "][-1:] %}{% set y = " + work + " %}{% endfor %}",
                   input);
  }
}

TEST(ChatTemplateLimits, FiltersOnLargeText) {
  for (const char* filter : {"upper",
                             "lower",
                             "title",
                             "capitalize",
                             "trim",
                             "trim('ab. ')",
                             "replace('a', 'bb')",
                             "replace('', '-')",
                             "indent",
                             "indent(100, true, true)",
                             "center(1100000)",
                             "escape",
                             "e",
                             "urlencode",
                             "wordcount",
                             "tojson",
                             "tojson(indent=2)",
                             "string",
                             "safe",
                             "length",
                             "list",
                             "first",
                             "last",
                             "reverse",
                             "sort",
                             "unique",
                             "max",
                             "min",
                             "join",
                             "join('--')",
                             "truncate(100)",
                             "truncate(600000, true)",
                             "int",
                             "float",
                             "batch(3)",
                             "slice(3)",
                             "map('upper')",
                             "select",
                             "reject('eq', 'a')",
                             "list | groupby(0)",
                             "format(1)",
                             "items",
                             "default('x')",
                             "attr('upper')",
                             "sum",
                             "round",
                             "abs",
                             "dictsort",
                             "pprint"}) {
    if (std::string(filter) == "pprint" || std::string(filter) == "items") continue;
    expect_bounded_on_large_text("(t | " + std::string(filter) + ")");
  }
}

TEST(ChatTemplateLimits, MethodsOnLargeText) {
  for (const char* call : {"upper()",
                           "lower()",
                           "title()",
                           "capitalize()",
                           "swapcase()",
                           "strip()",
                           "lstrip()",
                           "rstrip()",
                           "strip('ab. ')",
                           "strip(t)",
                           "split()",
                           "rsplit()",
                           "split('a')",
                           "rsplit('a')",
                           "split(t)",
                           "splitlines()",
                           "splitlines(true)",
                           "replace('a', 'xyz')",
                           "replace('', 'xyz')",
                           "replace(t, t)",
                           "find('zz')",
                           "rfind('zz')",
                           "count('a')",
                           "count('')",
                           "startswith(t)",
                           "endswith(t)",
                           "startswith((t, t, t))",
                           "partition('zz')",
                           "rpartition('b')",
                           "center(1100000)",
                           "ljust(1100000)",
                           "rjust(1100000)",
                           "zfill(1100000)",
                           "join(t)",
                           "join([t, t])",
                           "removeprefix(t)",
                           "removesuffix('b.')",
                           "isupper()",
                           "islower()",
                           "isalnum()",
                           "isalpha()",
                           "isspace()",
                           "isprintable()",
                           "isidentifier()",
                           "istitle()",
                           "isdigit()",
                           "format(t)"}) {
    expect_bounded_on_large_text("t." + std::string(call));
  }
}

TEST(ChatTemplateLimits, OperatorsOnLargeText) {
  for (const char* work : {"t + t",
                           "t ~ t",
                           "t * 3",
                           "t[::2]",
                           "t[::-1]",
                           "t[1:-1]",
                           "t[-1]",
                           "t == t ~ ''",
                           "t < t ~ ''",
                           "'zz' in t",
                           "[t] == [t ~ '']",
                           "{t: 1}",
                           "{t: 1}[t]",
                           "{t: 1}.get(t)",
                           "'%s%s' % (t, t)",
                           "'%.1s' % t",
                           "'%r' % t",
                           "'%900d' % 3",
                           "'{0}{0}'.format(t)",
                           "'{0!r}'.format(t)",
                           "'{:>1100000}'.format(1)",
                           "t % ()",
                           "[t, t] | join",
                           "[t] | tojson",
                           "[t] ~ ''",
                           "{'a': t} | tojson(indent=t)",
                           "t is lower",
                           "t is eq(t ~ '')",
                           "[t] | map('upper') | list",
                           "[t] | sort",
                           "[t] | unique | list",
                           "dict(a=t)",
                           "namespace(a=t)",
                           "strftime_now(t)"}) {
    expect_bounded_on_large_text(work);
  }
}

TEST(ChatTemplateLimits, WorkOnLargeLists) {
  for (const char* work : {"range(12500) | slice(1000000000) | list",
                           "range(12500) | batch(1000000000, 0) | list",
                           "range(12500) | batch(1) | list",
                           "range(12500) | map('string') | list",
                           "range(12500) | map('string') | join(', ')",
                           "range(12500) | sort(reverse=true)",
                           "range(12500) | list | tojson(indent=200)",
                           "range(12500) | unique | list",
                           "range(12500) | groupby(0) | list",
                           "range(12500) | sum",
                           "range(12500) | max",
                           "range(12500) | select('odd') | list",
                           "range(12500) | map(attribute='x') | list",
                           "range(12500) | map(attribute='a.b.c' * 20000) | list",
                           "[0] * 1000000000",
                           "([0] * 12500) * 10",
                           "range(12500)[::-1] | list",
                           "(range(12500) | list)[::2]",
                           "range(12500) | list == range(12500) | list",
                           "12499 in range(12500)",
                           "(range(12500) | list).count(1)",
                           "(range(12500) | list) + (range(12500) | list)",
                           "dict(range(12500) | batch(2))",
                           "range(12500) | reverse | list",
                           "range(12500) | map('tojson') | list",
                           "range(12500) | map('default', 'x' * 1000) | list",
                           "range(12500) | map('replace', '1', 'x' * 10000) | list",
                           "range(12500) | map('center', 2000) | list",
                           "range(12500) | string",
                           "[range(12500)] | map('list') | list",
                           "(range(12500) | map('string') | list)[::3]",
                           "range(12500) | reject('divisibleby', 3) | list",
                           "'%s' % (range(12500) | list)",
                           "cycler(*range(12500))",
                           "range(0, 10)[::1000000000000000000]"}) {
    expect_bounded("{% set x = " + std::string(work) + " %}");
    expect_bounded("{% set ns = namespace(l=[]) %}{% for i in range(12500) %}{% set y = " +
                   std::string(work) + " %}{% endfor %}");
    expect_bounded("{% set a = " + std::string(work) + " %}{% set b = " + std::string(work) +
                   " %}{% set c = " + std::string(work) + " %}{% set d = " + std::string(work) +
                   " %}{% set e = " + std::string(work) + " %}{% set f = " + std::string(work) +
                   " %}");
  }
}

TEST(ChatTemplateLimits, StatementsThatRepeat) {
  std::string nested;  // many loops over a long range, all at once
  std::string deep;    // names that are looked for through many scopes
  for (int i = 0; i < 20; ++i) {
    nested += "{% for i" + std::to_string(i) + " in range(12500) %}";
    deep += "{% with v" + std::to_string(i) + " = 1 %}";
  }
  std::string ends;
  std::string withs;
  for (int i = 0; i < 20; ++i) {
    ends += "{% endfor %}";
    withs += "{% endwith %}";
  }
  expect_bounded(nested + "x" + ends);
  expect_bounded(deep + "{% for i in range(12500) %}{{ absent is defined }}{% endfor %}" + withs);
  expect_bounded("{% for i in range(12500) %}{% for j in range(12500) %}{% endfor %}{% endfor %}");
  expect_bounded(
      "{% for i in range(12500) %}{% macro m() %}{% endmacro %}{% set q = i %}{% endfor %}");
  expect_bounded("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}");
  expect_bounded(
      "{% set ns = namespace(s='x') %}{% for i in range(12500) %}"
      "{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
  expect_bounded(
      "{% set ns = namespace(l=[0]) %}{% for i in range(12500) %}"
      "{% set ns.l = ns.l + ns.l %}{% endfor %}");
  expect_bounded(
      "{% set ns = namespace(l=[0]) %}{% for i in range(12500) %}"
      "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}");
  expect_bounded("{% for i in range(12500) %}{{ 'x' * 1000 }}{% endfor %}");
  expect_bounded("{% for i in range(12500) %}{% set s %}{{ 'x' * 1000 }}{% endset %}{% endfor %}");
  expect_bounded(
      "{% for i in range(12500) %}{% filter upper %}{{ 'x' * 1000 }}{% endfilter %}{% endfor %}");
  expect_bounded(
      "{% set ns = namespace() %}{% for i in range(12500) %}{% set ns.a = namespace(b=ns.a) %}{% "
      "endfor %}");
  expect_bounded("{% for i in range(12500) %}{{ loop.cycle(*range(10000)) }}{% endfor %}");
  expect_bounded("{% for i in range(12500) %}{{ '%.1000f' % 1e308 }}{% endfor %}");
  expect_bounded("{% for i in range(12500) %}{{ 1.5 | round(300) }}{% endfor %}");
  expect_bounded("{% for i in range(12500) %}{{ strftime_now('%c%c%c%c%c%c%c%c') }}{% endfor %}");
  expect_bounded("{{ ('%%' * 600000) % () }}");
  expect_bounded("{{ ('{{' * 600000).format() }}");
  expect_bounded("{{ ('%s' * 60000) % (range(60000) | list) }}");
}

// The same with all that a request's template gets.
TEST(ChatTemplateLimits, AtTheRealLimits) {
  for (const char* source :
       {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% set t = 'a' * 300000 %}{% for i in range(100000) %}{% set x = t.swapcase() %}{% endfor "
        "%}",
        "{% set x = range(100000) | slice(1000000000) | list %}",
        "{% set t = 'a b.' * 2500000 %}{% set x = {t: 1}.get(t) %}",
        "{% set x = [0] * 1000000000 %}"}) {
    expect_bounded(source, {}, 1);
  }
}

// What a chat that fills a long context needs is far within the limits.
TEST(ChatTemplateLimits, LongConversationsRender) {
  const std::string source =
      "{{ bos_token }}{% for message in messages %}{% if loop.first or message != messages[-1] %}"
      "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>' + "
      "'\n' }}"
      "{% else %}{{ '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' }}{% "
      "endif %}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  for (const auto& [count, size] :
       {std::pair<int, std::size_t>{5000, 400}, {1, 4U << 20}, {100, 40'000}}) {
    ChatTemplateInput input;
    input.special_tokens = {{"bos_token", "<s>"}};
    for (int i = 0; i < count; ++i) {
      input.messages.push_back(
          json::object{{"role", i % 2 == 0 ? "user" : "assistant"},
                       {"content", std::string(size, 'x') + std::to_string(i)}});
    }
    const auto spent = render(source, input);
    EXPECT_TRUE(spent.ok) << count << " messages of " << size << ": " << spent.message;
  }
}

TEST(ChatTemplateLimits, TheErrorSaysWhatToDo) {
  const auto chat_template = ChatTemplate::parse("a\n{{ 'x' * 1000000000 }}", "t.jinja");
  ASSERT_TRUE(chat_template.ok());
  const auto rendered = chat_template->render({});
  ASSERT_FALSE(rendered.ok());
  EXPECT_EQ(rendered.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(rendered.status().message(), "t.jinja, line 2: the template handles too much text");
  EXPECT_NE(rendered.status().remedy().find("simplify the template"), std::string::npos);
}

}  // namespace
}  // namespace quire
