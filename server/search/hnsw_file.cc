#include "server/search/hnsw_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/table/fingerprint.h"
#include "server/table/source_file.h"

namespace embedding {
namespace {

// All numbers are little-endian, as this project's targets are. Behind the header: for each upper level its count of
// rows (u64); the lists of the lowest level; for each upper level `below`, then the lists; the digest of all that.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t metric;  // as in enum Metric
  uint32_t m;
  uint32_t ef_construction;
  uint64_t num_rows;
  int64_t entry;
  uint64_t num_levels;  // above the lowest
  char fingerprint[32];
};
static_assert(sizeof(Header) == 80);

constexpr char kMagic[8] = {'E', 'M', 'B', 'H', 'N', 'S', 'W', '\n'};
constexpr uint32_t kVersion = 1;
// More than any graph of 2^31 rows gets with m = 2.
constexpr uint64_t kMostLevels = 64;
constexpr size_t kPiece = size_t{4} << 20;

// A temporary file that is gone unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(absl::StrCat(path, ".", getpid(), ".tmp")) {
    unlink(path_.c_str());  // of a process of this number that was killed
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (descriptor_ >= 0 && !renamed_) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  bool Write(const void* bytes, size_t count) {
    hasher_.Update(bytes, count);
    return WriteUnhashed(bytes, count);
  }

  bool Finish(const std::string& path) {
    const BlockDigest digest = hasher_.Digest();
    if (!WriteUnhashed(digest.data(), digest.size()) || fsync(descriptor_) != 0) return false;
    renamed_ = rename(path_.c_str(), path.c_str()) == 0;
    return renamed_;
  }

 private:
  bool WriteUnhashed(const void* bytes, size_t count) {
    const char* at = static_cast<const char*>(bytes);
    while (count > 0) {
      const ssize_t written = write(descriptor_, at, std::min(count, kPiece));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      at += written;
      count -= static_cast<size_t>(written);
    }
    return true;
  }

  const std::string path_;
  int descriptor_ = -1;
  bool renamed_ = false;
  BlockHasher hasher_;
};

absl::Status NotWritten(absl::string_view step) {
  return absl::UnavailableError(absl::StrCat(step, ": ", std::generic_category().message(errno)));
}

// Reads on from where it stopped, and hashes what it read.
class Reader {
 public:
  explicit Reader(const SourceFile& file) : file_(file) {}

  absl::Status Read(void* to, size_t count) {
    char* at = static_cast<char*>(to);
    while (count > 0) {
      const size_t piece = std::min(count, kPiece);
      if (absl::Status s = file_.ReadAt(offset_, piece, at); !s.ok()) return s;
      hasher_.Update(at, piece);
      at += piece;
      offset_ += piece;
      count -= piece;
    }
    return absl::OkStatus();
  }

  uint64_t left() const { return file_.size() - offset_; }
  BlockDigest Digest() const { return hasher_.Digest(); }

 private:
  const SourceFile& file_;
  uint64_t offset_ = 0;
  BlockHasher hasher_;
};

absl::Status Broken(absl::string_view what) { return absl::DataLossError(absl::StrCat("is broken: ", what)); }

absl::Status CheckHeader(const Header& header, absl::string_view fingerprint, const HnswParameters& parameters,
                         int64_t num_rows) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return absl::DataLossError("is no graph of index=hnsw");
  if (header.version != kVersion) {
    return absl::FailedPreconditionError(absl::StrCat("has version ", header.version, ", not ", kVersion));
  }
  if (absl::string_view(header.fingerprint, sizeof header.fingerprint) != fingerprint ||
      header.num_rows != static_cast<uint64_t>(num_rows)) {
    return absl::FailedPreconditionError("is of other rows");
  }
  if (header.metric != static_cast<uint32_t>(parameters.metric) || header.m != static_cast<uint32_t>(parameters.m) ||
      header.ef_construction != static_cast<uint32_t>(parameters.ef_construction)) {
    return absl::FailedPreconditionError("was built with other parameters");
  }
  if (header.num_levels > kMostLevels) return Broken(absl::StrCat("it has ", header.num_levels, " levels"));
  return absl::OkStatus();
}

}  // namespace

std::string HnswFilePath(absl::string_view table_path, absl::string_view table_name) {
  return absl::StrCat(table_path, ".", table_name, ".hnsw");
}

absl::Status WriteHnswFile(const std::string& path, absl::string_view fingerprint, const HnswGraph& graph) {
  const HnswParameters& parameters = graph.parameters();
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.metric = static_cast<uint32_t>(parameters.metric);
  header.m = static_cast<uint32_t>(parameters.m);
  header.ef_construction = static_cast<uint32_t>(parameters.ef_construction);
  header.num_rows = static_cast<uint64_t>(graph.num_rows());
  header.entry = graph.entry();
  header.num_levels = graph.upper().size();
  std::memcpy(header.fingerprint, fingerprint.data(), std::min(fingerprint.size(), sizeof header.fingerprint));

  TemporaryFile file(path);
  if (!file.is_open()) return NotWritten("cannot be created");
  bool written = file.Write(&header, sizeof header);
  for (const HnswGraph::Level& level : graph.upper()) {
    const uint64_t count = level.below.size();
    written = written && file.Write(&count, sizeof count);
  }
  written = written && file.Write(graph.lowest(),
                                  static_cast<size_t>(graph.num_rows()) * graph.lowest_stride() * sizeof(uint32_t));
  for (const HnswGraph::Level& level : graph.upper()) {
    written = written && file.Write(level.below.data(), level.below.size() * sizeof(uint32_t)) &&
              file.Write(level.links.data(), level.links.size() * sizeof(uint32_t));
  }
  if (!written || !file.Finish(path)) return NotWritten("cannot be written");
  return absl::OkStatus();
}

absl::StatusOr<HnswGraph> ReadHnswFile(const std::string& path, absl::string_view fingerprint,
                                       const HnswParameters& parameters, int64_t num_rows) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return absl::NotFoundError("is not there");
  absl::StatusOr<SourceFile> file = SourceFile::Open(path);
  if (!file.ok()) return file.status();
  Reader reader(*file);
  Header header;
  if (file->size() < sizeof header + sizeof(BlockDigest)) return absl::DataLossError("is no graph of index=hnsw");
  if (absl::Status s = reader.Read(&header, sizeof header); !s.ok()) return s;
  if (absl::Status s = CheckHeader(header, fingerprint, parameters, num_rows); !s.ok()) return s;

  // All sizes are known before memory is asked for.
  const uint64_t lowest_elements = static_cast<uint64_t>(num_rows) * (2 * static_cast<uint64_t>(parameters.m) + 1);
  std::vector<uint64_t> counts(header.num_levels);
  if (absl::Status s = reader.Read(counts.data(), counts.size() * sizeof(uint64_t)); !s.ok()) return s;
  uint64_t elements = lowest_elements;
  for (const uint64_t count : counts) {
    if (count > header.num_rows) return Broken(absl::StrCat("a level of ", count, " rows"));
    elements += count * (static_cast<uint64_t>(parameters.m) + 2);
  }
  const uint64_t wanted = elements * sizeof(uint32_t) + sizeof(BlockDigest);
  if (reader.left() != wanted) {
    return Broken(absl::StrCat(reader.left(), " bytes behind the header, ", wanted, " were due"));
  }

  absl::StatusOr<HnswGraph> graph = HnswGraph::Create(parameters, num_rows);
  if (!graph.ok()) return graph.status();
  if (absl::Status s = reader.Read(graph->mutable_lowest(), lowest_elements * sizeof(uint32_t)); !s.ok()) return s;
  std::vector<HnswGraph::Level> upper(counts.size());
  for (size_t i = 0; i < upper.size(); ++i) {
    upper[i].below.resize(counts[i]);
    upper[i].links.resize(counts[i] * graph->upper_stride());
    if (absl::Status s = reader.Read(upper[i].below.data(), counts[i] * sizeof(uint32_t)); !s.ok()) return s;
    const size_t bytes = upper[i].links.size() * sizeof(uint32_t);
    if (absl::Status s = reader.Read(upper[i].links.data(), bytes); !s.ok()) return s;
  }
  const BlockDigest want = reader.Digest();
  BlockDigest digest;
  if (absl::Status s = reader.Read(digest.data(), digest.size()); !s.ok()) return s;
  if (digest != want) return Broken("its checksum does not match");
  if (absl::Status s = graph->SetUpper(std::move(upper), header.entry); !s.ok()) return Broken(s.message());
  return graph;
}

}  // namespace embedding
