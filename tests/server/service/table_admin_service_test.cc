// LoadTable, UnloadTable and SetServingVersion over files in a folder, called without a transport.
#include "server/service/table_admin_service.h"

#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/table/table_memory.h"
#include "tests/server/service/service_testing.h"
#include "tests/testing/table_files.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// num_rows rows of width dim, every element `value`.
std::vector<float> Filled(int64_t num_rows, int64_t dim, float value) {
  return std::vector<float>(static_cast<size_t>(num_rows * dim), value);
}

// A server's parts over a folder: root/ is what callers may load from; beside it, outside.npy is the table "words".
class TableAdminTest : public ::testing::Test {
 protected:
  TableAdminTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "table-admin-XXXXXX").string();
    folder_ = mkdtemp(pattern.data()) == nullptr ? "" : pattern;
    std::filesystem::create_directories(folder_ + "/root");
    Write("outside.npy", 4, 3, 1);
    Build(2);
  }
  ~TableAdminTest() override {
    SetTableMemoryLimit(0);
    manager_.reset();
    std::filesystem::remove_all(folder_);
  }

  // A manager that serves "words" from outside.npy.
  void Build(int keep_versions, const std::string& table = "words=FOLDER/outside.npy") {
    manager_.reset();
    services_ = std::make_unique<Services>(std::vector<std::string>{"words"}, RequestLimits(), keep_versions);
    TableManager::Settings settings;
    settings.registry = &services_->registry;
    settings.metrics = &services_->metrics;
    settings.table_root = folder_ + "/root";
    settings.threads = 2;
    settings.progress = [this](const std::string&) -> LoadProgress::Report {
      if (hook_) hook_();
      return nullptr;
    };
    settings.health = [this](const std::string& name, bool serving) { health_ += (serving ? "+" : "-") + name; };
    manager_ = std::make_unique<TableManager>(settings);
    std::string text = table;
    text.replace(text.find("FOLDER"), 6, folder_);
    const absl::Status status = manager_->LoadFirst(*ParseTableOptions(text), services_->pool);
    ASSERT_EQ(status, absl::OkStatus());
    manager_->Open();
    for (RpcMethod& method : TableAdminServiceMethods(services_->Context(), manager_.get())) {
      services_->methods.emplace(method.path.substr(method.path.rfind('/') + 1), method);
    }
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, int64_t num_rows, int64_t dim, float value) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::filesystem::remove(Path(name));
    WriteNpy(Path(name), Filled(num_rows, dim, value), dim, FileDtype::kF32);
  }

  absl::Status Load(const std::string& name, const std::string& path,
                    const std::map<std::string, std::string>& options = {}) {
    return services_->Call("LoadTable", RequestOf(name, path, options), &loaded_);
  }
  static v1::LoadTableRequest RequestOf(const std::string& name, const std::string& path,
                                        const std::map<std::string, std::string>& options = {}) {
    v1::LoadTableRequest request;
    request.set_name(name);
    request.set_path(path);
    request.mutable_options()->insert(options.begin(), options.end());
    return request;
  }
  absl::Status SetServing(const std::string& name, uint64_t version) {
    v1::SetServingVersionRequest request;
    request.set_name(name);
    request.set_version(version);
    v1::SetServingVersionResponse response;
    return services_->Call("SetServingVersion", request, &response);
  }
  absl::Status Unload(const std::string& name, uint64_t version) {
    v1::UnloadTableRequest request;
    request.set_name(name);
    request.set_version(version);
    return services_->Call("UnloadTable", request, &unloaded_);
  }

  // "3: 2 available, 3 available": the serving version of a table, and all.
  std::string Versions(const std::string& name = "words") {
    v1::GetTableRequest request;
    v1::GetTableResponse response;
    request.mutable_table()->set_name(name);
    if (absl::Status s = services_->Call("GetTable", request, &response); !s.ok()) return DetailsOf(s).reason;
    std::string text = std::to_string(response.table().serving_version()) + ":";
    for (const v1::TableVersion& known : response.table().versions()) {
      text += " " + std::to_string(known.version()) + " " + v1::TableState_Name(known.state()).substr(12);
    }
    return text;
  }
  // The first element of row 0 of a version.
  float Value(uint64_t version = 0, const std::string& name = "words") {
    v1::LookupRequest request;
    v1::LookupResponse response;
    request.mutable_table()->set_name(name);
    request.mutable_table()->set_version(version);
    request.mutable_rows()->mutable_ids()->add_values(0);
    const absl::Status status = services_->Lookup(request, &response);
    EXPECT_EQ(status, absl::OkStatus());
    return status.ok() ? FloatsOf(response.embeddings())[0] : -1;
  }
  double Metric(const std::string& name, const std::map<std::string, std::string>& labels) {
    return MetricValue(services_->metrics, name, labels);
  }

  std::string folder_;
  std::function<void()> hook_;  // runs on the loader's thread before a load
  std::string health_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<TableManager> manager_;
  v1::LoadTableResponse loaded_;
  v1::UnloadTableResponse unloaded_;
};

TEST_F(TableAdminTest, AReloadServesTheNewVersionBeforeItIsAcknowledged) {
  EXPECT_EQ(Value(), 1);
  Write("root/new.npy", 4, 3, 2);
  ASSERT_EQ(Load("words", "new.npy"), absl::OkStatus());
  EXPECT_EQ(Value(), 2);
  EXPECT_EQ(loaded_.table().name(), "words");
  EXPECT_EQ(loaded_.table().serving_version(), 2u);
  EXPECT_EQ(loaded_.table().format(), "npy");
  EXPECT_EQ(Versions(), "2: 1 AVAILABLE 2 AVAILABLE");
  EXPECT_EQ(Metric("embedding_table_info", {{"table", "words"}, {"version", "2"}}), 1);
  EXPECT_EQ(Metric("embedding_table_reloads_total", {{"table", "words"}, {"result", "ok"}}), 1);
  EXPECT_EQ(Metric("embedding_table_reloads_total", {{"result", "failed"}}), 0);
}

TEST_F(TableAdminTest, APinnedVersionAnswersWhileItIsInMemory) {
  for (const float value : {2, 3}) {
    Write("root/new.npy", 4, 3, value);
    ASSERT_EQ(Load("words", "new.npy"), absl::OkStatus());
  }
  EXPECT_EQ(Value(2), 2);
  EXPECT_EQ(Value(3), 3);
  v1::LookupRequest request;
  v1::LookupResponse response;
  request.mutable_table()->set_version(1);
  request.mutable_rows()->mutable_ids();
  EXPECT_THAT(
      services_->Lookup(request, &response),
      IsError(StatusCode::kNotFound, "VERSION_NOT_FOUND", "table \"words\" serves version 3, not 1; in memory: 2, 3"));
}

TEST_F(TableAdminTest, AnEmptyPathIsTheTablesOwnWithItsOwnOptions) {
  Build(2, "words=FOLDER/outside.npy,metric=dot");
  Write("outside.npy", 4, 3, 5);
  ASSERT_EQ(Load("words", ""), absl::OkStatus());
  EXPECT_EQ(Value(), 5);
  EXPECT_EQ(loaded_.table().metric(), v1::METRIC_DOT);
  ASSERT_EQ(Load("words", "", {{"metric", "euclidean"}}), absl::OkStatus());
  EXPECT_EQ(loaded_.table().metric(), v1::METRIC_EUCLIDEAN);
}

TEST_F(TableAdminTest, CodesOfTheRowsAreAnOption) {
  Write("root/new.npy", 40, 3, 2);
  ASSERT_EQ(Load("words", "new.npy"), absl::OkStatus());
  EXPECT_EQ(loaded_.table().code_bytes(), 120);  // F32: a byte an element
  ASSERT_EQ(Load("words", "new.npy", {{"codes", "off"}}), absl::OkStatus());
  EXPECT_EQ(loaded_.table().code_bytes(), 0);
  WriteNpy(Path("root/half.npy"), Filled(40, 3, 2), 3, FileDtype::kF16);
  ASSERT_EQ(Load("words", "half.npy"), absl::OkStatus());
  EXPECT_EQ(loaded_.table().code_bytes(), 0);
  ASSERT_EQ(Load("words", "half.npy", {{"codes", "on"}}), absl::OkStatus());
  EXPECT_EQ(loaded_.table().code_bytes(), 120);
}

TEST_F(TableAdminTest, TheBytesOfAnIndexAreAMetric) {
  Write("root/new.npy", 40, 3, 2);
  ASSERT_EQ(Load("new", "new.npy", {{"index", "hnsw"}}), absl::OkStatus());
  EXPECT_GT(loaded_.table().hnsw().bytes(), 0);
  EXPECT_EQ(Metric("embedding_table_index_size_bytes", {{"table", "new"}}), loaded_.table().hnsw().bytes());
  EXPECT_EQ(Metric("embedding_table_index_size_bytes", {{"table", "words"}}), 0);
}

TEST_F(TableAdminTest, WithoutMemoryForCodesATableIsServedUnlessTheyWereAskedFor) {
  Write("root/new.npy", 1000, 30, 2);
  SetTableMemoryLimit(TableMemoryUsed() + 130000);
  ASSERT_EQ(Load("new", "new.npy"), absl::OkStatus());
  EXPECT_EQ(loaded_.table().code_bytes(), 0);
  SetTableMemoryLimit(TableMemoryUsed() + 130000);
  const absl::Status refused = Load("newer", "new.npy", {{"codes", "on"}});
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(refused).reason, "OVER_BUDGET");
}

TEST_F(TableAdminTest, WithAPathOnlyTheGivenOptionsHold) {
  Build(2, "words=FOLDER/outside.npy,metric=dot");
  Write("root/new.npy", 4, 3, 2);
  ASSERT_EQ(Load("words", "new.npy"), absl::OkStatus());
  EXPECT_EQ(loaded_.table().metric(), v1::METRIC_COSINE);
  // From now on this is its own path.
  Write("root/new.npy", 4, 3, 3);
  ASSERT_EQ(Load("words", ""), absl::OkStatus());
  EXPECT_EQ(Value(), 3);
}

TEST_F(TableAdminTest, AnIdenticalFileIsTheNextVersionWithTheSameFingerprint) {
  ASSERT_EQ(Load("words", ""), absl::OkStatus());
  const std::string first = loaded_.table().fingerprint();
  ASSERT_EQ(Load("words", ""), absl::OkStatus());
  EXPECT_EQ(loaded_.table().serving_version(), 3u);
  EXPECT_EQ(loaded_.table().fingerprint(), first);
}

TEST_F(TableAdminTest, FewerRowsAreServed) {
  Write("root/short.npy", 2, 3, 2);
  ASSERT_EQ(Load("words", "short.npy"), absl::OkStatus());
  v1::LookupRequest request;
  v1::LookupResponse response;
  request.mutable_rows()->mutable_ids()->add_values(3);
  EXPECT_THAT(services_->Lookup(request, &response),
              IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE", "ids[0] is 3, table \"words\" has 2 rows"));
}

TEST_F(TableAdminTest, AnotherWidthIsRefusedUnlessAllowed) {
  Write("root/wide.npy", 5, 7, 2);
  EXPECT_THAT(Load("words", "wide.npy"),
              IsError(StatusCode::kFailedPrecondition, "DIM_CHANGED",
                      "table \"words\" is 4 x 3, the new one 5 x 7: another width breaks callers; "
                      "allow-dim-change=true permits it"));
  EXPECT_EQ(Value(), 1);
  EXPECT_EQ(Load("words", "wide.npy", {{"allow-dim-change", "true"}}), absl::OkStatus());
  EXPECT_EQ(loaded_.table().dim(), 7);
}

TEST_F(TableAdminTest, ARefusedFileLeavesTheOldVersionServing) {
  WriteFile(Path("root/bad.npy"), "\x93NUMPY");
  const absl::Status status = Load("words", "./bad.npy");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(status).reason, "BAD_FILE");
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("./bad.npy: "));
  EXPECT_EQ(Value(), 1);
  EXPECT_EQ(Versions(), "1: 1 AVAILABLE 2 FAILED");
  EXPECT_EQ(Metric("embedding_table_reloads_total", {{"table", "words"}, {"result", "failed"}}), 1);
  EXPECT_EQ(Metric("embedding_table_last_reload_successful", {{"table", "words"}}), 0);
  // The next that goes well clears it, with the number that the refused one did not use.
  ASSERT_EQ(Load("words", ""), absl::OkStatus());
  EXPECT_EQ(Versions(), "2: 1 AVAILABLE 2 AVAILABLE");
  EXPECT_EQ(Metric("embedding_table_last_reload_successful", {{"table", "words"}}), 1);
}

TEST_F(TableAdminTest, MessagesDoNotTellWhereTheFoldersAre) {
  std::filesystem::create_directories(Path("root/models/3"));
  WriteFile(Path("root/models/3/t.npy"), "\x93NUMPY");
  WriteFile(Path("root/short.npy"), "");
  Write("root/keyed.npy", 4, 3, 1);
  WriteFile(Path("root/keys.txt"), "a\nb\n");
  const std::vector<std::pair<absl::Status, std::string>> cases = {
      {Load("words", "short.npy"), "short.npy: "},
      {Load("words", "none.npy"), "none.npy: No such file or directory"},
      {Load("words", "models"), "models/3/t.npy: "},
      {Load("words", "keyed.npy", {{"vocab", "keys.txt"}}), "keys.txt: "},
  };
  for (const auto& [status, start] : cases) {
    EXPECT_EQ(DetailsOf(status).reason, "BAD_FILE") << status;
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(start));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(folder_)));
  }
  std::filesystem::remove(Path("outside.npy"));
  EXPECT_THAT(Load("words", ""), IsError(StatusCode::kFailedPrecondition, "BAD_FILE",
                                         "outside.npy: cannot be opened: No such file or directory"));
}

struct RefusedCase {
  const char* name;
  std::string table;
  std::string path;
  std::map<std::string, std::string> options;
  StatusCode code;
  const char* reason;
  const char* field;
  std::string message;
};

class RefusedLoadTest : public TableAdminTest, public ::testing::WithParamInterface<RefusedCase> {};

TEST_P(RefusedLoadTest, ChangesNothing) {
  Write("root/t.npy", 4, 3, 2);
  std::filesystem::create_symlink(folder_, Path("root/up"));
  std::filesystem::create_symlink(Path("outside.npy"), Path("root/keys.txt"));
  std::filesystem::create_symlink(Path("none.npy"), Path("root/dangling.txt"));
  const absl::Status status = Load(GetParam().table, GetParam().path, GetParam().options);
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_EQ(DetailsOf(status).reason, GetParam().reason);
  EXPECT_EQ(FieldOf(status), GetParam().field);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr(folder_)));
  EXPECT_LE(status.message().size(), 512u);
  EXPECT_EQ(Value(), 1);
}

constexpr char kWithin[] = "must be a file name within the table folder";

INSTANTIATE_TEST_SUITE_P(
    Cases, RefusedLoadTest,
    ::testing::Values(
        RefusedCase{
            "Up", "words", "../outside.npy", {}, StatusCode::kInvalidArgument, "INVALID_FIELD", "path", kWithin},
        RefusedCase{
            "Absolute", "words", "/etc/passwd", {}, StatusCode::kInvalidArgument, "INVALID_FIELD", "path", kWithin},
        RefusedCase{"Dot", "words", "./.", {}, StatusCode::kInvalidArgument, "INVALID_FIELD", "path", kWithin},
        RefusedCase{
            "Nul", "words", std::string("a\0b", 3), {}, StatusCode::kInvalidArgument, "INVALID_FIELD", "path", kWithin},
        RefusedCase{"Newline", "words", "a\nb", {}, StatusCode::kInvalidArgument, "INVALID_FIELD", "path", kWithin},
        RefusedCase{"AMiB",
                    "words",
                    std::string(1 << 20, 'x'),
                    {},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "path",
                    "1048576 bytes, at most 4096"},
        RefusedCase{"LinkThatLeadsOut",
                    "words",
                    "up/outside.npy",
                    {},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "path",
                    kWithin},
        RefusedCase{"LinkThatLeadsOutToNothing",
                    "words",
                    "up/none.npy",
                    {},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "path",
                    kWithin},
        RefusedCase{"VocabularyThatLeadsOutToNothing",
                    "words",
                    "t.npy",
                    {{"vocab", "dangling.txt"}},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "path",
                    kWithin},
        RefusedCase{"VocabularyUpALinkToNothing",
                    "words",
                    "t.npy",
                    {{"vocab", "up/none.txt"}},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "path",
                    kWithin},
        RefusedCase{"VocabularyUp",
                    "words",
                    "t.npy",
                    {{"vocab", "../outside.npy"}},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "options.vocab",
                    kWithin},
        RefusedCase{"VocabularyAbsolute",
                    "words",
                    "t.npy",
                    {{"vocab", "/etc/passwd"}},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "options.vocab",
                    kWithin},
        RefusedCase{"VocabularyThroughALink",
                    "words",
                    "t.npy",
                    {{"vocab", "keys.txt"}},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "path",
                    kWithin},
        RefusedCase{"VocabularyOfTheOwnPathUp",
                    "words",
                    "",
                    {{"vocab", "../x"}},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "options.vocab",
                    kWithin},
        RefusedCase{"EmptyTableName",
                    "",
                    "t.npy",
                    {},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "name",
                    "name is \"\", must be [A-Za-z0-9_.-]{1,64}"},
        RefusedCase{"BadTableName",
                    "a/b",
                    "t.npy",
                    {},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "name",
                    "must be [A-Za-z0-9_.-]{1,64}"},
        RefusedCase{"UnknownOption",
                    "words",
                    "t.npy",
                    {{"metrik", "dot"}},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "options",
                    "did you mean metric?"},
        RefusedCase{"OptionThatDoesNotFitTheFile",
                    "words",
                    "t.npy",
                    {{"tensor", "x"}},
                    StatusCode::kInvalidArgument,
                    "INVALID_FIELD",
                    "options",
                    "t.npy: tensor= is for format=safetensors"},
        RefusedCase{"NoPathAndNoTable",
                    "other",
                    "",
                    {},
                    StatusCode::kNotFound,
                    "TABLE_NOT_FOUND",
                    "",
                    "table \"other\" does not exist: give the path to load it from"}),
    [](const auto& test) { return test.param.name; });

TEST_F(TableAdminTest, NewTablesAppearAndUnloadedOnesAreGone) {
  Write("root/items.npy", 2, 5, 7);
  ASSERT_EQ(Load("items", "items.npy"), absl::OkStatus());
  EXPECT_EQ(Value(0, "items"), 7);
  EXPECT_EQ(Metric("embedding_table_rows", {{"table", "items"}}), 2);
  v1::ListTablesResponse list;
  ASSERT_EQ(services_->Call("ListTables", v1::ListTablesRequest(), &list), absl::OkStatus());
  EXPECT_EQ(list.tables_size(), 2);
  EXPECT_EQ(health_, "+words+items");

  ASSERT_EQ(Unload("items", 0), absl::OkStatus());
  EXPECT_EQ(unloaded_.table().rows(), 2);
  EXPECT_THAT(unloaded_.table().versions(), IsEmpty());
  EXPECT_EQ(Versions("items"), "TABLE_NOT_FOUND");
  EXPECT_EQ(Metric("embedding_table_rows", {{"table", "items"}}), 0);
  EXPECT_EQ(health_, "+words+items-items");
  ASSERT_EQ(services_->Call("ListTables", v1::ListTablesRequest(), &list), absl::OkStatus());
  EXPECT_EQ(list.tables_size(), 1);
  EXPECT_THAT(Unload("items", 0),
              IsError(StatusCode::kNotFound, "TABLE_NOT_FOUND", "table \"items\" does not exist; tables: \"words\""));
  // A stamp of before shall not name other rows.
  ASSERT_EQ(Load("items", "items.npy"), absl::OkStatus());
  EXPECT_EQ(loaded_.table().serving_version(), 2u);
}

TEST_F(TableAdminTest, AVersionThatDoesNotServeCanBeUnloaded) {
  ASSERT_EQ(Load("words", ""), absl::OkStatus());
  EXPECT_EQ(DetailsOf(Unload("words", 2)).reason, "VERSION_SERVING");
  ASSERT_EQ(Unload("words", 1), absl::OkStatus());
  EXPECT_EQ(unloaded_.table().serving_version(), 2u);
  EXPECT_EQ(Versions(), "2: 2 AVAILABLE");
  EXPECT_EQ(DetailsOf(Unload("words", 1)).reason, "VERSION_NOT_FOUND");
}

TEST_F(TableAdminTest, RollBackServesAVersionInMemoryAtOnce) {
  Write("root/new.npy", 4, 3, 2);
  ASSERT_EQ(Load("words", "new.npy"), absl::OkStatus());
  ASSERT_EQ(SetServing("words", 1), absl::OkStatus());
  EXPECT_EQ(Value(), 1);
  EXPECT_EQ(Metric("embedding_table_info", {{"table", "words"}, {"version", "1"}}), 1);
  ASSERT_EQ(SetServing("words", 2), absl::OkStatus());
  EXPECT_EQ(Value(), 2);
  EXPECT_THAT(SetServing("words", 3), IsError(StatusCode::kNotFound, "VERSION_NOT_FOUND",
                                              "table \"words\" serves version 2, not 3; in memory: 1, 2"));
  EXPECT_THAT(SetServing("words", 0),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "version is 0, must name a version in memory"));
  EXPECT_EQ(DetailsOf(SetServing("other", 1)).reason, "TABLE_NOT_FOUND");
  EXPECT_EQ(FieldOf(SetServing("", 1)), "name");
}

TEST_F(TableAdminTest, ASecondLoadOfATableIsRefusedWhileOneRuns) {
  Mutex mutex;
  CondVar changed;
  bool entered = false, released = false;
  hook_ = [&] {
    MutexLock lock(&mutex);
    entered = true;
    changed.SignalAll();
    while (!released) changed.Wait(&mutex);
  };
  const auto first = services_->Start("LoadTable", BodyOf(RequestOf("words", "").SerializeAsString()));
  {
    MutexLock lock(&mutex);
    while (!entered) changed.Wait(&mutex);
  }
  EXPECT_EQ(Versions(), "1: 1 AVAILABLE 2 LOADING");
  for (int i = 0; i < 9; ++i) {
    EXPECT_THAT(Load("words", ""), IsError(StatusCode::kFailedPrecondition, "RELOAD_IN_PROGRESS",
                                           "a reload of table \"words\" is in progress"));
  }
  EXPECT_EQ(DetailsOf(Unload("words", 0)).reason, "RELOAD_IN_PROGRESS");
  EXPECT_EQ(SetServing("words", 1), absl::OkStatus());
  // Another table waits for its turn.
  Write("root/items.npy", 2, 5, 7);
  const auto other = services_->Start("LoadTable", BodyOf(RequestOf("items", "items.npy").SerializeAsString()));
  const auto given_up = std::make_shared<FakeCall>(BodyOf(RequestOf("late", "items.npy").SerializeAsString()));
  given_up->StopAfterPolls(1);
  services_->methods.at("LoadTable").handle(given_up);
  EXPECT_FALSE(other->ended());
  {
    MutexLock lock(&mutex);
    released = true;
    changed.SignalAll();
  }
  EXPECT_EQ(first->status(), absl::OkStatus());
  EXPECT_EQ(other->status(), absl::OkStatus());
  EXPECT_EQ(given_up->status().code(), StatusCode::kCancelled);
  EXPECT_EQ(Versions("late"), "TABLE_NOT_FOUND");
  EXPECT_EQ(Versions(), "2: 1 AVAILABLE 2 AVAILABLE");
}

TEST_F(TableAdminTest, NothingIsLoadedOnceTheServerEnds) {
  manager_->Stop();
  EXPECT_THAT(Load("words", ""), IsError(StatusCode::kUnavailable, "SHUTTING_DOWN", "server is shutting down"));
}

TEST_F(TableAdminTest, ALoadThatRunsEndsWithTheServer) {
  hook_ = [this] { manager_->Stop(); };
  EXPECT_THAT(Load("words", ""), IsError(StatusCode::kUnavailable, "SHUTTING_DOWN", "server is shutting down"));
  EXPECT_EQ(Versions(), "1: 1 AVAILABLE");
}

TEST_F(TableAdminTest, MalformedBodiesAreRefused) {
  for (const char* method : {"LoadTable", "UnloadTable", "SetServingVersion"}) {
    EXPECT_EQ(DetailsOf(services_->CallBytes(method, "\x07", &loaded_)).reason, "MALFORMED") << method;
  }
}

// Folders of versions.

TEST_F(TableAdminTest, TheHighestVersionOfAFolderIsServed) {
  Write("root/models/1/t.npy", 4, 3, 11);
  Write("root/models/10/t.npy", 4, 3, 20);
  Write("root/models/9/t.npy", 4, 3, 19);
  ASSERT_EQ(Load("models", "models"), absl::OkStatus());
  EXPECT_EQ(loaded_.table().serving_version(), 10u);
  EXPECT_EQ(Value(0, "models"), 20);
  Write("root/models/.12/t.npy", 4, 3, 22);  // not whole yet
  std::filesystem::rename(Path("root/models/.12"), Path("root/models/12"));
  ASSERT_EQ(Load("models", ""), absl::OkStatus());
  EXPECT_EQ(Versions("models"), "12: 10 AVAILABLE 12 AVAILABLE");
  ASSERT_EQ(SetServing("models", 10), absl::OkStatus());
  EXPECT_EQ(Value(0, "models"), 20);
  // On the disk, but not in memory.
  EXPECT_EQ(DetailsOf(SetServing("models", 9)).reason, "VERSION_NOT_FOUND");
  // A reload goes by the folder again.
  ASSERT_EQ(Load("models", ""), absl::OkStatus());
  EXPECT_EQ(Versions("models"), "12: 10 AVAILABLE 12 AVAILABLE");
}

// As if they were not there, wherever they lead.
TEST_F(TableAdminTest, LinksThatLeadOutOfTheRootAreNoPartOfAFolder) {
  Write("root/models/3/t.npy", 4, 3, 13);
  Write("elsewhere/t.npy", 4, 3, 99);
  Write("elsewhere/u.npy", 4, 3, 99);
  std::filesystem::create_symlink(Path("elsewhere"), Path("root/models/5"));
  std::filesystem::create_symlink(Path("nowhere"), Path("root/models/4"));
  std::filesystem::create_symlink(Path("outside.npy"), Path("root/models/3/more.npy"));
  std::filesystem::create_symlink(Path("outside.npy"), Path("root/models/3/vocab.txt"));
  ASSERT_EQ(Load("models", "models"), absl::OkStatus());
  EXPECT_EQ(loaded_.table().serving_version(), 3u);
  EXPECT_EQ(Value(0, "models"), 13);
  // One that stays inside is followed.
  std::filesystem::create_directory_symlink(Path("root/models/3"), Path("root/models/6"));
  ASSERT_EQ(Load("models", ""), absl::OkStatus());
  EXPECT_EQ(loaded_.table().serving_version(), 6u);
}

TEST_F(TableAdminTest, AVersionsFolderBringsItsVocabulary) {
  Write("root/models/1/t.npy", 2, 3, 11);
  WriteFile(Path("root/models/1/vocab.txt"), "a\nb\n");
  ASSERT_EQ(Load("models", "models"), absl::OkStatus());
  EXPECT_TRUE(loaded_.table().has_keys());
}

TEST_F(TableAdminTest, AVersionWithOtherBytesIsRefused) {
  Write("root/models/7/t.npy", 4, 3, 1);
  ASSERT_EQ(Load("models", "models"), absl::OkStatus());
  ASSERT_EQ(Load("models", ""), absl::OkStatus());  // the same bytes
  EXPECT_EQ(Versions("models"), "7: 7 AVAILABLE");
  Write("root/models/7/t.npy", 4, 3, 2);
  const absl::Status status = Load("models", "");
  EXPECT_EQ(DetailsOf(status).reason, "BAD_FILE");
  EXPECT_THAT(std::string(status.message()), HasSubstr("models/7/t.npy: version 7 was loaded before with other rows"));
  EXPECT_EQ(Value(0, "models"), 1);
  EXPECT_EQ(Versions("models"), "7: 7 AVAILABLE 7 FAILED");
}

TEST_F(TableAdminTest, ATableOfTheServersOwnMayBeAFolder) {
  Write("own/3/t.npy", 4, 3, 3);
  Build(2, "words=FOLDER/own");
  EXPECT_EQ(Versions(), "3: 3 AVAILABLE");
  Write("own/4/t.npy", 4, 3, 4);
  manager_->ReloadAll();
  Write("root/last.npy", 1, 1, 1);
  ASSERT_EQ(Load("last", "last.npy"), absl::OkStatus());  // waits for its turn
  EXPECT_EQ(Value(), 4);
}

// Memory.

TEST_F(TableAdminTest, ALoadOverTheBudgetIsRefusedWithItsNumbers) {
  Write("root/large.npy", 10000, 3, 2);  // 120,000 bytes
  SetTableMemoryLimit(TableMemoryUsed() + 119999);
  const absl::Status status = Load("words", "large.npy");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, "OVER_BUDGET");
  EXPECT_THAT(std::string(status.message()), HasSubstr("large.npy: needs 120000 bytes of memory beside the "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("raise --max-table-bytes"));
  EXPECT_EQ(details.metadata[1], std::make_pair(std::string("needed_bytes"), std::string("120000")));
  EXPECT_EQ(Value(), 1);
  SetTableMemoryLimit(TableMemoryUsed() + 120000);
  EXPECT_EQ(Load("words", "large.npy"), absl::OkStatus());
}

TEST_F(TableAdminTest, VersionsThatDoNotServeMakeRoomForANewOne) {
  Write("root/large.npy", 10000, 3, 2);
  ASSERT_EQ(Load("words", "large.npy"), absl::OkStatus());
  Write("root/larger.npy", 10000, 3, 3);
  ASSERT_EQ(Load("words", "larger.npy"), absl::OkStatus());
  EXPECT_EQ(Versions(), "3: 2 AVAILABLE 3 AVAILABLE");
  // Room for two of them, not for three.
  SetTableMemoryLimit(TableMemoryUsed() + 1000);
  Write("root/largest.npy", 10000, 3, 4);
  ASSERT_EQ(Load("words", "largest.npy"), absl::OkStatus());
  EXPECT_EQ(Versions(), "4: 3 AVAILABLE 4 AVAILABLE");
  // Where that would not suffice, nothing is dropped.
  Write("root/huge.npy", 100000, 3, 5);
  EXPECT_EQ(DetailsOf(Load("words", "huge.npy")).reason, "OVER_BUDGET");
  EXPECT_EQ(Versions(), "4: 3 AVAILABLE 4 AVAILABLE 5 FAILED");
}

TEST_F(TableAdminTest, ADrainingVersionCountsUntilItsLastCallEnds) {
  Build(1);
  Write("root/large.npy", 10000, 3, 2);
  ASSERT_EQ(Load("words", "large.npy"), absl::OkStatus());
  SnapshotPtr call = *services_->registry.Acquire("words", 0);
  Write("root/larger.npy", 10000, 3, 3);
  ASSERT_EQ(Load("words", "larger.npy"), absl::OkStatus());
  EXPECT_EQ(Versions(), "3: 2 DRAINING 3 AVAILABLE");
  const int64_t with_both = TableMemoryUsed();
  SetTableMemoryLimit(with_both + 1000);
  // The load's second try finds the room that the call gave back.
  hook_ = [&, tries = 0]() mutable {
    if (++tries == 1) call.reset();
  };
  EXPECT_EQ(Load("words", "larger.npy"), absl::OkStatus());
  EXPECT_EQ(Versions(), "4: 4 AVAILABLE");
  EXPECT_LE(TableMemoryUsed(), with_both);
}

}  // namespace
}  // namespace embedding::testing
