#include "client/embedding_client.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "client/answers.h"
#include "client/convert.h"
#include "client/lookup_plan.h"
#include "client/lookup_stream_impl.h"
#include "client/one_version.h"
#include "client/sender.h"
#include "client/split.h"
#include "proto/status_codec.h"

namespace embedding {

using client::CallOptions;
using client::Deadline;
using client::Dtype;
using client::Layout;
using client::Range;
using client::Rows;
using client::ServerLimits;
using client::TableRef;
using client::TableStamp;
using client::VectorSource;

namespace {

// Beside ids (up to five bytes each), scores and keys: tags, lengths and the shape of one query's answer.
constexpr int64_t kNeighbourBytes = 9;
constexpr int64_t kQueryEnvelopeBytes = 64;
// Keys are as long as the table has them: planned as this long, and 16 times longer whenever the server finds the
// answer too large.
constexpr int64_t kPlannedKeyBytes = 32;
constexpr int64_t kLongestKeyBytes = 65536;

// Of LoadTable.
constexpr std::chrono::hours kLoadDeadline{1};

// Scores that one result may hold: 4 GiB of them.
constexpr size_t kMaxScores = size_t{1} << 30;

// What splitting goes by.
struct Facts {
  ServerLimits limits;
  int64_t dim = 0;  // of the table; 0 where it does not matter
  Dtype dtype = Dtype::kUnspecified;

  friend bool operator==(const Facts&, const Facts&) = default;
};

// Whether a limit was passed: the one of that flag of the server, or any if flag is empty.
bool IsOverLimit(const absl::Status& status, const std::string& flag = "") {
  const ErrorDetails details = DetailsOf(status);
  if (details.reason != "LIMIT_EXCEEDED") return false;
  return flag.empty() || std::count(details.metadata.begin(), details.metadata.end(),
                                    std::pair<std::string, std::string>("flag", flag)) > 0;
}

// "ids[65536..131071]": elements of the caller's batch.
std::string PartName(absl::string_view batch, Range range) {
  return absl::StrCat(batch, "[", range.begin, "..", range.end - 1, "]");
}

// An error of one part of several: says which, and that its positions count from there. What has nothing to do with the
// content of the part stays as it is.
absl::Status InPart(const absl::Status& status, absl::string_view part) {
  const bool is_about_content = absl::IsInvalidArgument(status) || absl::IsOutOfRange(status) ||
                                absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
                                absl::IsInternal(status);
  if (!is_about_content) return status;
  ErrorDetails details = DetailsOf(status);
  const std::string message = absl::StrCat("in ", part, ", positions counted from there: ", status.message());
  if (details.reason.empty()) return absl::Status(status.code(), message);
  details.metadata.emplace_back("part", std::string(part));
  return ErrorWithDetails(status.code(), message, std::move(details));
}

template <typename Source>
const char* BatchName(const Source& source) {
  return std::holds_alternative<client::Ids>(source) ? "ids" : "keys";
}

// Sizes that contradict each other, or that no result can hold.
absl::Status CheckSides(const client::SimilarityRequest& request) {
  if (absl::Status s = client::CheckVectors(request.left, "left"); !s.ok()) return s;
  if (absl::Status s = client::CheckVectors(request.right, "right"); !s.ok()) return s;
  const size_t n = CountOf(request.left);
  const size_t m = CountOf(request.right);
  const bool all_pairs = request.layout == Layout::kAllPairs;
  if (!all_pairs && request.reduce == client::Reduce::kNone && n != m) {
    return absl::InvalidArgumentError(
        absl::StrCat("left holds ", n, " vectors and right ", m, "; the pairwise layout needs as many on both sides"));
  }
  if (all_pairs && m != 0 && n > kMaxScores / m) {
    return absl::InvalidArgumentError(
        absl::StrCat("left x right are ", n, " x ", m, " scores, more than the ", kMaxScores, " of one result"));
  }
  return absl::OkStatus();
}

// One tile of a Similarity.
v1::SimilarityRequest TileToWire(const client::SimilarityRequest& request, const TableRef& table, Range left,
                                 Range right) {
  v1::SimilarityRequest wire;
  *wire.mutable_table() = client::ToWire(table);
  client::VectorsToWire(request.left, left, *wire.mutable_left());
  client::VectorsToWire(request.right, right, *wire.mutable_right());
  wire.set_layout(client::ToWire(request.layout));
  wire.set_metric(client::ToWire(request.metric));
  wire.set_reduce(client::ToWire(request.reduce));
  wire.set_missing(client::ToWire(request.missing));
  return wire;
}

// Of one tile, once for each range of either side: under all_pairs tiles lie beside and below each other.
absl::Status TakeMissing(const v1::SimilarityResponse& response, bool all_pairs, Range left, Range right,
                         client::SimilarityResult& result) {
  if (!all_pairs || right.begin == 0) {
    absl::Status status =
        client::TakePositions(response.missing_left(), left.begin, left.size(), "missing_left", result.missing_left);
    if (!status.ok()) return status;
  }
  if (all_pairs && left.begin != 0) return absl::OkStatus();
  return client::TakePositions(response.missing_right(), right.begin, right.size(), "missing_right",
                               result.missing_right);
}

// Some of the queries of a NearestNeighbour.
v1::NearestNeighbourRequest QueriesToWire(const client::NearestNeighbourRequest& request, const TableRef& table,
                                          Range part) {
  v1::NearestNeighbourRequest wire;
  *wire.mutable_table() = client::ToWire(table);
  if (!request.examples.empty()) {
    client::ExamplesToWire(std::span(request.examples).subspan(part.begin, part.size()), *wire.mutable_examples());
  } else {
    client::VectorsToWire(request.targets, part, *wire.mutable_targets());
  }
  client::FilterToWire(request.filter, *wire.mutable_filter());
  if (request.score_threshold) wire.set_score_threshold(*request.score_threshold);
  wire.set_missing(client::ToWire(request.missing));
  wire.set_k(request.k);
  wire.set_metric(client::ToWire(request.metric));
  if (request.mode == client::SearchMode::kApproximate) wire.set_mode(v1::SEARCH_MODE_APPROXIMATE);
  wire.set_effort(request.effort);
  wire.set_include_inputs(request.include_inputs);
  wire.set_return_keys(request.return_keys);
  wire.set_return_vectors(request.return_vectors);
  return wire;
}

}  // namespace

class EmbeddingClient::Impl {
 public:
  explicit Impl(const ClientOptions& options) : options_(options), sender_(options) {}

  Deadline DeadlineFor(const CallOptions& call) const { return sender_.DeadlineFor(call); }

  template <typename Method, typename Request, typename Response>
  absl::Status Send(Method method, const Request& request, const Deadline& deadline, Response& response) {
    return sender_.Send(method, request, deadline, response);
  }

  template <typename Method, typename Request, typename Response>
  absl::Status SendOnce(Method method, const Request& request, const Deadline& deadline, Response& response) {
    return sender_.SendOnce(method, request, deadline, response);
  }

  void OpenLookupStream(const CallOptions& call, LookupStream::Impl& inside) {
    if (call.deadline) inside.context.set_deadline(std::chrono::system_clock::now() + *call.deadline);
    inside.stream = sender_.OpenLookupStream(inside.context);
  }

  absl::StatusOr<client::TableInfo> GetTable(const TableRef& table, const Deadline& deadline) {
    v1::GetTableRequest request;
    *request.mutable_table() = client::ToWire(table);
    v1::GetTableResponse response;
    if (absl::Status s = Send(&v1::TableService::Stub::GetTable, request, deadline, response); !s.ok()) return s;
    return client::FromWire(response.table());
  }

  absl::StatusOr<client::ServerInfo> GetServerInfo(const Deadline& deadline) {
    v1::GetServerInfoResponse response;
    if (absl::Status s = Send(&v1::TableService::Stub::GetServerInfo, v1::GetServerInfoRequest(), deadline, response);
        !s.ok()) {
      return s;
    }
    return client::FromWire(response);
  }

  // Calls run with what the server publishes, as remembered from earlier calls. If the server then finds a request over
  // a limit, it may have been restarted with others: asks again and, if anything differs, calls run once more. table:
  // null where the width of rows does not matter.
  template <typename Result>
  absl::StatusOr<Result> WithFacts(const TableRef* table, const Deadline& deadline,
                                   absl::FunctionRef<absl::StatusOr<Result>(const Facts&)> run) {
    const absl::StatusOr<Facts> remembered = FactsFor(table, /*refresh=*/false, deadline);
    if (!remembered.ok()) return remembered.status();
    absl::StatusOr<Result> result = run(*remembered);
    if (!IsOverLimit(result.status())) return result;
    const absl::StatusOr<Facts> fresh = FactsFor(table, /*refresh=*/true, deadline);
    if (!fresh.ok() || *fresh == *remembered) return result;
    return run(*fresh);
  }

 private:
  absl::StatusOr<Facts> FactsFor(const TableRef* table, bool refresh, const Deadline& deadline) {
    Facts facts;
    bool known_limits = false;
    bool known_table = table == nullptr;
    if (!refresh) {
      std::lock_guard<std::mutex> lock(mutex_);
      known_limits = limits_.has_value();
      if (known_limits) facts.limits = *limits_;
      if (table != nullptr) {
        if (const auto found = row_types_.find(table->name); found != row_types_.end()) {
          known_table = true;
          std::tie(facts.dim, facts.dtype) = found->second;
        }
      }
    }
    if (!known_limits) {
      absl::StatusOr<client::ServerInfo> info = GetServerInfo(deadline);
      if (!info.ok()) return info.status();
      // What this client cannot receive, the server need not send.
      info->limits.max_response_bytes = std::min(info->limits.max_response_bytes, options_.max_receive_bytes);
      facts.limits = info->limits;
    }
    if (!known_table) {
      absl::StatusOr<client::TableInfo> info = GetTable(*table, deadline);
      if (!info.ok()) return info.status();
      facts.dim = info->dim;
      facts.dtype = info->dtype;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    limits_ = facts.limits;
    if (table != nullptr) row_types_[table->name] = {facts.dim, facts.dtype};
    return facts;
  }

  const ClientOptions options_;
  client::Sender sender_;
  std::mutex mutex_;
  std::optional<ServerLimits> limits_;                          // guarded by mutex_
  std::map<std::string, std::pair<int64_t, Dtype>> row_types_;  // by table name; guarded by mutex_
};

EmbeddingClient::EmbeddingClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EmbeddingClient::~EmbeddingClient() = default;

absl::StatusOr<std::unique_ptr<EmbeddingClient>> EmbeddingClient::Create(const ClientOptions& options) {
  if (options.address.empty()) return absl::InvalidArgumentError("address is empty, expected HOST:PORT or unix:PATH");
  if (options.deadline.count() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("deadline is ", options.deadline.count(), " ms, must be > 0"));
  }
  if (options.max_receive_bytes < 1 || options.max_receive_bytes > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_receive_bytes is ", options.max_receive_bytes, ", must be in 1..2147483647"));
  }
  if (options.max_attempts < 1 || options.max_attempts > 10) {
    return absl::InvalidArgumentError(absl::StrCat("max_attempts is ", options.max_attempts, ", must be in 1..10"));
  }
  return std::unique_ptr<EmbeddingClient>(new EmbeddingClient(std::make_unique<Impl>(options)));
}

absl::StatusOr<client::LookupResult> EmbeddingClient::Lookup(const client::LookupRequest& request,
                                                             const CallOptions& call) {
  if (absl::Status s = client::CheckShape(request.rows); !s.ok()) return s;
  const Deadline deadline = impl_->DeadlineFor(call);
  // One row cannot be split, so its size does not matter.
  const bool one = CountOf(request.rows) <= 1 && (!request.pooling || request.pooling->offsets.size() <= 1);
  return impl_->WithFacts<client::LookupResult>(
      one ? nullptr : &request.table, deadline, [&](const Facts& facts) -> absl::StatusOr<client::LookupResult> {
        const client::LookupPlan plan(request, facts.dim, facts.dtype, facts.limits);
        client::LookupResult result;
        const auto send = [&](size_t i, const TableRef& table) -> absl::StatusOr<TableStamp> {
          v1::LookupRequest wire;
          *wire.mutable_table() = client::ToWire(table);
          plan.ToWire(i, wire);
          v1::LookupResponse response;
          absl::Status status = impl_->Send(&v1::EmbeddingService::Stub::Lookup, wire, deadline, response);
          if (status.ok()) status = plan.Take(i, response, result);
          if (!status.ok()) {
            return plan.num_parts() == 1 ? status : InPart(status, PartName(BatchName(request.rows), plan.rows_of(i)));
          }
          return client::FromWire(response.table());
        };
        absl::StatusOr<TableStamp> stamp = client::SendToOneVersion(request.table, plan.num_parts(), send);
        if (!stamp.ok()) return stamp.status();
        result.table = *std::move(stamp);
        if (absl::Status s = plan.Join(result); !s.ok()) return s;
        return result;
      });
}

std::unique_ptr<LookupStream> EmbeddingClient::OpenLookupStream(const CallOptions& call) {
  auto inside = std::make_unique<LookupStream::Impl>();
  impl_->OpenLookupStream(call, *inside);
  return std::unique_ptr<LookupStream>(new LookupStream(std::move(inside)));
}

absl::StatusOr<client::SimilarityResult> EmbeddingClient::Similarity(const client::SimilarityRequest& request,
                                                                     const CallOptions& call) {
  if (absl::Status s = CheckSides(request); !s.ok()) return s;
  const size_t n = CountOf(request.left);
  const size_t m = CountOf(request.right);
  const bool all_pairs = request.layout == Layout::kAllPairs;
  const bool reduced = request.reduce != client::Reduce::kNone;
  const Deadline deadline = impl_->DeadlineFor(call);
  return impl_->WithFacts<client::SimilarityResult>(
      nullptr, deadline, [&](const Facts& facts) -> absl::StatusOr<client::SimilarityResult> {
        std::vector<std::pair<Range, Range>> parts;
        if (reduced) {
          parts.emplace_back(Range{0, n}, Range{0, m});
        } else {
          parts = all_pairs ? client::SplitAllPairs(request.left, request.right, facts.limits)
                            : client::SplitPairwise(request.left, request.right, facts.limits);
        }
        client::SimilarityResult result;
        result.shape.push_back(reduced ? 1 : static_cast<int64_t>(n));
        if (all_pairs) result.shape.push_back(static_cast<int64_t>(m));
        result.scores.resize(reduced ? 1 : all_pairs ? n * m : n);
        const auto send = [&](size_t i, const TableRef& table) -> absl::StatusOr<TableStamp> {
          const auto& [left, right] = parts[i];
          v1::SimilarityResponse response;
          absl::Status status = impl_->Send(&v1::EmbeddingService::Stub::Similarity,
                                            TileToWire(request, table, left, right), deadline, response);
          const size_t width = all_pairs ? right.size() : 1;
          const size_t height = reduced ? 1 : left.size();
          std::vector<float> scores(height * width);
          if (status.ok()) status = client::TakeScores(*response.mutable_scores(), scores);
          if (i == 0) {
            result.missing_left.clear();
            result.missing_right.clear();
          }
          if (status.ok()) status = TakeMissing(response, all_pairs, left, right, result);
          if (!status.ok()) {
            return parts.size() == 1
                       ? status
                       : InPart(status, absl::StrCat(PartName("left", left), " and ", PartName("right", right)));
          }
          const size_t stride = all_pairs ? m : 1;
          const size_t column = all_pairs ? right.begin : 0;
          for (size_t row = 0; row < height; ++row) {
            std::copy_n(scores.begin() + static_cast<ptrdiff_t>(row * width), width,
                        result.scores.begin() + static_cast<ptrdiff_t>((left.begin + row) * stride + column));
          }
          result.metric = client::FromWire(response.metric());
          result.higher_is_closer = response.higher_is_closer();
          return client::FromWire(response.table());
        };
        absl::StatusOr<TableStamp> stamp = client::SendToOneVersion(request.table, parts.size(), send);
        if (!stamp.ok()) return stamp.status();
        result.table = *std::move(stamp);
        return result;
      });
}

absl::StatusOr<client::NearestNeighbourResult> EmbeddingClient::NearestNeighbour(
    const client::NearestNeighbourRequest& request, const CallOptions& call) {
  if (absl::Status s = client::CheckVectors(request.targets, "targets"); !s.ok()) return s;
  if (absl::Status s = client::CheckVectors(request.examples); !s.ok()) return s;
  const bool by_examples = !request.examples.empty();
  if (by_examples && CountOf(request.targets) != 0) {
    return absl::InvalidArgumentError("targets and examples are given, must be one of them");
  }
  const size_t num_queries = by_examples ? request.examples.size() : CountOf(request.targets);
  const char* const batch = by_examples ? "examples" : "targets";
  const int64_t filter_bytes = client::RequestBytesOf(request.filter);
  const Deadline deadline = impl_->DeadlineFor(call);
  int64_t key_bytes = request.return_keys ? kPlannedKeyBytes : 0;
  const auto run = [&](const Facts& facts) -> absl::StatusOr<client::NearestNeighbourResult> {
    int64_t neighbour_bytes = kNeighbourBytes + key_bytes;
    if (request.return_vectors) neighbour_bytes += facts.dim * static_cast<int64_t>(client::DtypeSize(facts.dtype));
    int64_t most_found = std::max(request.k, 1);
    if (request.filter.allow) most_found = std::min(most_found, static_cast<int64_t>(request.filter.allow->size()));
    const int64_t answer_bytes = kQueryEnvelopeBytes + most_found * neighbour_bytes;
    const std::vector<Range> parts =
        by_examples ? client::SplitExamples(request.examples, answer_bytes, filter_bytes, facts.limits)
                    : client::SplitQueries(request.targets, answer_bytes, filter_bytes, facts.limits);
    client::NearestNeighbourResult result;
    result.results.resize(num_queries);
    const auto send = [&](size_t i, const TableRef& table) -> absl::StatusOr<TableStamp> {
      v1::NearestNeighbourResponse response;
      absl::Status status = impl_->Send(&v1::EmbeddingService::Stub::NearestNeighbour,
                                        QueriesToWire(request, table, parts[i]), deadline, response);
      if (status.ok()) {
        status = client::TakeNeighbours(response, request,
                                        std::span(result.results).subspan(parts[i].begin, parts[i].size()));
      }
      if (i == 0) {
        result.missing_positions.clear();
        result.exact = true;
      }
      result.exact = result.exact && response.exact();
      if (status.ok()) {
        status = client::TakePositions(response.missing_positions(), parts[i].begin, parts[i].size(),
                                       "missing_positions", result.missing_positions);
      }
      if (!status.ok()) return parts.size() == 1 ? status : InPart(status, PartName(batch, parts[i]));
      result.metric = client::FromWire(response.metric());
      result.higher_is_closer = response.higher_is_closer();
      return client::FromWire(response.table());
    };
    absl::StatusOr<TableStamp> stamp = client::SendToOneVersion(request.table, parts.size(), send);
    if (!stamp.ok()) return stamp.status();
    result.table = *std::move(stamp);
    return result;
  };
  const TableRef* table = request.return_vectors ? &request.table : nullptr;
  while (true) {
    absl::StatusOr<client::NearestNeighbourResult> result =
        impl_->WithFacts<client::NearestNeighbourResult>(table, deadline, run);
    const bool keys_were_longer = IsOverLimit(result.status(), "--max-response-bytes") && key_bytes > 0 &&
                                  key_bytes < kLongestKeyBytes && num_queries > 1;
    if (!keys_were_longer) return result;
    key_bytes *= 16;
  }
}

absl::StatusOr<client::TableInfo> EmbeddingClient::GetTable(const TableRef& table, const CallOptions& call) {
  return impl_->GetTable(table, impl_->DeadlineFor(call));
}

absl::StatusOr<std::vector<client::TableInfo>> EmbeddingClient::ListTables(const CallOptions& call) {
  v1::ListTablesResponse response;
  if (absl::Status s =
          impl_->Send(&v1::TableService::Stub::ListTables, v1::ListTablesRequest(), impl_->DeadlineFor(call), response);
      !s.ok()) {
    return s;
  }
  std::vector<client::TableInfo> tables;
  for (const v1::TableInfo& info : response.tables()) tables.push_back(client::FromWire(info));
  return tables;
}

absl::StatusOr<client::TableInfo> EmbeddingClient::LoadTable(const client::LoadTableRequest& request,
                                                             const CallOptions& call) {
  v1::LoadTableRequest wire;
  wire.set_name(request.name);
  wire.set_path(request.path);
  wire.mutable_options()->insert(request.options.begin(), request.options.end());
  v1::LoadTableResponse response;
  const Deadline deadline = impl_->DeadlineFor({.deadline = call.deadline.value_or(kLoadDeadline)});
  if (absl::Status s = impl_->SendOnce(&v1::TableAdminService::Stub::LoadTable, wire, deadline, response); !s.ok()) {
    return s;
  }
  return client::FromWire(response.table());
}

absl::StatusOr<client::TableInfo> EmbeddingClient::SetServingVersion(const std::string& name, uint64_t version,
                                                                     const CallOptions& call) {
  v1::SetServingVersionRequest wire;
  wire.set_name(name);
  wire.set_version(version);
  v1::SetServingVersionResponse response;
  if (absl::Status s =
          impl_->Send(&v1::TableAdminService::Stub::SetServingVersion, wire, impl_->DeadlineFor(call), response);
      !s.ok()) {
    return s;
  }
  return client::FromWire(response.table());
}

absl::StatusOr<client::TableInfo> EmbeddingClient::UnloadTable(const std::string& name, uint64_t version,
                                                               const CallOptions& call) {
  v1::UnloadTableRequest wire;
  wire.set_name(name);
  wire.set_version(version);
  v1::UnloadTableResponse response;
  if (absl::Status s =
          impl_->SendOnce(&v1::TableAdminService::Stub::UnloadTable, wire, impl_->DeadlineFor(call), response);
      !s.ok()) {
    return s;
  }
  return client::FromWire(response.table());
}

absl::StatusOr<client::ServerInfo> EmbeddingClient::GetServerInfo(const CallOptions& call) {
  return impl_->GetServerInfo(impl_->DeadlineFor(call));
}

absl::StatusOr<client::ResolveKeysResult> EmbeddingClient::ResolveKeys(const client::ResolveKeysRequest& request,
                                                                       const CallOptions& call) {
  const Deadline deadline = impl_->DeadlineFor(call);
  return impl_->WithFacts<client::ResolveKeysResult>(
      nullptr, deadline, [&](const Facts& facts) -> absl::StatusOr<client::ResolveKeysResult> {
        const bool is_prefix = std::holds_alternative<client::KeyPrefix>(request.query);
        const std::vector<Range> parts = client::SplitResolve(request.query, facts.limits);
        client::ResolveKeysResult result;
        const auto send = [&](size_t i, const TableRef& table) -> absl::StatusOr<TableStamp> {
          v1::ResolveKeysRequest wire;
          *wire.mutable_table() = client::ToWire(table);
          client::QueryToWire(request.query, parts[i], wire);
          v1::ResolveKeysResponse response;
          absl::Status status = impl_->Send(&v1::TableService::Stub::ResolveKeys, wire, deadline, response);
          if (status.ok())
            status = client::CheckResolved(response, is_prefix ? std::nullopt : std::optional(parts[i].size()));
          if (!status.ok())
            return parts.size() == 1 ? status : InPart(status, PartName(BatchName(request.query), parts[i]));
          if (i == 0) result = {};
          result.ids.insert(result.ids.end(), response.ids().begin(), response.ids().end());
          result.keys.insert(result.keys.end(), response.keys().begin(), response.keys().end());
          return client::FromWire(response.table());
        };
        absl::StatusOr<TableStamp> stamp = client::SendToOneVersion(request.table, parts.size(), send);
        if (!stamp.ok()) return stamp.status();
        result.table = *std::move(stamp);
        return result;
      });
}

}  // namespace embedding
