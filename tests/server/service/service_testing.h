// Both services over tables in memory, called without a transport.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "embedding/v1/embedding.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status_codec.h"
#include "server/search/exact_index.h"
#include "server/service/embedding_service.h"
#include "server/service/table_service.h"
#include "tests/testing/fake_call.h"

namespace embedding::testing {

// A table of F32 rows.
inline std::unique_ptr<EmbeddingTable> FloatTable(const std::string& name, int64_t dim,
                                                  const std::vector<float>& values,
                                                  std::vector<std::string> keys = {}) {
  return TableFromMemory(name, Dtype::kF32, static_cast<int64_t>(values.size()) / dim, dim, values.data(),
                         std::move(keys));
}

// The example that the arithmetic is checked with by hand.
inline std::unique_ptr<EmbeddingTable> ToyTable() {
  return FloatTable("toy", 3, {1, 0, 1, .9f, .1f, .8f, 0, 1, 0, -1, 0, .5f}, {"robot", "arm", "box", "tool"});
}

// num_rows rows of width dim; element j of row i is i * 1000 + j.
inline std::unique_ptr<EmbeddingTable> CountingTable(const std::string& name, int64_t num_rows, int64_t dim) {
  std::vector<float> values;
  for (int64_t i = 0; i < num_rows; ++i) {
    for (int64_t j = 0; j < dim; ++j) values.push_back(static_cast<float>(i * 1000 + j));
  }
  return FloatTable(name, dim, values);
}

class Services {
 public:
  explicit Services(std::vector<std::unique_ptr<EmbeddingTable>> tables, RequestLimits limits = {},
                    AdmissionLimits admission_limits = {})
      : pool(2),
        metrics({"0.0.0", "revision", "compiler", "simd"}),
        registry(Names(tables)),
        admission(admission_limits) {
    for (auto& table : tables) {
      auto snapshot = std::make_shared<Snapshot>();
      snapshot->name = table->name();
      snapshot->version = 1;
      snapshot->index = BuildExactIndex(*table, pool);
      snapshot->default_metric = MetricOf(table->metric());
      snapshot->loaded_at = std::chrono::system_clock::time_point(std::chrono::seconds(1700000000));
      snapshot->table = std::move(table);
      registry.Publish(std::move(snapshot));
    }
    Build(limits);
  }

  // Nothing loaded yet.
  explicit Services(std::vector<std::string> names, RequestLimits limits = {}, int keep_versions = 2)
      : pool(1),
        metrics({"0.0.0", "revision", "compiler", "simd"}),
        registry(std::move(names), keep_versions),
        admission({}) {
    Build(limits);
  }

  // Starts a call; path: the method's last part.
  std::shared_ptr<FakeCall> Start(const std::string& method, const grpc::ByteBuffer& body) {
    auto call = std::make_shared<FakeCall>(body);
    methods.at(method).handle(call);
    return call;
  }

  template <typename Request>
  absl::Status Call(const std::string& method, const Request& request, google::protobuf::Message* response) {
    return CallBytes(method, request.SerializeAsString(), response);
  }

  absl::Status CallBytes(const std::string& method, const std::string& bytes, google::protobuf::Message* response) {
    const auto call = Start(method, BodyOf(bytes));
    absl::Status status = call->status();
    if (status.ok()) {
      EXPECT_TRUE(response->ParseFromString(BytesOf(call->TakeReply())));
    }
    return status;
  }

  absl::Status Lookup(const v1::LookupRequest& request, v1::LookupResponse* response) {
    return Call("Lookup", request, response);
  }

  // What the methods below work with, for others that are made of the same parts.
  ServiceContext Context(RequestLimits limits = {}) {
    ServiceContext context;
    context.registry = &registry;
    context.pool = &pool;
    context.metrics = &metrics;
    context.admission = &admission;
    context.limits = limits;
    return context;
  }

  WorkerPool pool;
  Metrics metrics;
  TableRegistry registry;
  Admission admission;
  std::map<std::string, RpcMethod> methods;

 private:
  static std::vector<std::string> Names(const std::vector<std::unique_ptr<EmbeddingTable>>& tables) {
    std::vector<std::string> names;
    names.reserve(tables.size());
    for (const auto& table : tables) names.push_back(table->name());
    return names;
  }

  void Build(RequestLimits limits) {
    const ServiceContext context = Context(limits);
    const auto add = [&](std::vector<RpcMethod> some) {
      for (RpcMethod& method : some) {
        const std::string name = method.path.substr(method.path.rfind('/') + 1);
        methods.emplace(name, std::move(method));
      }
    };
    add(EmbeddingServiceMethods(context));
    add(TableServiceMethods(context, {"0.0.0", "revision", "compiler", "simd"}, std::chrono::steady_clock::now()));
  }
};

template <typename... Tables>
std::vector<std::unique_ptr<EmbeddingTable>> TablesOf(Tables... tables) {
  std::vector<std::unique_ptr<EmbeddingTable>> list;
  (list.push_back(std::move(tables)), ...);
  return list;
}

// Code, reason of the ErrorInfo, and the whole message.
MATCHER_P3(IsError, code, reason, message, "") {
  const ErrorDetails details = DetailsOf(arg);
  *result_listener << arg.ToString() << " with reason " << details.reason;
  return arg.code() == code && details.reason == reason && arg.message() == absl::string_view(message);
}

// The first field path of the BadRequest.
inline std::string FieldOf(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  return details.violations.empty() ? "" : details.violations.front().field;
}

inline std::vector<float> FloatsOf(const v1::Tensor& tensor) {
  if (tensor.values_size() != 0) return {tensor.values().begin(), tensor.values().end()};
  std::vector<float> floats(tensor.data().size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), tensor.data().data(), tensor.data().size());
  return floats;
}

inline std::vector<int64_t> ShapeOf(const v1::Tensor& tensor) { return {tensor.shape().begin(), tensor.shape().end()}; }

template <typename T>
std::string RawBytes(const std::vector<T>& elements) {
  return std::string(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
}

// Fills tensor with [n, dim] floats as bytes.
inline void SetVectors(v1::Tensor* tensor, int64_t dim, const std::vector<float>& floats) {
  tensor->set_dtype(v1::DTYPE_F32);
  tensor->add_shape(static_cast<int64_t>(floats.size()) / dim);
  tensor->add_shape(dim);
  tensor->set_data(RawBytes(floats));
}

// Value of one series in the exported metrics, summed over label sets that hold all of `labels`; -1: no such family.
inline double MetricValue(const Metrics& metrics, const std::string& family_name,
                          const std::map<std::string, std::string>& labels) {
  double sum = -1;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    if (family.name != family_name) continue;
    sum = std::max(sum, 0.0);
    for (const prometheus::ClientMetric& metric : family.metric) {
      size_t matches = 0;
      for (const auto& label : metric.label) {
        const auto it = labels.find(label.name);
        if (it != labels.end() && it->second == label.value) ++matches;
      }
      if (matches != labels.size()) continue;
      sum += family.type == prometheus::MetricType::Histogram ? static_cast<double>(metric.histogram.sample_count)
                                                              : metric.counter.value + metric.gauge.value;
    }
  }
  return sum;
}

}  // namespace embedding::testing
