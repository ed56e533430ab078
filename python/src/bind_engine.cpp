// Engine, Params and TextModel. Objects of several fields go over as JSON.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "bindings.h"
#include "engine_handle.h"
#include "errors.h"
#include "serve/protocols/openai/chat_messages.h"
#include "serve/protocols/queue_fields.h"
#include "serve/protocols/sampling_fields.h"
#include "text_model.h"
#include "weights/weight_source.h"

namespace quire::python {

namespace nb = nanobind;

namespace {

using Ids = std::vector<TokenId>;

// What an engine and a model without weights have in common. `with` (object, call) gives what
// `call` makes of the tokenizer.
template <typename Class, typename With>
void bind_tokenizer(nb::class_<Class>& bound, With with) {
  bound
      .def(
          "encode",
          [with](Class& self, const std::string& text, bool add_special_tokens,
                 bool parse_special) {
            const EncodeOptions options = {.add_special_tokens = add_special_tokens,
                                           .parse_special = parse_special};
            return with(self, [&](const Tokenizer& tokenizer) -> Result<Ids> {
              return tokenizer.encode(text, options);
            });
          },
          nb::arg("text"), nb::arg("add_special_tokens"), nb::arg("parse_special"))
      .def(
          "decode",
          [with](Class& self, const Ids& ids, bool skip_special_tokens) {
            return with(self, [&](const Tokenizer& tokenizer) -> Result<std::string> {
              return tokenizer.decode(ids, skip_special_tokens);
            });
          },
          nb::arg("ids"), nb::arg("skip_special_tokens"))
      .def("decode_each",
           [with](Class& self, const Ids& ids) {
             return with(self, [&](const Tokenizer& tokenizer) -> Result<std::vector<std::string>> {
               std::vector<std::string> texts;
               for (const TokenId id : ids) {
                 texts.push_back(tokenizer.decode(std::span<const TokenId>(&id, 1), false));
               }
               return texts;
             });
           })
      .def("token_texts",
           [with](Class& self, const Ids& ids) {
             return with(self, [&](const Tokenizer& tokenizer) -> Result<std::vector<std::string>> {
               std::vector<std::string> texts;
               for (const TokenId id : ids) texts.emplace_back(tokenizer.token_text(id));
               return texts;
             });
           })
      .def("find_token",
           [with](Class& self, const std::string& text) {
             return with(self, [&](const Tokenizer& tokenizer) -> Result<std::optional<TokenId>> {
               return tokenizer.find(text);
             });
           })
      .def("special_ids",
           [with](Class& self) {
             return with(self, [&](const Tokenizer& tokenizer) -> Result<Ids> {
               Ids ids;
               for (TokenId id = 0; tokenizer.contains(id); ++id) {
                 if (tokenizer.is_special(id)) ids.push_back(id);
               }
               return ids;
             });
           })
      .def("eos_ids",
           [with](Class& self) {
             return with(self, [&](const Tokenizer& tokenizer) -> Result<Ids> {
               return Ids(tokenizer.eos_ids().begin(), tokenizer.eos_ids().end());
             });
           })
      .def("bos_id",
           [with](Class& self) {
             return with(self, [&](const Tokenizer& tokenizer) -> Result<std::optional<TokenId>> {
               return tokenizer.bos_id();
             });
           })
      .def("vocab_size", [with](Class& self) {
        return with(self, [&](const Tokenizer& tokenizer) -> Result<std::size_t> {
          return tokenizer.vocab_size();
        });
      });
}

// The fields of a chat request, as the server reads them, and the tools that its template shows.
Result<Conversation> read_chat(const Engine& engine, const std::string& text) {
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, "chat"));
  if (!value.is_object()) return Status::invalid_argument("chat: expected an object");
  const JsonReader fields(value.get_object(), "chat", StatusCode::kInvalidArgument);
  QUIRE_ASSIGN_OR_RETURN(Conversation conversation, read_conversation(fields, engine));
  if (const json::value* tools = fields.find("tools")) conversation.tools = *tools;
  return conversation;
}

json::object default_params_json(const Engine& engine) {
  json::object params;
  for (const SamplingField& field : sampling_fields()) {
    json::value value = field.show(engine.default_sampling_params());
    if (!value.is_null()) params[field.name] = std::move(value);
  }
  return params;
}

using HostArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

Encoding encoding_of(const HostArray& array, const std::string& name) {
  const nb::dlpack::dtype type = array.dtype();
  if (type == nb::dtype<float>()) return Encoding::kF32;
  if (type.lanes == 1 && type.bits == 16) {
    if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float))
      return Encoding::kF16;
    if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat)) {
      return Encoding::kBF16;
    }
  }
  raise(Status::invalid_argument(
      fmt::format("update_weights: {}: its numbers are of another type", printable(name)),
      "give float32, float16 or bfloat16"));
}

void update_weights(EngineHandle& self,
                    const std::vector<std::pair<std::string, HostArray>>& given) {
  std::vector<TensorInfo> tensors;
  for (const auto& [name, array] : given) {
    TensorInfo& tensor = tensors.emplace_back();
    tensor.name = name;
    tensor.encoding = encoding_of(array, name);
    for (std::size_t i = 0; i < array.ndim(); ++i) {
      tensor.shape.push_back(static_cast<std::int64_t>(array.shape(i)));
    }
    tensor.data = {static_cast<const std::uint8_t*>(array.data()), array.nbytes()};
  }
  self.run([&](Engine& engine) -> Result<bool> {
    QUIRE_RETURN_IF_ERROR(engine.update_weights(tensors));
    return true;
  });
}

void bind_params(nb::module_& module) {
  nb::class_<NativeParams>(module, "Params")
      .def(nb::new_([](const std::string& text, bool to_the_end) {
             return std::make_unique<NativeParams>(value_of(NativeParams::read(text, to_the_end)));
           }),
           nb::arg("text"), nb::arg("to_the_end"));
  module.def("sampling_properties", [] { return json::serialize(sampling_properties()); });
  module.def("queue_properties", [] { return json::serialize(queue_properties()); });
}

}  // namespace

void bind_engine(nb::module_& module) {
  bind_params(module);

  nb::class_<EngineHandle> engine(module, "Engine", nb::is_weak_referenceable());
  engine.def(nb::new_(&EngineHandle::create), nb::arg("settings"))
      .def("close", &EngineHandle::close)
      .def_prop_ro("closed", &EngineHandle::closed)
      .def("check_caller", [](const EngineHandle& self) { check(self.check_caller()); })
      .def("submit", &EngineHandle::submit, nb::arg("inbox"), nb::arg("key"),
           nb::arg("prompt_token_ids"), nb::arg("params"), nb::arg("queue_fields"),
           nb::arg("embed"), nb::arg("external_id"), nb::arg("logits_processor").none())
      .def("abort", &EngineHandle::abort, nb::arg("request_id"))
      .def("reset_prefix_cache",
           [](EngineHandle& self) {
             self.run([](Engine& it) -> Result<bool> {
               it.reset_prefix_cache();
               return true;
             });
           })
      .def("update_weights", update_weights, nb::arg("tensors"))
      .def("why", &EngineHandle::why, nb::arg("external_id"))
      .def("state", &EngineHandle::state, nb::arg("most"))
      .def("timeline", &EngineHandle::timeline, nb::arg("as_page"))
      .def("info",
           [](EngineHandle& self) {
             return self.run([](Engine& it) -> Result<std::string> {
               return json::serialize(info_json(it.info()));
             });
           })
      .def("stats",
           [](EngineHandle& self) {
             return self.run([](Engine& it) -> Result<std::string> {
               json::object stats = stats_json(it.observe());
               stats["time_ns"] = it.now().count();
               return json::serialize(stats);
             });
           })
      .def("default_params",
           [](EngineHandle& self) {
             return self.run([](Engine& it) -> Result<std::string> {
               return json::serialize(default_params_json(it));
             });
           })
      .def("render_chat",
           [](EngineHandle& self, const std::string& chat) {
             return self.run([&](Engine& it) -> Result<std::string> {
               QUIRE_ASSIGN_OR_RETURN(const Conversation read, read_chat(it, chat));
               return it.render_chat(read);
             });
           })
      .def("encode_chat",
           [](EngineHandle& self, const std::string& chat, bool add_special_tokens) {
             return self.run([&](Engine& it) -> Result<Ids> {
               QUIRE_ASSIGN_OR_RETURN(const Conversation read, read_chat(it, chat));
               return it.encode_chat(read, add_special_tokens);
             });
           })
      .def("chat_template", [](EngineHandle& self) {
        return self.run(
            [](Engine& it) -> Result<std::string> { return std::string(it.chat_template()); });
      });
  bind_tokenizer(engine, [](EngineHandle& self, auto call) {
    return self.run([&](Engine& it) { return call(it.tokenizer()); });
  });

  nb::class_<TextModel> text(module, "TextModel");
  text.def(nb::new_(&TextModel::open), nb::arg("model"))
      .def("render_chat", &TextModel::render_chat)
      .def("encode_chat", &TextModel::encode_chat);
  bind_tokenizer(text,
                 [](TextModel& self, auto call) { return self.with_tokenizer(std::move(call)); });

  module.def("inspect_model", &inspect_model, nb::arg("settings"));
}

}  // namespace quire::python
