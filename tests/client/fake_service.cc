#include "tests/client/fake_service.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "grpcpp/server_builder.h"
#include "proto/status_codec.h"

namespace embedding::testing_support {
namespace {

grpc::Status Error(absl::StatusCode code, const std::string& message, const std::string& reason) {
  return ToGrpcStatus(ErrorWithDetails(code, message, {.reason = reason, .metadata = {}, .violations = {}}));
}

grpc::Status OverLimit(const std::string& flag, int64_t given, int64_t limit) {
  return ToGrpcStatus(ErrorWithDetails(absl::StatusCode::kInvalidArgument,
                                       absl::StrCat("given ", given, ", limit ", limit, " (", flag, ")"),
                                       {.reason = "LIMIT_EXCEEDED", .metadata = {{"flag", flag}}, .violations = {}}));
}

std::vector<int64_t> IdsOf(const v1::RowSelector& rows) {
  if (!rows.has_keys()) return {rows.ids().values().begin(), rows.ids().values().end()};
  std::vector<int64_t> ids;
  for (const std::string& key : rows.keys().values()) ids.push_back(std::stoll(key.substr(1)));
  return ids;
}

// The number that a vector stands for in scores: the id of a row, the first element of a vector.
std::vector<double> NumbersOf(const v1::VectorSet& set) {
  std::vector<double> numbers;
  if (set.has_rows()) {
    for (const int64_t id : IdsOf(set.rows())) numbers.push_back(static_cast<double>(id));
    return numbers;
  }
  const v1::Tensor& tensor = set.vectors();
  for (int64_t i = 0; i < tensor.shape(0); ++i) {
    float first = 0;
    std::memcpy(&first, tensor.data().data() + i * tensor.shape(1) * 4, sizeof(first));
    numbers.push_back(first);
  }
  return numbers;
}

std::vector<double> NumbersOf(const v1::ExampleQueries& examples) {
  std::vector<double> numbers;
  for (const v1::ExampleQuery& query : examples.queries()) {
    double sum = 0;
    for (const v1::VectorSet& set : query.positive()) {
      for (const double number : NumbersOf(set)) sum += number;
    }
    for (const v1::VectorSet& set : query.negative()) {
      for (const double number : NumbersOf(set)) sum -= number;
    }
    numbers.push_back(sum);
  }
  return numbers;
}

double MeanOf(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

void AddFloat(std::string& data, double value) {
  const auto narrow = static_cast<float>(value);
  data.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
}

// Sums, each row times its weight; offsets as they are given.
std::vector<std::vector<double>> Bags(const v1::Pooling& pooling, const std::vector<std::vector<double>>& rows,
                                      int64_t dim) {
  std::vector<std::vector<double>> bags;
  for (int b = 0; b < pooling.offsets_size(); ++b) {
    std::vector<double>& bag = bags.emplace_back(dim);
    const size_t end = b + 1 < pooling.offsets_size() ? pooling.offsets(b + 1) : rows.size();
    for (size_t i = pooling.offsets(b); i < end; ++i) {
      const double weight = pooling.weights_size() == 0 ? 1 : pooling.weights(static_cast<int>(i));
      for (int64_t j = 0; j < dim; ++j) bag[j] += weight * rows[i][j];
    }
  }
  return bags;
}

}  // namespace

class FakeService::Embedding : public v1::EmbeddingService::Service {
 public:
  explicit Embedding(FakeService& fake) : fake_(fake) {}

  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override {
    const std::vector<int64_t> ids = IdsOf(request->rows());
    const auto count = static_cast<int64_t>(ids.size());
    return fake_.Answer(*context, request->table(), *response->mutable_table(), count, [&] {
      const Settings& settings = fake_.settings_;
      if (count > settings.max_ids) return OverLimit("--max-ids", count, settings.max_ids);
      const int64_t bytes = count * settings.dim * 4;
      if (bytes > settings.max_response_bytes)
        return OverLimit("--max-response-bytes", bytes, settings.max_response_bytes);
      v1::Tensor& tensor = *response->mutable_embeddings();
      tensor.set_dtype(v1::DTYPE_F32);
      std::vector<std::vector<double>> vectors;
      for (int64_t i = 0; i < count; ++i) {
        const bool missing = ids[i] >= settings.rows;
        if (missing && request->missing() <= v1::MISSING_POLICY_ERROR) {
          return Error(absl::StatusCode::kOutOfRange,
                       absl::StrCat("ids[", i, "] is ", ids[i], ", table has ", settings.rows, " rows"),
                       "ID_OUT_OF_RANGE");
        }
        if (missing) response->add_missing_positions(i);
        if (missing && request->missing() == v1::MISSING_POLICY_SKIP && !request->has_pooling()) continue;
        std::vector<double>& vector = vectors.emplace_back(settings.dim);
        for (int64_t j = 0; j < settings.dim && !missing; ++j) vector[j] = static_cast<double>(100 * ids[i] + j);
      }
      if (request->has_pooling()) {
        vectors = Bags(request->pooling(), vectors, settings.dim);
        tensor.add_shape(static_cast<int64_t>(vectors.size()));
      } else if (request->rows().ids().shape().empty()) {
        tensor.add_shape(static_cast<int64_t>(vectors.size()));
      }
      if (!request->has_pooling()) tensor.mutable_shape()->MergeFrom(request->rows().ids().shape());
      tensor.add_shape(settings.dim);
      for (const std::vector<double>& vector : vectors) {
        for (const double value : vector) AddFloat(*tensor.mutable_data(), value);
      }
      return grpc::Status::OK;
    });
  }

  // Each message as a Lookup of its own.
  grpc::Status LookupStream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::LookupStreamResponse, v1::LookupStreamRequest>* stream) override {
    v1::LookupStreamRequest request;
    while (stream->Read(&request)) {
      v1::LookupStreamResponse response;
      const grpc::Status status = Lookup(context, &request.lookup(), response.mutable_lookup());
      if (!status.ok()) {
        response.mutable_error()->set_code(status.error_code());
        response.mutable_error()->set_message(status.error_message());
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

  // The score of two vectors is 1000 times the left number plus the right one.
  grpc::Status Similarity(grpc::ServerContext* context, const v1::SimilarityRequest* request,
                          v1::SimilarityResponse* response) override {
    const std::vector<double> left = NumbersOf(request->left());
    const std::vector<double> right = NumbersOf(request->right());
    const bool all_pairs = request->layout() == v1::LAYOUT_ALL_PAIRS;
    if (request->reduce() == v1::REDUCE_MEAN) {
      return fake_.Answer(*context, request->table(), *response->mutable_table(), 1, [&] {
        response->mutable_scores()->set_dtype(v1::DTYPE_F32);
        response->mutable_scores()->add_shape(1);
        AddFloat(*response->mutable_scores()->mutable_data(), 1000 * MeanOf(left) + MeanOf(right));
        response->set_metric(v1::METRIC_EUCLIDEAN);
        return grpc::Status::OK;
      });
    }
    const auto pairs = static_cast<int64_t>(all_pairs ? left.size() * right.size() : left.size());
    return fake_.Answer(*context, request->table(), *response->mutable_table(), pairs, [&] {
      if (pairs > fake_.settings_.max_pairs) return OverLimit("--max-pairs", pairs, fake_.settings_.max_pairs);
      v1::Tensor& scores = *response->mutable_scores();
      scores.set_dtype(v1::DTYPE_F32);
      scores.add_shape(static_cast<int64_t>(left.size()));
      if (all_pairs) scores.add_shape(static_cast<int64_t>(right.size()));
      for (size_t i = 0; i < left.size(); ++i) {
        for (size_t j = all_pairs ? 0 : i; j < (all_pairs ? right.size() : i + 1); ++j) {
          AddFloat(*scores.mutable_data(), 1000 * left[i] + right[j]);
        }
      }
      if (request->missing() == v1::MISSING_POLICY_ZERO) {
        const auto add_missing = [&](const std::vector<double>& numbers, auto* positions) {
          for (size_t i = 0; i < numbers.size(); ++i) {
            if (numbers[i] >= static_cast<double>(fake_.settings_.rows)) positions->Add(static_cast<int64_t>(i));
          }
        };
        add_missing(left, response->mutable_missing_left());
        add_missing(right, response->mutable_missing_right());
      }
      response->set_metric(v1::METRIC_EUCLIDEAN);
      return grpc::Status::OK;
    });
  }

  // The neighbours of a query with number q are q + 1, q + 2, ..., q + k with scores 1, 2, ..., k. The number of a
  // query by examples is the sum of its positives less its negatives. Under SKIP a number that is no row finds nothing.
  grpc::Status NearestNeighbour(grpc::ServerContext* context, const v1::NearestNeighbourRequest* request,
                                v1::NearestNeighbourResponse* response) override {
    const std::vector<double> queries =
        request->has_examples() ? NumbersOf(request->examples()) : NumbersOf(request->targets());
    const auto count = static_cast<int64_t>(queries.size());
    return fake_.Answer(*context, request->table(), *response->mutable_table(), count, [&] {
      if (count > fake_.settings_.max_queries) return OverLimit("--max-queries", count, fake_.settings_.max_queries);
      fake_.last_search_ = *request;
      for (const double query : queries) {
        v1::Neighbours& neighbours = *response->add_results();
        if (request->missing() == v1::MISSING_POLICY_SKIP && query >= static_cast<double>(fake_.settings_.rows)) {
          response->add_missing_positions(response->results_size() - 1);
          continue;
        }
        for (int rank = 1; rank <= request->k(); ++rank) {
          neighbours.add_ids(static_cast<int64_t>(query) + rank);
          neighbours.add_scores(static_cast<float>(rank));
          if (!request->return_keys()) continue;
          std::string key = absl::StrCat("k", static_cast<int64_t>(query) + rank);
          key.resize(std::max(key.size(), fake_.settings_.min_key_bytes), '.');
          neighbours.add_keys(key);
        }
      }
      const auto bytes = static_cast<int64_t>(response->ByteSizeLong());
      if (bytes > fake_.settings_.max_response_bytes) {
        return OverLimit("--max-response-bytes", bytes, fake_.settings_.max_response_bytes);
      }
      response->set_metric(v1::METRIC_DOT);
      response->set_higher_is_closer(true);
      return grpc::Status::OK;
    });
  }

 private:
  FakeService& fake_;
};

class FakeService::Tables : public v1::TableService::Service {
 public:
  explicit Tables(FakeService& fake) : fake_(fake) {}

  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    std::lock_guard<std::mutex> lock(fake_.mutex_);
    ++fake_.info_calls_;
    response->set_version("0.0.1");
    v1::Limits& limits = *response->mutable_limits();
    limits.set_max_ids(fake_.settings_.max_ids);
    limits.set_max_queries(fake_.settings_.max_queries);
    limits.set_max_k(fake_.settings_.max_k);
    limits.set_max_pairs(fake_.settings_.max_pairs);
    limits.set_max_filter_ids(fake_.settings_.max_filter_ids);
    limits.set_max_request_bytes(fake_.settings_.max_request_bytes);
    limits.set_max_response_bytes(fake_.settings_.max_response_bytes);
    limits.mutable_max_deadline()->set_seconds(30);
    return grpc::Status::OK;
  }

  grpc::Status GetTable(grpc::ServerContext*, const v1::GetTableRequest* request,
                        v1::GetTableResponse* response) override {
    std::lock_guard<std::mutex> lock(fake_.mutex_);
    ++fake_.table_calls_;
    if (!request->table().name().empty() && request->table().name() != "made-up") {
      return Error(absl::StatusCode::kNotFound, absl::StrCat("no table \"", request->table().name(), "\""),
                   "TABLE_NOT_FOUND");
    }
    v1::TableInfo& info = *response->mutable_table();
    info.set_name("made-up");
    info.set_serving_version(fake_.settings_.version);
    info.set_rows(fake_.settings_.rows);
    info.set_dim(fake_.settings_.dim);
    info.set_parameters(fake_.settings_.rows * fake_.settings_.dim);
    info.set_dtype(v1::DTYPE_F32);
    info.set_source_dtype(v1::DTYPE_F64);
    info.set_metric(v1::METRIC_COSINE);
    info.set_has_keys(true);
    info.set_format("npy");
    info.mutable_loaded_at()->set_seconds(1'700'000'000);
    return grpc::Status::OK;
  }

  grpc::Status ListTables(grpc::ServerContext* context, const v1::ListTablesRequest*,
                          v1::ListTablesResponse* response) override {
    v1::GetTableResponse table;
    grpc::Status status = GetTable(context, &v1::GetTableRequest::default_instance(), &table);
    *response->add_tables() = table.table();
    return status;
  }

  grpc::Status ResolveKeys(grpc::ServerContext* context, const v1::ResolveKeysRequest* request,
                           v1::ResolveKeysResponse* response) override {
    v1::RowSelector rows;
    if (request->has_keys()) *rows.mutable_keys() = request->keys();
    if (request->has_ids()) *rows.mutable_ids() = request->ids();
    std::vector<int64_t> ids = IdsOf(rows);
    for (int i = 0; request->query_case() == v1::ResolveKeysRequest::kPrefix && i < request->limit(); ++i) {
      ids.push_back(i);
    }
    return fake_.Answer(*context, request->table(), *response->mutable_table(), static_cast<int64_t>(ids.size()), [&] {
      if (static_cast<int64_t>(ids.size()) > fake_.settings_.max_ids) return OverLimit("--max-ids", ids.size(), 0);
      for (const int64_t id : ids) {
        response->add_ids(id);
        response->add_keys(absl::StrCat("k", id));
      }
      return grpc::Status::OK;
    });
  }

 private:
  FakeService& fake_;
};

FakeService::FakeService(Settings settings, Hook hook)
    : settings_(std::move(settings)),
      hook_(std::move(hook)),
      embedding_(std::make_unique<Embedding>(*this)),
      tables_(std::make_unique<Tables>(*this)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(embedding_.get());
  builder.RegisterService(tables_.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(settings_.max_request_bytes));
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeService::~FakeService() { server_->Shutdown(std::chrono::system_clock::now()); }

grpc::Status FakeService::Answer(grpc::ServerContext& context, const v1::TableSpec& table, v1::TableStamp& stamp,
                                 int64_t size, const std::function<grpc::Status()>& answer) {
  std::lock_guard<std::mutex> lock(mutex_);
  sizes_.push_back(size);
  const int call = calls_++;
  if (hook_) {
    if (grpc::Status status = hook_(call, context, settings_); !status.ok()) return status;
  }
  if (table.version() != 0 && table.version() != settings_.version) {
    return Error(absl::StatusCode::kNotFound,
                 absl::StrCat("version ", table.version(), " is not served, ", settings_.version, " is"),
                 "VERSION_NOT_FOUND");
  }
  stamp.set_name("made-up");
  stamp.set_version(settings_.version);
  stamp.set_fingerprint(settings_.fingerprint);
  return answer();
}

v1::NearestNeighbourRequest FakeService::last_search() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_search_;
}

int FakeService::calls() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return calls_;
}

int FakeService::info_calls() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return info_calls_;
}

int FakeService::table_calls() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return table_calls_;
}

std::vector<int64_t> FakeService::sizes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return sizes_;
}

}  // namespace embedding::testing_support
