#include "server/service/health_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grpc/health/v1/health.pb.h"
#include "server/service/message_bytes.h"

namespace embedding {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kServing = HealthCheckResponse::SERVING;
constexpr auto kNotServing = HealthCheckResponse::NOT_SERVING;
constexpr auto kUnknown = HealthCheckResponse::SERVICE_UNKNOWN;

// Records what it is told.
class FakeStream final : public Stream {
 public:
  void Pause() override {}
  void Resume() override {}
  bool stopped() const override { return false; }
  absl::Status StoppedStatus() const override { return absl::CancelledError("the caller has gone"); }
  void Write(grpc::ByteBuffer message) override {
    HealthCheckResponse response;
    EXPECT_TRUE(FromBytes(message, response));
    states.push_back(response.status());
  }
  void Finish(const grpc::Status& status) override { end = status; }

  std::vector<int> states;
  std::optional<grpc::Status> end;
};

struct Asked {
  std::shared_ptr<FakeStream> stream = std::make_shared<FakeStream>();
  std::unique_ptr<StreamHandler> handler;
};

Asked Ask(HealthService& health, const std::string& method, const std::string& name) {
  Asked asked;
  for (const StreamMethod& each : health.Methods()) {
    if (each.path == "/grpc.health.v1.Health/" + method) asked.handler = each.open(asked.stream);
  }
  HealthCheckRequest request;
  request.set_service(name);
  asked.handler->OnMessage(ToBytes(request));
  return asked;
}

TEST(HealthServiceTest, ChecksTellEachNameByItself) {
  HealthService health({"", "a", "b"});
  EXPECT_THAT(Ask(health, "Check", "a").stream->states, ElementsAre(kNotServing));
  health.SetServing("a", true);
  EXPECT_THAT(Ask(health, "Check", "a").stream->states, ElementsAre(kServing));
  EXPECT_THAT(Ask(health, "Check", "b").stream->states, ElementsAre(kNotServing));
  EXPECT_THAT(Ask(health, "Check", "").stream->states, ElementsAre(kNotServing));
  EXPECT_TRUE(Ask(health, "Check", "a").stream->end->ok());
}

TEST(HealthServiceTest, ChecksOfAnUnknownNameAreNotFound) {
  HealthService health({""});
  const Asked asked = Ask(health, "Check", "x\ny");
  EXPECT_THAT(asked.stream->states, IsEmpty());
  EXPECT_EQ(asked.stream->end->error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(asked.stream->end->error_message(), "no health is known of 'x\\ny'");
}

TEST(HealthServiceTest, WatchersHearEachChangeOnceUntilTheyGo) {
  HealthService health({"a", "b"});
  Asked watch = Ask(health, "Watch", "a");
  const Asked unknown = Ask(health, "Watch", "x");
  health.SetServing("b", true);
  health.SetServing("a", true);
  health.SetServing("a", true);
  health.SetServing("a", false);
  EXPECT_THAT(watch.stream->states, ElementsAre(kNotServing, kServing, kNotServing));
  watch.handler.reset();
  health.SetServing("a", true);
  EXPECT_EQ(watch.stream->states.size(), 3u);
  EXPECT_THAT(unknown.stream->states, ElementsAre(kUnknown));
  EXPECT_FALSE(unknown.stream->end.has_value());
}

TEST(HealthServiceTest, NamesComeAndGo) {
  HealthService health({""});
  const Asked watch = Ask(health, "Watch", "table/new");
  health.SetServing("table/new", true);
  EXPECT_THAT(Ask(health, "Check", "table/new").stream->states, ElementsAre(kServing));
  health.Remove("table/new");
  health.Remove("table/new");
  EXPECT_EQ(Ask(health, "Check", "table/new").stream->end->error_code(), grpc::StatusCode::NOT_FOUND);
  health.SetServing("table/new", true);
  EXPECT_THAT(watch.stream->states, ElementsAre(kUnknown, kServing, kUnknown, kServing));
}

TEST(HealthServiceTest, WatchesGoOnAfterTheCallersHalfClose) {
  HealthService health({"a"});
  const Asked watch = Ask(health, "Watch", "a");
  watch.handler->OnHalfClose();
  health.SetServing("a", true);
  EXPECT_THAT(watch.stream->states, ElementsAre(kNotServing, kServing));
}

TEST(HealthServiceTest, NothingServesOnceTheShutdownBegan) {
  HealthService health({"", "a"});
  health.SetServing("a", true);
  const Asked watch = Ask(health, "Watch", "a");
  health.BeginShutdown();
  health.SetServing("a", true);
  EXPECT_THAT(watch.stream->states, ElementsAre(kServing, kNotServing));
  EXPECT_THAT(Ask(health, "Check", "a").stream->states, ElementsAre(kNotServing));
}

TEST(HealthServiceTest, WhatIsNoRequestIsInvalid) {
  HealthService health({""});
  const grpc::Slice slice("\xff\xff\xff");
  for (const StreamMethod& method : health.Methods()) {
    auto stream = std::make_shared<FakeStream>();
    method.open(stream)->OnMessage(grpc::ByteBuffer(&slice, 1));
    EXPECT_EQ(stream->end->error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method.path;
    stream = std::make_shared<FakeStream>();
    method.open(stream)->OnHalfClose();
    EXPECT_EQ(stream->end->error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method.path;
  }
}

}  // namespace
}  // namespace embedding
