// Model files with wrong bytes: opens so many mutations of each kind of file, reads what can be
// read of them, and holds each to the limits of docs/development.md.
//
//   mutated_models COUNT [KIND...]     COUNT of each kind; without kinds: of all
//   mutated_models --one KIND NUMBER   one of them, in a folder that stays, for a debugger
//
// A kind runs in a process of its own: how it ends is told with the number of the mutation. A
// mutation depends on its kind and number alone. Time is the processor's: a test machine is busy.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "load/model_bundle.h"
#include "support/model_forms.h"
#include "tensor/thread_pool.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxSeconds = 2;
constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;  // over the model's files
constexpr std::uint64_t kMaxFileBytes = 64U << 20;

// A folder or a GGUF file, and which of the folder's files are mutated; all of them: empty. A
// folder with a vocabulary alone has the weights of another; some also have a chat template from
// elsewhere. `write` makes a folder from the model in place of copying it.
struct Kind {
  std::string name;
  fs::path model;
  std::string file = {};
  fs::path weights = {};
  fs::path chat_template = {};
  Status (*write)(const fs::path& model, const fs::path& folder) = nullptr;
};

std::vector<Kind> kinds() {
  const fs::path data = QUIRE_SOURCE_DIR "/tests/data";
  std::vector<Kind> all = {
      {"gguf", data / "tiny_llama/tiny_llama_q4_0.gguf"},
      {"gguf_kquants", data / "tiny_kquants/tiny_kquants.gguf"},
      {"gguf_compact", data / "tiny_compact/tiny_compact.gguf"},
      {"gguf_mxfp4", data / "quantized/mxfp4_gpt_oss.gguf"},
      {.name = "gguf_parts",
       .model = data / "tiny_llama/tiny_llama_q4_0.gguf",
       .write = write_gguf_parts},
      {.name = "mistral", .model = data / "families/mistral/hf", .write = write_mistral_form},
      {"safetensors_parts", data / "tiny_llama/hf"},
      {"generation_config.json", data / "tiny_llama/hf", "generation_config.json"},
      {.name = "chat_template.jinja",
       .model = data / "families/llama/hf",
       .file = "chat_template.jinja",
       .chat_template = data / "chat_template/llama2_style.jinja"},
      {"safetensors", data / "families/llama/hf", "model.safetensors"},
      {"config.json", data / "families/llama/hf", "config.json"},
      {"tokenizer.json", data / "families/llama/hf", "tokenizer.json"},
      {"tokenizer_config.json", data / "families/llama/hf", "tokenizer_config.json"}};
  const auto add_folders = [&](const fs::path& folder, const fs::path& weights) {
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_directory()) folders.push_back(entry.path());
    }
    std::ranges::sort(folders);
    for (const fs::path& each : folders) {
      all.push_back({.name = each.filename().string(), .model = each, .weights = weights});
    }
  };
  add_folders(data / "quantized", {});
  add_folders(data / "tokenizers/files", data / "families/llama/hf");
  return all;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t count) { return count == 0 ? 0 : random_() % count; }

  // Of a JSON file one or two values become others, every second time.
  void mutate(const fs::path& path, std::string& bytes) {
    if (path.extension() == ".json" && below(2) == 0) {
      for (std::size_t left = 1 + below(2); left > 0; --left) change_value(bytes);
    } else {
      mutate_bytes(bytes);
    }
  }

 private:
  // Up to eight changes, half of them where headers are.
  void mutate_bytes(std::string& bytes) {
    for (std::size_t left = 1 + below(8); left > 0 && !bytes.empty(); --left) {
      const std::size_t end =
          below(2) == 0 ? std::min<std::size_t>(bytes.size(), 4096) : bytes.size();
      change(bytes, below(end));
    }
  }

  void change_value(std::string& text) {
    constexpr std::string_view kValues[] = {"null",       "true",     "-1",
                                            "0",          "1",        "3",
                                            "0.5",        "1e400",    "18446744073709551615",
                                            "\"\"",       "[]",       "[0]",
                                            "{}",         "\"x\"",    "1e-300",
                                            "2147483647", "[[[[]]]]", "65536"};
    const std::size_t colon = text.find(':', below(text.size()));
    if (colon == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_of(",}\n", colon), text.size());
    text.replace(colon + 1, end - colon - 1, kValues[below(std::size(kValues))]);
  }

  void change(std::string& bytes, std::size_t at) {
    constexpr std::uint64_t kNumbers[] = {
        0,          1,          0x7F,       0x80,       0xFF,       0xFFFF,           1 << 20,
        0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ULL << 40, 1ULL << 62, ~std::uint64_t{0}};
    const std::size_t rest = bytes.size() - at;
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        return;
      case 1:
        bytes[at] = static_cast<char>(random_());
        return;
      case 2: {
        const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
        const std::size_t width = std::min<std::size_t>(rest, std::size_t{1} << below(4));
        for (std::size_t i = 0; i < width; ++i)
          bytes[at + i] = static_cast<char>(number >> (8 * i));
        return;
      }
      case 3:  // a digit of a number in JSON, or a longer number
        for (std::size_t i = at; i < bytes.size() && i < at + 256; ++i) {
          if (bytes[i] < '0' || bytes[i] > '9') continue;
          if (below(2) == 0) {
            bytes[i] = static_cast<char>('0' + below(10));
          } else {
            bytes.insert(i, std::string(1 + below(18), '9'));
          }
          return;
        }
        return;
      case 4:
        bytes.erase(at, 1 + below(std::min<std::size_t>(rest, 64)));
        return;
      case 5:
        bytes.insert(at, bytes.substr(at, 1 + below(64)));
        return;
      case 6:
        bytes.replace(at, std::min<std::size_t>(rest, 16), bytes.substr(below(bytes.size()), 16));
        return;
      default:
        if (below(4) == 0) bytes.resize(at);
        return;
    }
  }

  std::mt19937_64 random_;
};

void exit_on_error(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "mutated_models: {}\n", status.to_string());
  std::exit(66);
}

std::string read(const fs::path& path) {
  auto bytes = read_file(path.string(), kMaxFileBytes);
  exit_on_error(bytes.ok() ? Status() : bytes.status());
  return *std::move(bytes);
}

// A kind's model in a folder of its own, in which one file after the other is replaced.
class Model {
 public:
  Model(const Kind& kind, fs::path folder) : folder_(std::move(folder)), path_(folder_) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const char* file : {"config.json", "model.safetensors"}) {
      if (!kind.weights.empty()) fs::copy_file(kind.weights / file, folder_ / file);
    }
    std::vector<fs::path> files;
    if (kind.write != nullptr) {
      exit_on_error(kind.write(kind.model, folder_));
      for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    } else if (fs::is_directory(kind.model)) {
      for (const auto& entry : fs::directory_iterator(kind.model)) {
        files.push_back(folder_ / entry.path().filename());
        fs::copy_file(entry.path(), files.back());
      }
    } else {
      path_ /= "model.gguf";
      fs::copy_file(kind.model, path_);
      files = {path_};
    }
    if (!kind.chat_template.empty()) {
      files.push_back(folder_ / "chat_template.jinja");
      fs::copy_file(kind.chat_template, files.back());
    }
    for (const fs::path& file : files) {
      const bool is_mutated = kind.file.empty() || kind.file == file.filename();
      if (is_mutated && file.extension() != ".bin") files_.push_back({file, read(file)});
    }
    std::ranges::sort(files_, {}, &File::path);
    for (const auto& entry : fs::directory_iterator(folder_)) {
      bytes_ += static_cast<std::int64_t>(entry.file_size());
    }
  }

  std::string path() const { return path_.string(); }
  std::int64_t bytes() const { return bytes_ + more_bytes_; }

  // Whether what has been changed can make a difference to the text, and to all else.
  bool changes_text() const {
    return last_ == nullptr || last_->path.extension() != ".safetensors";
  }
  bool changes_model() const {
    if (last_ == nullptr) return true;
    const fs::path name = last_->path.filename();
    return name.extension() == ".safetensors" || name.extension() == ".gguf" ||
           name == "config.json" || name == "generation_config.json" || name == "params.json" ||
           name == "model.safetensors.index.json";
  }

  void mutate(std::uint64_t seed) {
    Mutator mutator(seed);
    const File& file = files_[mutator.below(files_.size())];
    if (last_ != nullptr && last_ != &file) write(*last_, last_->bytes);
    last_ = &file;
    std::string bytes = file.bytes;
    mutator.mutate(file.path, bytes);
    write(file, bytes);
    more_bytes_ =
        static_cast<std::int64_t>(bytes.size()) - static_cast<std::int64_t>(file.bytes.size());
  }

 private:
  struct File {
    fs::path path;
    std::string bytes;
  };

  static void write(const File& file, const std::string& bytes) {
    std::ofstream(file.path, std::ios::binary) << bytes;
  }

  fs::path folder_;
  fs::path path_;
  std::vector<File> files_;
  const File* last_ = nullptr;
  std::int64_t bytes_ = 0;       // of all files as they were
  std::int64_t more_bytes_ = 0;  // that the changed one has now
};

bool is_error(const Status& status) {
  if (!status.ok() && status.message().empty()) std::abort();
  return !status.ok();
}

// Tokens of a text and back, and a chat by the template. Whether all of it could be made.
bool use_text(const std::string& path) {
  const auto text = open_text(path);
  if (is_error(text.status())) return false;
  const auto ids = text->tokenizer->encode("Hello  w\xC3\xB6rld 123\n");
  if (ids.ok()) (void)text->tokenizer->decode(*ids);
  if (!text->chat_template) return ids.ok();
  ChatTemplateInput chat;
  for (const char* role : {"system", "user", "assistant", "user"}) {
    chat.messages.push_back({{"role", role}, {"content", "Hello"}});
  }
  chat.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  chat.add_generation_prompt = true;
  return text->chat_template->render(chat).ok() && ids.ok();
}

// Everything is opened, matrices are read. Whether all of it could be.
bool use_model(const std::string& path, ThreadPool& pool) {
  const auto bundle = open_model(path, "");
  if (is_error(bundle.status())) return false;
  bool all = true;
  for (const TensorInfo& tensor : bundle->weights->tensors()) {
    if (tensor.data.empty()) all = bundle->weights->rows(tensor, pool).ok() && all;
  }
  return all;
}

// What a program does with a model before it computes, as far as the changed file matters to it.
bool use(const Model& model, ThreadPool& pool) {
  const bool has_text = !model.changes_text() || use_text(model.path());
  return (!model.changes_model() || use_model(model.path(), pool)) && has_text;
}

// What this process has had resident at most, beyond what it had when that was last measured anew.
class PeakMemory {
 public:
  PeakMemory() { start(); }

  // Since the last call, or a little longer: a small growth is not measured anew.
  std::int64_t bytes() {
    const std::int64_t more = peak() - begin_;
    if (more > kSmall) start();
    return more;
  }

 private:
  static constexpr std::int64_t kSmall = 1 << 20;

  static std::int64_t peak() {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return std::int64_t{usage.ru_maxrss} << 10;
  }
  void start() {
    std::ofstream("/proc/self/clear_refs") << "5";
    begin_ = peak();
  }

  std::int64_t begin_ = 0;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

fs::path folder_of(const Kind& kind) {
  return fs::temp_directory_path() / fmt::format("quire_mutated_{}_{}", getpid(), kind.name);
}

std::uint64_t seed_of(const Kind& kind, std::uint64_t number) {
  return std::hash<std::string>{}(kind.name) + number * 0x9E3779B97F4A7C15U;
}

// In a process of its own: the number of mutations that went beyond a limit.
int run_kind(const Kind& kind, std::uint64_t count, std::uint64_t* number) {
  const fs::path folder = folder_of(kind);
  Model model(kind, folder);
  ThreadPool pool(1);
  if (!use(model, pool)) {
    fmt::print(stderr, "{}: cannot be opened as it is\n", kind.name);
    return 1;
  }
  int failed = 0;
  std::uint64_t opened = 0;
  double slowest = 0;
  std::int64_t largest = 0;
  PeakMemory memory;
  for (*number = 0; *number < count; ++*number) {
    model.mutate(seed_of(kind, *number));
    const double start = cpu_seconds();
    if (use(model, pool)) ++opened;
    const double seconds = cpu_seconds() - start;
    const std::int64_t bytes = memory.bytes() - model.bytes();
    slowest = std::max(slowest, seconds);
    largest = std::max(largest, bytes);
    if (seconds <= kMaxSeconds && bytes <= kMaxBytes) continue;
    fmt::print("{} {}: {:.2f} s, {} bytes over its files\n", kind.name, *number, seconds, bytes);
    ++failed;
  }
  fmt::print("{:<24} {:>8} files, {:>7} opened, at most {:.3f} s, {:.1f} MiB over them\n",
             kind.name, count, opened, slowest, static_cast<double>(largest) / (1 << 20));
  std::fflush(stdout);
  fs::remove_all(folder);
  return failed;
}

bool run_apart(const Kind& kind, std::uint64_t count) {
  auto* const number = static_cast<std::uint64_t*>(mmap(
      nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) _exit(run_kind(kind, count, number) == 0 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  const bool ended = WIFEXITED(status);
  if (!ended) fmt::print("{} {}: ended by signal {}\n", kind.name, *number, WTERMSIG(status));
  munmap(number, sizeof(std::uint64_t));
  return ended && WEXITSTATUS(status) == 0;
}

int run_one(const Kind& kind, std::uint64_t number) {
  Model model(kind, folder_of(kind));
  model.mutate(seed_of(kind, number));
  fmt::print("{}\n", model.path());
  std::fflush(stdout);
  ThreadPool pool(1);
  use(model, pool);
  return 0;
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec == std::errc() && end.ptr == text.data() + text.size()) return number;
  fmt::print(stderr, "mutated_models: {} is no number\n", text);
  std::exit(64);
}

int run(const std::vector<std::string_view>& arguments) {
  if (arguments.empty()) {
    fmt::print(stderr, "mutated_models COUNT [KIND...] | --one KIND NUMBER\n");
    return 64;
  }
  const bool one = arguments.size() == 3 && arguments[0] == "--one";
  const std::vector<std::string_view> wanted(arguments.begin() + 1,
                                             one ? arguments.begin() + 2 : arguments.end());
  bool passed = true;
  std::size_t found = 0;
  for (const Kind& kind : kinds()) {
    if (!wanted.empty() && std::ranges::find(wanted, kind.name) == wanted.end()) continue;
    ++found;
    if (one) return run_one(kind, number_of(arguments[2]));
    passed = run_apart(kind, number_of(arguments[0])) && passed;
  }
  if (!wanted.empty() && found != wanted.size()) {
    fmt::print(stderr, "mutated_models: no such kind; there are");
    for (const Kind& kind : kinds()) fmt::print(stderr, " {}", kind.name);
    fmt::print(stderr, "\n");
    return 64;
  }
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace quire::test

int main(int argc, char** argv) { return quire::test::run({argv + 1, argv + argc}); }
