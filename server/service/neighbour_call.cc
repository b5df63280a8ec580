// NearestNeighbour: the index works on the pool, the answer is measured and written once from its results.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.pb.h"
#include "server/search/neighbour_index.h"
#include "server/service/filter_request.h"
#include "server/service/handlers.h"
#include "server/service/neighbour_queries.h"
#include "server/service/reply_writer.h"
#include "server/service/request_errors.h"
#include "server/service/search_call.h"

namespace embedding {
namespace {

// Of approximate searches; the field's comment tells them.
constexpr int64_t kDefaultEffort = 100;
constexpr int64_t kMaxEffort = 65536;

// As metric= takes it.
absl::string_view MetricWord(Metric metric) {
  switch (metric) {
    case Metric::kCosine:
      return "cosine";
    case Metric::kDot:
      return "dot";
    case Metric::kEuclidean:
      break;
  }
  return "euclidean";
}

class NeighbourCall final : public SearchCall {
 public:
  NeighbourCall(const ServiceContext& context, CallPtr call)
      : SearchCall(context, Rpc::kNearestNeighbour, std::move(call)),
        request_(*google::protobuf::Arena::CreateMessage<v1::NearestNeighbourRequest>(arena())) {}

 private:
  absl::Status Prepare() override {
    if (absl::Status status = Parse(&request_, CheckCounts); !status.ok()) return status;
    if (absl::Status status = CheckRequest(); !status.ok()) return status;
    if (absl::Status status = Acquire(request_.table(), request_.metric()); !status.ok()) return status;
    if (absl::Status status = CheckIndex(); !status.ok()) return status;
    fields_ = {request_.return_keys(), request_.return_vectors(), request_.encoding() == v1::ENCODING_FLOATS};
    if (fields_.keys && table().vocabulary() == nullptr) return NoKeys(table());
    if (absl::Status status = queries_.CheckWidth(table()); !status.ok()) return status;
    if (absl::Status status = CheckAnswer(); !status.ok()) return status;
    absl::Status status = queries_.Resolve(table(), request_.missing());
    CountRows(status, queries_.num_vectors(), queries_.num_missing());
    if (!status.ok()) return status;
    const uint64_t bytes = AnswerBound(queries_.count(), request_.k());
    // What the filter and the queries by examples take is held as long as the answer.
    const int64_t held = queries_.vector_bytes() + FilterBytes(query_.filter, table().num_rows());
    absl::StatusOr<Admission::Ticket> ticket = AdmitAnswer(bytes + static_cast<uint64_t>(held));
    if (!ticket.ok()) return ticket.status();
    ticket_ = *std::move(ticket);
    return absl::OkStatus();
  }

  // Before the parser takes memory for it all.
  static absl::Status CheckCounts(const FieldCounts& counts, const RequestLimits& limits) {
    absl::Status status = CheckOperandCounts(counts, "targets.", limits, "targets.");
    if (status.ok()) status = CheckExampleCounts(counts, limits);
    return status.ok() ? CheckFilterCounts(counts, limits) : status;
  }

  // What is wrong whatever the table.
  absl::Status CheckRequest() {
    if (absl::Status status = CheckEnum("metric", request_.metric(), v1::Metric_descriptor()); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckEnum("encoding", request_.encoding(), v1::Encoding_descriptor()); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckEnum("mode", request_.mode(), v1::SearchMode_descriptor()); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckEffort(); !status.ok()) return status;
    const RequestLimits& limits = context().limits;
    const int64_t k = request_.k();
    if (k < 1) return InvalidField("k", absl::StrCat("k=", k, ", must be in 1..", limits.max_k));
    if (k > limits.max_k) {
      return LimitExceeded("k", absl::StrCat("k=", k), limits.max_k, "--max-k",
                           absl::StrCat("the largest k that fits is ", limits.max_k));
    }
    if (absl::Status status =
            CheckMissing(request_.missing(), {v1::MISSING_POLICY_ERROR, v1::MISSING_POLICY_SKIP}, "missing");
        !status.ok()) {
      return status;
    }
    if (absl::Status status = queries_.Check(request_, limits); !status.ok()) return status;
    return TakeFilter(request_, limits, &query_);
  }

  bool is_approximate() const { return request_.mode() == v1::SEARCH_MODE_APPROXIMATE; }

  absl::Status CheckEffort() const {
    const int64_t effort = request_.effort();
    if (effort < 0 || effort > kMaxEffort) {
      return InvalidField("effort", absl::StrCat("effort=", effort, ", must be in 0..", kMaxEffort));
    }
    if (effort == 0 || is_approximate()) return absl::OkStatus();
    return InvalidField("effort",
                        absl::StrCat("effort=", effort, ", must be 0 unless mode is SEARCH_MODE_APPROXIMATE"));
  }

  absl::Status CheckIndex() const {
    if (!is_approximate()) return absl::OkStatus();
    const GraphFacts* graph = snapshot().index->graph();
    if (graph != nullptr && graph->metric == metric()) return absl::OkStatus();
    return NoIndex(table(), MetricWord(metric()), graph == nullptr ? "" : MetricWord(graph->metric));
  }

  uint64_t AnswerBound(int64_t num_queries, int64_t k) const {
    const int64_t found = std::min(k, MostEligible(query_.filter, table().num_rows()));
    const uint64_t missing = request_.missing() == v1::MISSING_POLICY_SKIP ? MissingPositionsBound(num_queries) : 0;
    return SaturatingAdd(missing,
                         NeighbourAnswerBound(snapshot(), metric(), fields_, static_cast<uint64_t>(num_queries),
                                              static_cast<uint64_t>(found)));
  }

  // Before any search, from what each query can find at most; keys are added up when they are known.
  absl::Status CheckAnswer() const {
    const uint64_t bound = AnswerBound(queries_.count(), request_.k());
    if (bound <= static_cast<uint64_t>(context().limits.max_response_bytes)) return absl::OkStatus();
    return TooLarge(bound, queries_.count());
  }

  absl::Status TooLarge(uint64_t needed_bytes, int64_t num_queries) const {
    const int64_t limit = context().limits.max_response_bytes;
    const int64_t k = request_.k();
    const int64_t queries = LargestThatFits(num_queries, limit, [&](int64_t n) { return AnswerBound(n, k); });
    if (queries > 0) {
      return AnswerTooLarge(queries_.path(), needed_bytes, limit,
                            absl::StrCat("the largest batch that fits is ", queries, " queries with k=", k));
    }
    const int64_t fitting_k = LargestThatFits(k, limit, [&](int64_t n) { return AnswerBound(1, n); });
    return AnswerTooLarge("k", needed_bytes, limit, absl::StrCat("the largest k that fits one query is ", fitting_k));
  }

  void StartWork() override {
    if (queries_.num_computed() == 0) return StartSearch();
    queries_.AllocateVectors();
    ForEach(
        queries_.num_computed(), queries_.compute_work(),
        [this](int64_t i, StopPoll& stop) { queries_.Compute(i, stop); },
        [self = SharedFromThis<NeighbourCall>()] { self->StartSearch(); });
  }

  void StartSearch() {
    if (queries_.num_searched() == 0) {
      neighbours_ = queries_.Spread({});
      EndWork(WorkOutcome::kComplete);
      return;
    }
    query_.metric = metric();
    query_.k = request_.k();
    if (is_approximate()) query_.effort = request_.effort() == 0 ? kDefaultEffort : request_.effort();
    queries_.Fill(&query_, !request_.include_inputs());
    snapshot().index->Start(std::move(query_), *context().pool, StopWithCallUntimed(),
                            [self = SharedFromThis<NeighbourCall>()](NeighbourResult result) {
                              self->CountSearch(result.stats);
                              self->exact_ = result.exact;
                              self->neighbours_ = self->queries_.Spread(std::move(result.neighbours));
                              self->EndWork(result.outcome);
                            });
  }

  void CountSearch(const SearchStats& stats) {
    AddQueueTime(stats.waited);
    Metrics& metrics = *context().metrics;
    metrics.OnSearch(stats.rows_scanned, stats.rows_rescored, stats.fallback_queries);
    for (const int64_t rows : stats.survivors) metrics.OnSurvivors(rows);
    for (const int64_t queries : stats.pass_queries) metrics.OnPass(queries);
  }

  absl::StatusOr<grpc::ByteBuffer> WriteAnswer() override {
    const NeighbourAnswer answer(snapshot(), metric(), exact_, fields_, neighbours_, queries_.missing());
    const int64_t limit = context().limits.max_response_bytes;
    if (answer.size() > static_cast<uint64_t>(limit)) {
      // Only long keys lead here; how many more would fit depends on which rows are found.
      return AnswerTooLarge("return_keys", answer.size(), limit, "ask for fewer queries, a smaller k or no keys");
    }
    AnswerBuffer buffer(answer.size(), std::move(ticket_));
    answer.Write(buffer.data());
    return buffer.TakeBytes();
  }

  v1::NearestNeighbourRequest& request_;
  NeighbourFields fields_;
  NeighbourQueries queries_;
  NeighbourQuery query_;  // its filter is known after CheckRequest, the rest in StartWork
  Admission::Ticket ticket_;
  bool exact_ = true;
  std::vector<std::vector<Neighbour>> neighbours_;
};

}  // namespace

void HandleNearestNeighbour(const ServiceContext& context, CallPtr call) {
  std::make_shared<NeighbourCall>(context, std::move(call))->Begin();
}

}  // namespace embedding
