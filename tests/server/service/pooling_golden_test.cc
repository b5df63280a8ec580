// Pooled Lookups against torch.nn.functional.embedding_bag in float64 (golden/make_pooling.py).
#include <fstream>
#include <sstream>
#include <string>

#include "google/protobuf/text_format.h"
#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

struct Golden {
  std::string name;
  v1::LookupRequest request;
  int64_t bags = 0;
  std::vector<double> want, size;
};

struct File {
  int64_t rows = 0, dim = 0;
  std::vector<float> values;
  std::vector<Golden> cases;
};

template <typename T>
std::vector<T> Rest(std::istringstream& line) {
  std::vector<T> values;
  for (T value; line >> value;) values.push_back(value);
  return values;
}

File ReadFile() {
  File file;
  std::ifstream in(EMBEDDING_POOLING_GOLDEN);
  for (std::string text; std::getline(in, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "table") {
      line >> file.rows >> file.dim;
      file.values = Rest<float>(line);
    } else if (word == "case") {
      line >> file.cases.emplace_back().name;
    } else if (word == "request") {
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text.substr(word.size()), &file.cases.back().request));
    } else if (word == "want") {
      line >> file.cases.back().bags;
      file.cases.back().want = Rest<double>(line);
    } else if (word == "size") {
      file.cases.back().size = Rest<double>(line);
    }
  }
  return file;
}

TEST(PoolingGoldenTest, EqualsTorchWithinAMillionth) {
  const File file = ReadFile();
  ASSERT_EQ(file.cases.size(), 42u);
  Services services(TablesOf(FloatTable("golden", file.dim, file.values)));
  for (const Golden& golden : file.cases) {
    SCOPED_TRACE(golden.name);
    v1::LookupResponse response;
    ASSERT_EQ(services.Lookup(golden.request, &response), absl::OkStatus());
    EXPECT_EQ(response.embeddings().dtype(), v1::DTYPE_F32);
    EXPECT_EQ(ShapeOf(response.embeddings()), (std::vector<int64_t>{golden.bags, file.dim}));
    const std::vector<float> got = FloatsOf(response.embeddings());
    ASSERT_EQ(got.size(), golden.want.size());
    ASSERT_EQ(golden.size.size(), golden.want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(got[i]), golden.want[i], 1e-6 * golden.size[i]) << i;
    }
  }
}

}  // namespace
}  // namespace embedding::testing
