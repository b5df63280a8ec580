// Judges answers by walking their bytes: no message is built, so checking costs little beside receiving.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/loadtest/reference.h"
#include "client/loadtest/transport.h"
#include "client/loadtest/workload.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace embedding::loadtest {

// Checks the answers of one workload: shape, dtype, sizes, metric, order and range of neighbours always. With a
// reference also: the stamp; every row of a Lookup to the bit; and of every 50th Similarity or NearestNeighbour call
// (at most kMaxKept of them) the values are kept, to be compared with recomputed ones after the run (CheckKept), so
// that the arithmetic does not disturb the measurement. Of approximate searches the scores are compared, and the rows
// found are counted. Not thread-safe: one per receiving thread.
class AnswerChecker {
 public:
  static constexpr uint64_t kKeepEvery = 50;
  static constexpr size_t kMaxKept = 200;

  // workload and reference must outlive this; reference may be null.
  AnswerChecker(const Workload& workload, const ReferenceTable* reference);

  // Judges the answer to call number `call`; says what is wrong with it in *complaint.
  Verdict Check(uint64_t call, google::protobuf::io::ZeroCopyInputStream* answer, std::string* complaint);

  struct KeptChecks {
    int64_t verified = 0;
    int64_t mismatches = 0;
    int64_t closest_due = 0;    // of approximate searches: rows that the exact search finds
    int64_t closest_found = 0;  // those of them that were found
    int64_t not_reached = 0;    // kept, and not compared before the time was over
    std::string first_complaint;
  };
  // Recomputes every value of the kept answers and compares, until `until_ns` of the clock.
  KeptChecks CheckKept(Clock& clock, int64_t until_ns) const;

 private:
  struct Kept {
    uint64_t call = 0;
    std::vector<int64_t> ids;  // neighbours: all queries' in order
    std::vector<size_t> ends;  // neighbours: where each query's end
    std::vector<float> scores;
  };
  using Stream = google::protobuf::io::CodedInputStream;

  bool Walk(Stream& in);
  bool WalkField(uint32_t tag, Stream& in);
  bool WalkTensor(Stream& in);
  bool WalkNeighbours(Stream& in);
  bool WalkStamp(Stream& in, int length);
  bool CompareRows(Stream& in, int length);
  bool ReadScores(Stream& in, int length);
  bool Judge();
  bool JudgeTensor();
  bool JudgeNeighbours();
  bool Recompute(const Kept& kept, KeptChecks* checks, std::string* complaint) const;
  // Counts the rows that an exact search finds; false if a score is not the recomputed one.
  bool CompareApproximate(const Kept& kept, const std::vector<int64_t>& asked, KeptChecks* checks,
                          std::string* complaint) const;
  bool Malformed(std::string complaint);
  bool Mismatch(std::string complaint);

  const Workload& workload_;
  const ReferenceTable* const reference_;
  std::vector<Kept> kept_;
  uint64_t checked_ = 0;

  // Of the answer being walked.
  std::vector<int64_t> asked_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> ids_;
  std::vector<size_t> ends_;
  std::vector<float> scores_;
  std::string scratch_;
  uint64_t dtype_ = 0;
  uint64_t metric_ = 0;
  bool higher_is_closer_ = false;
  int64_t data_bytes_ = 0;
  bool stamp_seen_ = false;
  Verdict verdict_ = Verdict::kUnchecked;
  std::string complaint_;
};

}  // namespace embedding::loadtest
