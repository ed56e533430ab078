// Files as clients keep, read and list them.
#include <sys/stat.h>

#include <gmock/gmock.h>

#include "serve/protocols/openai/batch/batch_fixture.h"
#include "serve/protocols/openai/batch/full_disk.h"
#include "serve/protocols/openai/batch/sqlite.h"

namespace quire {
namespace {

using test::input_lines;
using testing::HasSubstr;

class FilesRoutesTest : public test::BatchServiceTest {};

TEST_F(FilesRoutesTest, KeepsFiles) {
  open(answer_at_once);
  const std::string content(200'000, 'x');
  const json::object file =
      client().object_of(client().upload(content, "batch", "../../a%22b.jsonl"));
  EXPECT_EQ(file.at("object"), "file");
  EXPECT_EQ(file.at("filename"), "a\"b.jsonl");
  EXPECT_EQ(file.at("bytes"), 200'000);
  EXPECT_EQ(file.at("purpose"), "batch");
  EXPECT_EQ(file.at("status"), "processed");
  EXPECT_EQ(file.at("expires_at"), 1'700'000'000 + 30 * 24 * 3600);
  const std::string id(file.at("id").as_string());

  open(answer_at_once);  // again, as after a restart
  EXPECT_EQ(client().get("/v1/files/" + id), file);
  EXPECT_EQ(client().call("GET", "/v1/files/" + id + "/content").body, content);
  struct stat status {};
  ASSERT_EQ(stat(folder_.database().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);

  const json::object deleted = client().object_of(client().call("DELETE", "/v1/files/" + id));
  EXPECT_EQ(deleted.at("deleted"), true);
  EXPECT_EQ(client().call("GET", "/v1/files/" + id).status, 404);
  EXPECT_EQ(client().call("GET", "/v1/files/" + id + "/content").status, 404);
  EXPECT_EQ(client().call("DELETE", "/v1/files/" + id).status, 404);
}

TEST_F(FilesRoutesTest, GivesRangesOfFiles) {
  open(answer_at_once, {.max_download_bytes = 100'000});
  std::string content;
  for (int i = 0; i < 30'000; ++i) content += fmt::format("{:05}", i);
  const std::string path = "/v1/files/" + client().file(content) + "/content";
  const auto range = [&](std::string value) {
    return client().call("GET", path, {}, "", {}, {{"Range", std::move(value)}});
  };
  EXPECT_THAT(client().call("GET", path).body, HasSubstr("with the header Range"));
  EXPECT_EQ(range("bytes=65530-65549").body, content.substr(65530, 20));
  EXPECT_EQ(range("bytes=65530-65549").status, 206);
  EXPECT_EQ(range("bytes=131000-").body, content.substr(131000));
  EXPECT_EQ(range("bytes=0-99999").body, content.substr(0, 100'000));
  EXPECT_EQ(range("bytes=150000-").status, 416);
  EXPECT_EQ(range("bytes=5-2").status, 400);  // as without it: too large
}

TEST_F(FilesRoutesTest, RefusesUploads) {
  open(answer_at_once, {.max_file_bytes = 1000, .max_total_bytes = 1500, .max_files = 3});
  EXPECT_THAT(client().upload("x", "fine-tune").body, HasSubstr("'fine-tune' is not supported"));
  EXPECT_EQ(client().upload("x", "fine-tune").status, 400);
  EXPECT_EQ(client().upload(std::string(1001, 'x')).status, 413);
  client().file(std::string(1000, 'x'));
  EXPECT_EQ(client().upload(std::string(501, 'x')).status, 507);
  client().file(std::string(250, 'x'));
  client().file(std::string(250, 'x'));
  EXPECT_THAT(client().upload("").body, HasSubstr("there are 3 files"));
  EXPECT_EQ(client().call("POST", "/v1/files", "x", "multipart/form-data; boundary=B").status, 400);
  EXPECT_THAT(client()
                  .call("POST", "/v1/files",
                        "--B\r\nContent-Disposition: form-data; name=purpose\r\n\r\nbatch\r\n--B--",
                        "multipart/form-data; boundary=B")
                  .body,
              HasSubstr("file: the field is missing"));
}

TEST_F(FilesRoutesTest, KeepsNothingOfAnUploadThatTheDiskHasNoRoomFor) {
  open(answer_at_once, {.max_database_bytes = 400'000});
  const std::string kept = client().file(std::string(100'000, 'k'));
  const HttpResponse refused = client().upload(std::string(500'000, 'x'));
  EXPECT_EQ(refused.status, 507);
  EXPECT_THAT(refused.body, HasSubstr("full"));
  EXPECT_EQ(client().get("/v1/files").at("data").as_array().size(), 1U);
  EXPECT_EQ(client().call("GET", "/v1/files/" + kept + "/content").body, std::string(100'000, 'k'));
  client().file(std::string(100'000, 'x'));
}

TEST_F(FilesRoutesTest, NamesTheFieldThatIsWrong) {
  open(answer_at_once);
  const auto param = [](const HttpResponse& response) {
    EXPECT_GE(response.status, 400) << response.body;
    return test::BatchClient::object_of(response).at("error").as_object().at("param");
  };
  const auto get = [&](const char* path, std::vector<std::pair<std::string, std::string>> query) {
    return param(client().call("GET", path, {}, "", std::move(query)));
  };
  for (const char* path : {"/v1/files", "/v1/batches"}) {
    EXPECT_EQ(get(path, {{"limit", "0"}}), "limit") << path;
    EXPECT_EQ(get(path, {{"after", "none"}}), "after") << path;
  }
  EXPECT_EQ(get("/v1/files", {{"order", "up"}}), "order");
  EXPECT_EQ(param(client().call("POST", "/v1/files", "x", "multipart/form-data; boundary=B")),
            "file");
  EXPECT_EQ(param(client().upload("x", "fine-tune")), "purpose");
  const auto create = [&](const char* body) {
    return param(client().call("POST", "/v1/batches", body));
  };
  EXPECT_EQ(create("{}"), "input_file_id");
  EXPECT_EQ(create(R"({"input_file_id": "a"})"), "endpoint");
  EXPECT_EQ(create(R"({"input_file_id": "a", "endpoint": "/v1/completions"})"),
            "completion_window");
  EXPECT_EQ(create(R"({"input_file_id": "a", "endpoint": "/v1/completions",)"
                   R"("completion_window": "24h", "metadata": 5})"),
            "metadata");
  EXPECT_EQ(create(R"({"input_file_id": "a", "endpoint": "/v1/completions",)"
                   R"("completion_window": "24h"})"),
            "input_file_id");
}

// Nothing can be written any more, not even the log of a deletion.
TEST_F(FilesRoutesTest, DeletesOnAFullDisk) {
  const std::filesystem::path folder = folder_.database().parent_path();
  const test::FullDisk disk(folder);
  open(answer_at_once);
  service_->stop();
  std::vector<std::string> files;
  for (int i = 0; i < 5; ++i) {
    files.push_back(client().file(std::string(3'000'000, static_cast<char>('a' + i))));
  }
  // The log is emptied, so that it has to grow again.
  service_.reset();
  open(answer_at_once);
  service_->stop();
  test::FullDisk::set_capacity(test::FullDisk::used());
  EXPECT_EQ(client().upload("x").status, 507);
  for (const std::string& file : files) {
    const HttpResponse deleted = client().call("DELETE", "/v1/files/" + file);
    EXPECT_EQ(deleted.status, 200) << deleted.body;
    EXPECT_EQ(client().call("GET", "/v1/files/" + file).status, 404);
  }
  // The room of those in the database is there for others, which need some of their own for the
  // log, and so is the reserve for the next time.
  const std::uint64_t before = test::FullDisk::used();
  test::FullDisk::set_capacity(before + 3'000'000);
  const std::string next = client().file(std::string(2'500'000, 'x'));
  EXPECT_EQ(client().call("GET", "/v1/files/" + next + "/content").body.size(), 2'500'000U);
  test::FullDisk::set_capacity(test::FullDisk::used());
  EXPECT_EQ(client().call("DELETE", "/v1/files/" + next).status, 200);
}

TEST_F(FilesRoutesTest, AFileThatIsDeletedIsFreedAfterARestartToo) {
  open(answer_at_once);
  service_->stop();
  const std::string file = client().file(std::string(1'000'000, 'x'));
  service_.reset();
  {
    auto database = SqliteDatabase::open(folder_.database());
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->execute("UPDATE files SET published = -1, bytes = 0").ok());
  }
  open(answer_at_once);  // its worker frees what is left
  EXPECT_EQ(client().call("GET", "/v1/files/" + file).status, 404);
  const auto pieces = [this] {
    client_.reset();
    service_.reset();
    auto database = SqliteDatabase::open(folder_.database());
    return database->query_int("SELECT count(*) FROM file_pieces").value();
  };
  const std::string batch = client().batch(input_lines(1));
  client().wait_for(batch, "completed");
  EXPECT_EQ(pieces(), 2);  // the batch's input and its output
}

TEST_F(FilesRoutesTest, ListsInPages) {
  open(answer_at_once);
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(client().file(input_lines(1)));
  const auto list = [&](std::vector<std::pair<std::string, std::string>> query) {
    const json::object page = client().get("/v1/files", std::move(query));
    std::vector<std::string> found;
    for (const auto& file : page.at("data").as_array()) {
      found.emplace_back(file.as_object().at("id").as_string());
    }
    found.emplace_back(page.at("has_more").as_bool() ? "more" : "end");
    return found;
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(list({{"limit", "2"}}), (Ids{ids[4], ids[3], "more"}));
  EXPECT_EQ(list({{"limit", "2"}, {"after", ids[3]}}), (Ids{ids[2], ids[1], "more"}));
  EXPECT_EQ(list({{"limit", "2"}, {"after", ids[1]}}), (Ids{ids[0], "end"}));
  EXPECT_EQ(list({{"order", "asc"}, {"after", ids[3]}}), (Ids{ids[4], "end"}));
  EXPECT_EQ(list({{"purpose", "batch_output"}}), (Ids{"end"}));
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"limit", "0"}, {"limit", "1x"}, {"limit", "10001"}, {"order", "up"}, {"after", "?"}}) {
    EXPECT_EQ(client().call("GET", "/v1/files", {}, "", {{name, value}}).status, 400) << name;
  }
  Ids batches;
  for (const std::string& id : ids) batches.push_back(client().id_of(client().create(id)));
  const json::object page = client().get("/v1/batches", {{"limit", "2"}, {"after", batches[4]}});
  EXPECT_EQ(page.at("first_id").as_string(), batches[3]);
  EXPECT_EQ(page.at("last_id").as_string(), batches[2]);
  EXPECT_TRUE(page.at("has_more").as_bool());
  EXPECT_EQ(client().call("GET", "/v1/batches", {}, "", {{"limit", "101"}}).status, 400);
}

}  // namespace
}  // namespace quire
