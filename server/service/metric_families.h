// The list of every Prometheus family that the server exports, and the bounds of its histograms.
//
// Names follow what dashboards already query (the grpc_server_* family of the gRPC interceptors in other languages) and
// the Prometheus naming rules: base units as suffix, counters end in _total. Label values come from this list and from
// the tables that are loaded, never from a caller, so the number of series is bounded.
#pragma once

#include <array>
#include <cstdint>

#include "prometheus/metric_type.h"

namespace embedding {

enum class Family : uint8_t {
  kStarted,
  kHandled,
  kHandlingSeconds,
  kInFlight,
  kExpiredBeforeRun,
  kStreamItems,
  kRows,
  kBatchRows,
  kResponseBytes,
  kStageSeconds,
  kNnRowsScanned,
  kNnRowsRescored,
  kNnFallbackQueries,
  kNnSurvivors,
  kNnPassQueries,
  kTableRows,
  kTableDimensions,
  kTableSizeBytes,
  kTableIndexSizeBytes,
  kTableLoadSeconds,
  kTableLoadedTimestamp,
  kTableInfo,
  kTableReloads,
  kTableLastReloadSuccessful,
  kTableLastReloadSuccess,
  kTablesMemoryBytes,
  kTablesMemoryLimit,
  kBuildInfo,
  kLogMessages,
  kLogMessagesDropped,
  kProcessCpuSeconds,
  kProcessResidentBytes,
  kProcessVirtualBytes,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessStartTime,
  kProcessThreads,
};

struct FamilyInfo {
  Family family;
  const char* name;
  prometheus::MetricType type;
  const char* unit;    // "seconds", "bytes", or what is counted
  const char* labels;  // names, separated by commas, in the order of the samples
  const char* help;
};

inline constexpr int kNumFamilies = 37;

// In the order of Family.
extern const std::array<FamilyInfo, kNumFamilies> kFamilies;

const FamilyInfo& InfoOf(Family family);

// Powers of two from 25 us, so that a p99 below a millisecond is a measurement and not an interpolation over the whole
// bucket; the last ones lie around the server's maximum deadline. In nanoseconds, inclusive.
inline constexpr std::array<int64_t, 21> kLatencyBoundsNs = {
    25'000,      50'000,      100'000,       200'000,       400'000,        800'000,        1'600'000,
    3'200'000,   6'400'000,   12'800'000,    25'600'000,    51'200'000,     102'400'000,    204'800'000,
    409'600'000, 819'200'000, 2'000'000'000, 5'000'000'000, 10'000'000'000, 30'000'000'000, 60'000'000'000};

// A stage can take a microsecond. Powers of four: a stage tells where the time goes, for which its mean nearly
// suffices, and there are sixteen such histograms. In nanoseconds, inclusive.
inline constexpr std::array<int64_t, 13> kStageBoundsNs = {
    1'000,      4'000,      16'000,      64'000,        256'000,       1'024'000,     4'096'000,
    16'384'000, 65'536'000, 262'144'000, 1'048'576'000, 4'194'304'000, 16'777'216'000};

// Up to the default limit of ids a request.
inline constexpr std::array<int64_t, 17> kBatchBounds = {1,   2,    4,    8,    16,   32,    64,    128,  256,
                                                         512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};

// Rows that one query scored again: k at the least, hundreds where fast passes tell rows apart badly, all of them where
// they fail. Powers of four up to 16 million.
inline constexpr std::array<int64_t, 13> kSurvivorBounds = {1,     4,     16,     64,      256,     1024,    4096,
                                                            16384, 65536, 262144, 1048576, 4194304, 16777216};

// Queries that share a pass: at most 64 do.
inline constexpr std::array<int64_t, 9> kPassQueriesBounds = {1, 2, 4, 8, 16, 24, 32, 48, 64};

// 64 bytes to 64 MiB, the default limit of an answer.
inline constexpr std::array<int64_t, 11> kBytesBounds = {64,     256,     1024,    4096,     16384,   65536,
                                                         262144, 1048576, 4194304, 16777216, 67108864};

}  // namespace embedding
