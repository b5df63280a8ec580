#include "server/service/health_service.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.pb.h"
#include "proto/status_codec.h"
#include "server/service/message_bytes.h"

namespace embedding {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

grpc::ByteBuffer Answer(int state) {
  HealthCheckResponse response;
  response.set_status(static_cast<HealthCheckResponse::ServingStatus>(state));
  return ToBytes(response);
}

grpc::Status NotParsed() {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the request is not a grpc.health.v1.HealthCheckRequest");
}

}  // namespace

class HealthService::CheckHandler final : public StreamHandler {
 public:
  CheckHandler(HealthService* health, StreamPtr stream) : health_(*health), stream_(std::move(stream)) {}

  void OnMessage(const grpc::ByteBuffer& message) override {
    HealthCheckRequest request;
    if (!FromBytes(message, request)) return stream_->Finish(NotParsed());
    int state;
    {
      MutexLock lock(&health_.mutex_);
      state = health_.StateOf(request.service());
    }
    if (state == HealthCheckResponse::SERVICE_UNKNOWN) {
      return stream_->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND,
                                          absl::StrCat("no health is known of '", Escaped(request.service()), "'")));
    }
    stream_->Write(Answer(state));
    stream_->Finish(grpc::Status::OK);
  }

  void OnHalfClose() override { stream_->Finish(NotParsed()); }

 private:
  HealthService& health_;
  const StreamPtr stream_;
};

class HealthService::WatchHandler final : public StreamHandler {
 public:
  WatchHandler(HealthService* health, StreamPtr stream) : health_(*health), stream_(std::move(stream)) {}
  ~WatchHandler() override {
    if (name_.has_value()) health_.RemoveWatcher(*name_, stream_);
  }

  void OnMessage(const grpc::ByteBuffer& message) override {
    HealthCheckRequest request;
    if (name_.has_value() || !FromBytes(message, request)) return stream_->Finish(NotParsed());
    name_ = request.service();
    health_.AddWatcher(*name_, stream_);
  }

  void OnHalfClose() override {
    if (!name_.has_value()) stream_->Finish(NotParsed());
  }

 private:
  HealthService& health_;
  const StreamPtr stream_;
  std::optional<std::string> name_;
};

HealthService::HealthService(const std::vector<std::string>& names) {
  for (const std::string& name : names) serving_[name] = false;
}

void HealthService::SetServing(const std::string& name, bool serving) {
  MutexLock lock(&mutex_);
  const auto [it, is_new] = serving_.try_emplace(name, false);
  if (shutting_down_ || (it->second == serving && !is_new)) return;
  it->second = serving;
  Tell(name);
}

void HealthService::Remove(const std::string& name) {
  MutexLock lock(&mutex_);
  if (serving_.erase(name) > 0) Tell(name);
}

void HealthService::BeginShutdown() {
  MutexLock lock(&mutex_);
  shutting_down_ = true;
  for (auto& [name, serving] : serving_) {
    if (!serving) continue;
    serving = false;
    Tell(name);
  }
}

std::vector<StreamMethod> HealthService::Methods() {
  return {{"/grpc.health.v1.Health/Check",
           [this](StreamPtr stream) { return std::make_unique<CheckHandler>(this, std::move(stream)); }},
          {"/grpc.health.v1.Health/Watch",
           [this](StreamPtr stream) { return std::make_unique<WatchHandler>(this, std::move(stream)); }}};
}

int HealthService::StateOf(const std::string& name) const {
  const auto it = serving_.find(name);
  if (it == serving_.end()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return it->second ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

// Under the lock, so that every watcher sees the changes in their order; Write only queues.
void HealthService::Tell(const std::string& name) {
  for (const auto& [watched, stream] : watchers_) {
    if (watched == name) stream->Write(Answer(StateOf(name)));
  }
}

void HealthService::AddWatcher(const std::string& name, const StreamPtr& stream) {
  MutexLock lock(&mutex_);
  watchers_.emplace(name, stream);
  stream->Write(Answer(StateOf(name)));
}

void HealthService::RemoveWatcher(const std::string& name, const StreamPtr& stream) {
  MutexLock lock(&mutex_);
  watchers_.erase({name, stream});
}

}  // namespace embedding
