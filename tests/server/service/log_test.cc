#include "server/service/log.h"

#include <fcntl.h>
#include <grpc/support/log.h>
#include <unistd.h>

#include <array>
#include <regex>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/metric_family.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What the process writes to stderr between construction and Text.
class StderrCapture {
 public:
  StderrCapture() : saved_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(fds_.data(), O_CLOEXEC), 0);
    dup2(fds_[1], STDERR_FILENO);
  }
  ~StderrCapture() { close(fds_[0]); }
  std::string Text() {
    FlushLogging();
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    close(fds_[1]);
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t n = 0; (n = read(fds_[0], buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<size_t>(n));
    }
    return text;
  }

 private:
  const int saved_;
  std::array<int, 2> fds_{-1, -1};
};

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { EXPECT_TRUE(InitLogging("text", "info", nullptr).ok()); }

  double Counted(const std::string& family, size_t sample) {
    for (const auto& collected : metrics_.Collect()) {
      if (collected.name == family) return collected.metric.at(sample).counter.value;
    }
    return -1;
  }

  Metrics metrics_{BuildInfo()};
};

TEST_F(LogTest, TextLineHasTimeLevelMessageAndFields) {
  ASSERT_TRUE(InitLogging("text", "info", nullptr).ok());
  StderrCapture capture;
  Log(LogLevel::kInfo, "table loaded", {{"name", "my words"}, {"rows", 10000}});
  EXPECT_TRUE(std::regex_match(capture.Text(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info )"
                                                          R"re(table loaded name="my words" rows=10000\n)re")));
}

TEST_F(LogTest, JsonLineIsOneObject) {
  ASSERT_TRUE(InitLogging("json", "info", nullptr).ok());
  StderrCapture capture;
  Log(LogLevel::kWarning, "odd \"name\"", {{"name", "a\nb"}, {"ready", false}});
  EXPECT_TRUE(std::regex_match(capture.Text(),
                               std::regex(R"(\{"ts":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","level":"warning",)"
                                          R"("msg":"odd \\"name\\"","name":"a\\nb","ready":false\}\n)")));
}

TEST_F(LogTest, LinesBelowTheLevelAreNeitherWrittenNorCounted) {
  ASSERT_TRUE(InitLogging("text", "warning", &metrics_).ok());
  StderrCapture capture;
  Log(LogLevel::kInfo, "quiet");
  Log(LogLevel::kError, "loud");
  EXPECT_THAT(capture.Text(), AllOf(HasSubstr(" error loud\n"), Not(HasSubstr("quiet"))));
  EXPECT_EQ(Counted("embedding_log_messages_total", static_cast<size_t>(LogLevel::kInfo)), 0);
  EXPECT_EQ(Counted("embedding_log_messages_total", static_cast<size_t>(LogLevel::kError)), 1);
}

TEST_F(LogTest, FormatBracesAndPercentsAreText) {
  ASSERT_TRUE(InitLogging("text", "info", nullptr).ok());
  StderrCapture capture;
  Log(LogLevel::kInfo, "{} %v %s {0}", {{"k", "{}"}});
  EXPECT_THAT(capture.Text(), HasSubstr(" info {} %v %s {0} k={}\n"));
}

TEST_F(LogTest, OverlongMessageIsCut) {
  ASSERT_TRUE(InitLogging("text", "info", nullptr).ok());
  StderrCapture capture;
  Log(LogLevel::kInfo, std::string(20000, 'x'));
  const std::string text = capture.Text();
  EXPECT_THAT(text, HasSubstr("xxx...\n"));
  EXPECT_LT(text.size(), 9000u);
}

TEST_F(LogTest, GrpcErrorsAreWarningsAndItsChatterIsQuietAtInfo) {
  ASSERT_TRUE(InitLogging("text", "info", nullptr).ok());
  StderrCapture capture;
  gpr_log("file.cc", 12, GPR_LOG_SEVERITY_ERROR, "%s", "no address\nat all");
  gpr_log("file.cc", 13, GPR_LOG_SEVERITY_INFO, "%s", "chatter");
  EXPECT_THAT(capture.Text(), AllOf(HasSubstr(" warning no address\\nat all component=grpc source=file.cc:12\n"),
                                    Not(HasSubstr("chatter"))));
}

TEST_F(LogTest, GrpcInformationShowsAtDebug) {
  ASSERT_TRUE(InitLogging("text", "debug", nullptr).ok());
  StderrCapture capture;
  gpr_log("file.cc", 13, GPR_LOG_SEVERITY_INFO, "%s", "chatter");
  EXPECT_THAT(capture.Text(), HasSubstr(" debug chatter component=grpc source=file.cc:13\n"));
}

TEST_F(LogTest, UnknownFormatAndLevelAreNamed) {
  EXPECT_EQ(InitLogging("xml", "info", nullptr).message(), "log format is \"xml\", allowed are text and json");
  EXPECT_EQ(InitLogging("text", "loud", nullptr).message(),
            "log level is \"loud\", allowed are trace, debug, info, warning, error and critical");
}

TEST_F(LogTest, ClosedStderrIsReplacedSoThatNoSocketGetsTheLines) {
  const int saved = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  const absl::Status status = InitLogging("text", "info", nullptr);
  const int next = open("/dev/zero", O_RDONLY);
  Log(LogLevel::kInfo, "to nobody");
  FlushLogging();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(next);
  EXPECT_TRUE(status.ok());
  EXPECT_GT(next, STDERR_FILENO);
}

}  // namespace
}  // namespace embedding
