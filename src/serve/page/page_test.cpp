// The page's routes: its files and how they may be used, what it is told, and tokens one by one.
#include "serve/page/page.h"

#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/page/embedded_files.h"
#include "serve/page/page_files.h"
#include "serve/page/page_info.h"
#include "serve/protocols/openai/test_service.h"
#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string header_of(const HttpResponse& response, std::string_view name) {
  for (const HttpHeader& header : response.headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

HttpResponse get_page(const std::string& path, std::vector<HttpHeader> headers = {}) {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  request.headers = std::move(headers);
  return begin_exchange(page_file_routes(), std::move(request))->wait();
}

// What the pattern's first group finds, in order.
std::vector<std::string> names_in(std::string_view text, const char* pattern) {
  std::vector<std::string> names;
  const std::string copy(text);
  const std::regex expression(pattern);
  for (std::sregex_iterator it(copy.begin(), copy.end(), expression), end; it != end; ++it) {
    names.push_back((*it)[1]);
  }
  return names;
}

TEST(PageFiles, IndexMayRunItsOwnScriptsOnly) {
  const HttpResponse index = get_page("/");
  EXPECT_EQ(index.status, 200);
  EXPECT_EQ(index.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(header_of(index, "Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(header_of(index, "Content-Security-Policy"), Not(HasSubstr("unsafe")));
  EXPECT_THAT(header_of(index, "Content-Security-Policy"), HasSubstr("script-src 'self' 'sha256-"));
  EXPECT_THAT(header_of(index, "Content-Security-Policy"), HasSubstr("style-src 'self' 'sha256-"));
  EXPECT_EQ(header_of(index, "X-Content-Type-Options"), "nosniff");
}

TEST(PageFiles, AreSentOnceAsLongAsTheyStayTheSame) {
  const HttpResponse first = get_page("/page/app.js");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.content_type, "text/javascript; charset=utf-8");
  const std::string tag = header_of(first, "ETag");
  ASSERT_GT(tag.size(), 2U);
  const HttpResponse again = get_page("/page/app.js", {{"If-None-Match", "W/\"x\", " + tag}});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(header_of(again, "ETag"), tag);
  EXPECT_EQ(get_page("/page/app.js", {{"If-None-Match", "\"another\""}}).status, 200);
}

TEST(PageFiles, UnknownOnesAreNotFound) {
  EXPECT_EQ(get_page("/page/secret.js").status, 404);
  EXPECT_EQ(get_page("/page/..").status, 404);
}

TEST(PageFiles, WhatTheyNeedIsThere) {
  for (const EmbeddedFile& file : embedded_files()) {
    ASSERT_FALSE(file.content.empty()) << file.name;
    const char* reference =
        file.name.ends_with(".html") ? "[\"(]page/([^\")]+)[\")]" : "from '\\./([^']+)'";
    for (const std::string& name : names_in(file.content, reference)) {
      EXPECT_EQ(get_page("/page/" + name).status, 200) << file.name << " needs " << name;
    }
  }
}

bool is_library(std::string_view name) {
  return name == "marked.js" || name == "highlight.js" || name == "katex.js";
}

TEST(PageFiles, LibrariesFontsAndTheirLicencesAreThere) {
  for (const char* name : {"marked.js", "highlight.js", "katex.js"}) {
    EXPECT_EQ(get_page(std::string("/page/") + name).content_type,
              "text/javascript; charset=utf-8");
  }
  EXPECT_EQ(get_page("/page/inter.woff2").content_type, "font/woff2");
  for (const std::string& name : names_in(get_page("/page/katex.css").body, "url\\(([^)]+)\\)")) {
    EXPECT_EQ(get_page("/page/" + name).status, 200) << name;
  }
  const HttpResponse licences = get_page("/page/licences.txt");
  EXPECT_EQ(licences.content_type, "text/plain; charset=utf-8");
  for (const char* part :
       {"libjs-marked", "libjs-highlight.js", "libjs-katex", "fonts-inter-variable",
        "Permission is hereby granted", "Redistribution and use in source"}) {
    EXPECT_THAT(licences.body, HasSubstr(part));
  }
}

// A model's answer is text: no file of the page's own may turn text into HTML or a program, or load
// from elsewhere. Of the libraries marked and highlight.js are given text and asked for tokens, and
// KaTeX makes elements by itself; the policy holds them all.
TEST(PageFiles, NeverParseTextAsMarkup) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.name.ends_with(".js") || is_library(file.name)) continue;
    for (const char* way : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                            "eval(", "new Function", "https://"}) {
      EXPECT_THAT(file.content, Not(HasSubstr(way))) << file.name;
    }
  }
  EXPECT_THAT(get_page("/").body, Not(HasSubstr("style=")));
}

// Nothing that a browser needs before it paints is another file.
TEST(PageFiles, IndexPaintsByItself) {
  const std::string index = get_page("/").body;
  EXPECT_THAT(index, Not(HasSubstr("rel=\"stylesheet\"")));
  EXPECT_EQ(
      names_in(index, "<script([^>]*)>"),
      (std::vector<std::string>{"", " type=\"module\" src=\"page/app.js\" fetchpriority=\"low\""}));
  EXPECT_EQ(names_in(index, "<style([^>]*)>"), (std::vector<std::string>{""}));
  EXPECT_EQ(get_page("/page/base.css").status, 404);
}

class PageData : public testing::Test {
 protected:
  json::value tokens(std::string body, int status = 200) {
    const auto exchange = begin_exchange(page_routes(service_.service(), {}),
                                         post_request("/page/tokens", std::move(body)));
    const HttpResponse response = exchange->wait();
    EXPECT_EQ(response.status, status) << response.body;
    return parse_body(response);
  }

  TestService service_;
};

TEST_F(PageData, NumbersOfTheCalculatorAreMadeOnceUnlessThatFails) {
  int asked = 0;
  const auto routes = page_routes(service_.service(), [&asked]() -> Result<std::string> {
    if (++asked == 1) return Status::not_found("the file is gone");
    return std::string("{}");
  });
  HttpRequest request;
  request.method = "GET";
  request.path = "/page/calculator";
  EXPECT_EQ(begin_exchange(routes, request)->wait().status, 404);
  for (int i = 0; i < 2; ++i) {
    const HttpResponse response = begin_exchange(routes, request)->wait();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "{}");
  }
  EXPECT_EQ(asked, 2);
}

TEST_F(PageData, InfoTellsEverySamplingParameterWithItsDefault) {
  const json::object info = page_info(service_.model());
  const json::array& sampling = info.at("sampling").as_array();
  ASSERT_EQ(sampling.size(), sampling_fields().size());
  for (std::size_t i = 0; i < sampling.size(); ++i) {
    const json::object& parameter = sampling[i].as_object();
    const SamplingField& field = sampling_fields()[i];
    EXPECT_EQ(parameter.at("name").as_string(), field.name);
    if (field.name == "max_tokens") continue;
    EXPECT_EQ(parameter.at("default"), field.show(service_.engine().default_sampling_params()));
  }
}

TEST_F(PageData, InfoTellsSizesAndThePlan) {
  const json::object info = page_info(service_.model());
  const json::object& model = info.at("model").as_object();
  EXPECT_EQ(model.at("served_names"), json::array({"tiny"}));
  EXPECT_GT(model.at("num_layers").as_int64(), 0);
  std::uint64_t bytes = 0;
  for (const json::value& each : model.at("encodings").as_array()) {
    bytes += each.at("bytes").to_number<std::uint64_t>();
  }
  EXPECT_GT(bytes, 0U);
  const json::object& plan = info.at("memory_plan").as_object();
  EXPECT_EQ(plan.at("total_bytes").to_number<std::uint64_t>(),
            service_.engine().info().plan.total());
}

TEST_F(PageData, TokensAreThoseOfTheTokenizer) {
  const json::value answer = tokens(R"({"text": "Hello, wörld"})");
  const auto expected = service_.engine().tokenizer().encode("Hello, wörld");
  ASSERT_TRUE(expected.ok());
  const json::array& list = answer.at("tokens").as_array();
  ASSERT_EQ(list.size(), expected->size());
  EXPECT_EQ(answer.at("count").to_number<std::size_t>(), expected->size());
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].at("id").to_number<TokenId>(), (*expected)[i]);
    const json::object& token = list[i].as_object();
    if (token.contains("special")) continue;
    if (token.contains("text")) {
      text += token.at("text").as_string();
    } else {
      for (const std::string& byte : names_in(token.at("bytes").as_string(), "([0-9a-f]{2})")) {
        text.push_back(static_cast<char>(std::stoi(byte, nullptr, 16)));
      }
    }
  }
  EXPECT_EQ(text, "Hello, wörld");
}

TEST_F(PageData, MessagesGoThroughTheTemplate) {
  const json::value answer =
      tokens(R"({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true})");
  Conversation conversation;
  conversation.messages = {{{"role", "user"}, {"content", "Hi"}}};
  const auto expected = service_.engine().encode_chat(conversation);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  EXPECT_EQ(answer.at("count").to_number<std::size_t>(), expected->size());
}

TEST_F(PageData, WrongRequestsAreNamed) {
  EXPECT_EQ(tokens("{}", 400).at("error").at("param").as_string(), "text");
  EXPECT_EQ(tokens(R"({"text": 1})", 400).at("error").at("param").as_string(), "text");
  EXPECT_EQ(tokens(R"({"text": "a", "messages": []})", 400).at("error").at("param").as_string(),
            "text");
  EXPECT_EQ(tokens(R"({"messages": [{"role": "user"}]})", 400).at("error").at("param").as_string(),
            "messages[0].content");
  EXPECT_EQ(tokens(R"({"txt": "a"})", 400).at("error").at("code").as_string(), "unknown_parameter");
}

}  // namespace
}  // namespace quire
