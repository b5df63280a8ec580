#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SettingsTableTest, DefaultsAreWithinTheirOwnRanges) {
  const ServerOptions defaults;
  std::set<std::string> flags;
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(flags.insert(setting.flag).second) << setting.flag;
    if (setting.kind == ValueKind::kStringList) continue;
    ServerOptions options;
    const absl::Status status = setting.set(setting.show(defaults), options);
    EXPECT_TRUE(status.ok()) << setting.flag << ": " << status;
    EXPECT_EQ(setting.show(options), setting.show(defaults)) << setting.flag;
  }
  EXPECT_TRUE(CheckTogether(defaults).ok());
}

// A setting whose `set` writes to another's place would show here.
TEST(SettingsTableTest, EachSettingChangesItselfAlone) {
  const std::map<std::string, std::string> other = {{"max-rows", "5"},
                                                    {"max-dim", "6"},
                                                    {"table-root", "/"},
                                                    {"keep-versions", "4"},
                                                    {"max-table-bytes", "20KiB"},
                                                    {"grpc-address", "[::1]:0"},
                                                    {"admin-address", "localhost:1"},
                                                    {"max-ids", "7"},
                                                    {"max-queries", "8"},
                                                    {"max-k", "9"},
                                                    {"max-pairs", "11"},
                                                    {"max-filter-ids", "10"},
                                                    {"max-request-bytes", "12KiB"},
                                                    {"max-response-bytes", "13KiB"},
                                                    {"max-deadline", "14s"},
                                                    {"threads", "15"},
                                                    {"polling-threads", "20"},
                                                    {"max-in-flight-bytes", "16KiB"},
                                                    {"max-queued-searches", "17"},
                                                    {"drain-delay", "18s"},
                                                    {"drain-timeout", "19s"},
                                                    {"log-format", "json"},
                                                    {"log-level", "error"},
                                                    {"reflection", "false"}};
  for (const Setting& changed : Settings()) {
    if (changed.kind == ValueKind::kStringList) continue;
    ASSERT_EQ(other.count(changed.flag), 1u) << changed.flag;
    ServerOptions options;
    ASSERT_TRUE(changed.set(other.at(changed.flag), options).ok()) << changed.flag;
    for (const Setting& setting : Settings()) {
      if (setting.kind == ValueKind::kStringList) continue;
      EXPECT_EQ(setting.show(options),
                setting.flag == changed.flag ? other.at(changed.flag) : setting.show(ServerOptions()))
          << setting.flag << " after --" << changed.flag;
    }
  }
}

TEST(SettingsTableTest, VariablesAreNamedAfterFlags) {
  EXPECT_EQ(EnvironmentName("grpc-address"), "EMBEDDING_GRPC_ADDRESS");
  EXPECT_EQ(EnvironmentName("table"), "EMBEDDING_TABLE");
}

TEST(ConfigureTest, TheLastOfSeveralFlagsHoldsAndListsKeepAll) {
  const auto configuration = Configure({{"max-k", {"5", "6"}}, {"table", {"a=x", "b=y"}}}, {});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->options.limits.max_k, 6);
  ASSERT_EQ(configuration->options.tables.size(), 2u);
  EXPECT_EQ(configuration->options.tables[1].name, "b");
}

TEST(ConfigureTest, AFlagReplacesTheWholeListOfALowerLayer) {
  const auto configuration = Configure({{"table", {"a=x"}}}, {"EMBEDDING_TABLE=b=y;c=z"});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  ASSERT_EQ(configuration->options.tables.size(), 1u);
  EXPECT_EQ(configuration->options.tables[0].name, "a");
}

TEST(ConfigureTest, AnEmptyVariableIsNotSet) {
  const auto configuration = Configure({}, {"EMBEDDING_MAX_K=", "EMBEDDING_TABLE=", "EMBEDDING_CONFIG="});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->options.limits.max_k, 10000);
  EXPECT_THAT(configuration->options.tables, IsEmpty());
  EXPECT_THAT(configuration->warnings, IsEmpty());
}

TEST(ConfigureTest, AValueThatALayerAboveHidesIsNotRead) {
  EXPECT_TRUE(Configure({{"max-k", {"5"}}}, {"EMBEDDING_MAX_K=nonsense"}).ok());
}

TEST(ConfigureTest, VariablesOfOthersAreNotLookedAt) {
  const auto configuration =
      Configure({}, {"PATH=/bin", "MY_EMBEDDING_X=1", "EMBEDDING_ADDRESS=a:1", "EMBEDDING_MAX_KK=1"});
  ASSERT_TRUE(configuration.ok());
  EXPECT_THAT(configuration->warnings,
              ElementsAre("the variable EMBEDDING_MAX_KK is not known and changes nothing; did "
                          "you mean EMBEDDING_MAX_K?"));
}

TEST(ConfigureTest, MessagesEscapeWhatCameFromOutside) {
  const absl::Status status = Configure({{"max-k", {"a\nb\x01"}}}, {}).status();
  EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
  EXPECT_EQ(std::string(status.message()).find('\x01'), std::string::npos);
}

TEST(ConfigureTest, JsonEscapes) {
  const auto configuration = Configure({{"table", {"a=x\"\\\ty"}}}, {});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_THAT(ConfigurationJson(*configuration), HasSubstr(R"("table": {"value": ["a=x\"\\\ty"], "origin": "flag"})"));
}

}  // namespace
}  // namespace embedding
