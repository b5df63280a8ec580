// hnswlib as its authors mean it to be used (hnsw_arm.h says how it is asked): its own inner product with its own
// vector code, compiled for this very machine, rows copied into it, one thread a query. It chooses its widest code for
// multiples of 16 elements only, so rows and queries are padded with zeros to one.
#include <atomic>
#include <memory>
#include <thread>

#include "hnswlib/hnswlib.h"
#include "tests/bench/hnsw_arm.h"

namespace embedding::bench {
namespace {

class Peer {
 public:
  explicit Peer(const HnswArguments& arguments)
      : arguments_(arguments),
        padded_((static_cast<size_t>(arguments.dim) + 15) / 16 * 16),
        space_(padded_),
        rows_(Padded(ReadVectors(arguments.rows_file, arguments.num_rows, arguments.dim))),
        queries_(Padded(arguments.queries)) {}

  void Build() {
    graph_.reset();
    graph_ = std::make_unique<hnswlib::HierarchicalNSW<float>>(&space_, static_cast<size_t>(arguments_.num_rows),
                                                               static_cast<size_t>(arguments_.m),
                                                               static_cast<size_t>(arguments_.ef_construction));
    OnAllThreads(static_cast<size_t>(arguments_.num_rows),
                 [this](size_t row) { graph_->addPoint(rows_.data() + row * padded_, row); });
  }

  void Search(size_t effort, size_t k, Ids* ids) {
    graph_->setEf(effort);
    if (ids != nullptr) ids->resize(arguments_.num_queries());
    OnAllThreads(arguments_.num_queries(), [&](size_t q) {
      auto found = graph_->searchKnn(queries_.data() + q * padded_, k);
      if (ids == nullptr) return;
      for (; !found.empty(); found.pop()) (*ids)[q].push_back(static_cast<int64_t>(found.top().second));
    });
  }

 private:
  std::vector<float> Padded(const std::vector<float>& vectors) const {
    const auto dim = static_cast<size_t>(arguments_.dim);
    std::vector<float> padded(vectors.size() / dim * padded_);
    for (size_t i = 0; i < vectors.size(); ++i) padded[i / dim * padded_ + i % dim] = vectors[i];
    return padded;
  }

  template <class Function>
  void OnAllThreads(size_t count, const Function& f) const {
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < arguments_.threads; ++t) {
      threads.emplace_back([&] {
        for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) f(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  const HnswArguments& arguments_;
  const size_t padded_;
  hnswlib::InnerProductSpace space_;
  const std::vector<float> rows_;
  const std::vector<float> queries_;
  std::unique_ptr<hnswlib::HierarchicalNSW<float>> graph_;
};

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) { return embedding::bench::RunHnswArm<embedding::bench::Peer>(argc, argv); }
