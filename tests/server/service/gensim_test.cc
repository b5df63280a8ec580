// The sample table answers what gensim answers for it: golden/gensim.inc, by golden/make_gensim.py.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "server/table/load_table.h"
#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using Words = std::vector<std::string>;
using Scored = std::vector<std::pair<std::string, float>>;

struct MostSimilar {
  Scored positive, negative;  // with weights
  int64_t num_rows;           // restrict_vocab; 0: all
  Scored found;
};

struct NSimilarity {
  Words left, right;
  float score;
};

struct Centrality {
  Words words;
  Scored ranked;
};

#include "golden/gensim.inc"

// gensim's scores are float32 from end to end.
constexpr float kScoreTolerance = 1e-5f;
constexpr float kOrderTolerance = 1e-6f;

void SetKeys(v1::RowSelector* rows, const Words& words) {
  rows->mutable_keys()->mutable_values()->Assign(words.begin(), words.end());
}

class GensimTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    WorkerPool pool(2);
    const absl::StatusOr<TableOptions> options =
        ParseTableOptions("words=" EMBEDDING_SAMPLE_DIR "/words.safetensors,vocab=words.vocab.txt");
    ASSERT_EQ(options.status(), absl::OkStatus());
    absl::StatusOr<std::unique_ptr<EmbeddingTable>> table = LoadTable(*options, {}, pool);
    ASSERT_EQ(table.status(), absl::OkStatus());
    services_ = new Services(TablesOf(*std::move(table)));
  }
  static void TearDownTestSuite() { delete std::exchange(services_, nullptr); }

  static Scored Search(const v1::NearestNeighbourRequest& request) {
    v1::NearestNeighbourResponse response;
    EXPECT_EQ(services_->Call("NearestNeighbour", request, &response), absl::OkStatus());
    Scored found;
    if (response.results_size() != 1) return found;
    for (int i = 0; i < response.results(0).ids_size(); ++i) {
      found.emplace_back(response.results(0).keys(i), response.results(0).scores(i));
    }
    return found;
  }

  // The same words in the same order, except where gensim's scores lie too close to tell.
  static void ExpectSame(const Scored& got, const Scored& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i].second, want[i].second, kScoreTolerance) << want[i].first;
      if (got[i].first == want[i].first) continue;
      const bool is_tie = (i > 0 && want[i - 1].second - want[i].second <= kOrderTolerance) ||
                          (i + 1 < want.size() && want[i].second - want[i + 1].second <= kOrderTolerance);
      EXPECT_TRUE(is_tie) << "place " << i << ": " << got[i].first << " instead of " << want[i].first;
    }
  }

  static Services* services_;
};

Services* GensimTest::services_ = nullptr;

TEST_F(GensimTest, MostSimilar) {
  for (const MostSimilar& golden : kMostSimilar) {
    SCOPED_TRACE(golden.positive.front().first);
    v1::NearestNeighbourRequest request;
    v1::ExampleQuery* query = request.mutable_examples()->add_queries();
    // One set for each positive, one for all negatives.
    for (const auto& [word, weight] : golden.positive) {
      SetKeys(query->add_positive()->mutable_rows(), {word});
      query->add_positive_weights(weight);
    }
    Words negative;
    for (const auto& [word, weight] : golden.negative) {
      negative.push_back(word);
      query->add_negative_weights(weight);
    }
    SetKeys(query->add_negative()->mutable_rows(), negative);
    request.set_k(10);
    request.set_metric(v1::METRIC_COSINE);
    request.set_return_keys(true);
    request.mutable_filter()->set_end_row(golden.num_rows);
    ExpectSame(Search(request), golden.found);
  }
}

TEST_F(GensimTest, KingAndWomanLessManIsQueen) {
  v1::NearestNeighbourRequest request;
  v1::ExampleQuery* query = request.mutable_examples()->add_queries();
  SetKeys(query->add_positive()->mutable_rows(), {"king", "woman"});
  SetKeys(query->add_negative()->mutable_rows(), {"man"});
  request.set_k(1);
  request.set_return_keys(true);
  const Scored found = Search(request);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].first, "queen");
}

TEST_F(GensimTest, NSimilarity) {
  for (const NSimilarity& golden : kNSimilarity) {
    v1::SimilarityRequest request;
    SetKeys(request.mutable_left()->mutable_rows(), golden.left);
    SetKeys(request.mutable_right()->mutable_rows(), golden.right);
    request.set_reduce(v1::REDUCE_MEAN);
    request.set_metric(v1::METRIC_COSINE);
    v1::SimilarityResponse response;
    ASSERT_EQ(services_->Call("Similarity", request, &response), absl::OkStatus());
    EXPECT_THAT(ShapeOf(response.scores()), ::testing::ElementsAre(1));
    EXPECT_NEAR(FloatsOf(response.scores())[0], golden.score, kScoreTolerance) << golden.left.front();
  }
}

// doesnt_match: the words themselves, by closeness to the mean of their unit vectors; the last one does not match.
TEST_F(GensimTest, RankByCentrality) {
  for (const Centrality& golden : kCentrality) {
    SCOPED_TRACE(golden.words.front());
    v1::ResolveKeysRequest resolve;
    resolve.mutable_keys()->mutable_values()->Assign(golden.words.begin(), golden.words.end());
    v1::ResolveKeysResponse resolved;
    ASSERT_EQ(services_->Call("ResolveKeys", resolve, &resolved), absl::OkStatus());
    v1::NearestNeighbourRequest request;
    SetKeys(request.mutable_examples()->add_queries()->add_positive()->mutable_rows(), golden.words);
    *request.mutable_filter()->mutable_allow()->mutable_values() = resolved.ids();
    request.set_include_inputs(true);
    request.set_k(static_cast<int32_t>(golden.words.size()));
    request.set_metric(v1::METRIC_COSINE);
    request.set_return_keys(true);
    ExpectSame(Search(request), golden.ranked);
  }
}

}  // namespace
}  // namespace embedding::testing
