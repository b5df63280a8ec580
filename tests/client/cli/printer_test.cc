#include "client/cli/printer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "client/cli/text.h"

namespace embedding::client {
namespace {

Tensor FloatTensor(std::vector<int64_t> shape, const std::vector<float>& values) {
  Tensor tensor{Dtype::kF32, std::move(shape), std::string(values.size() * sizeof(float), '\0')};
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

const TableStamp kStamp{"words", 3, "0123456789abcdef0123456789abcdef"};

LookupResult TwoRows() { return {kStamp, FloatTensor({2, 7}, {1, 2.5f, -3, 4, 5, 6, 7, 0.1f, 0, 0, 0, 0, 0, 0})}; }

const std::vector<RowName> kNames = {{8714, "robot"}, {7, "a,b"}};

std::string Lookup(Output output) {
  std::ostringstream out;
  PrintLookup(TwoRows(), kNames, /*skipped=*/false, output, out);
  return out.str();
}

TEST(PrinterTest, LookupForPeopleShowsIdsBesideKeysAndTheFirstNumbers) {
  EXPECT_EQ(Lookup(Output::kTable),
            "  ID  KEY    VECTOR (6 of 7)\n"
            "8714  robot  1 2.5 -3 4 5 6 ...\n"
            "   7  a,b    0.1 0 0 0 0 0 ...\n");
}

TEST(PrinterTest, LookupAsCsvHoldsEveryNumber) {
  EXPECT_EQ(Lookup(Output::kCsv),
            "id,key,x0,x1,x2,x3,x4,x5,x6\n"
            "8714,robot,1,2.5,-3,4,5,6,7\n"
            "7,\"a,b\",0.1,0,0,0,0,0,0\n");
}

TEST(PrinterTest, LookupAsJsonLinesIsOneRowALine) {
  EXPECT_EQ(Lookup(Output::kJsonl),
            "{\"id\":8714,\"key\":\"robot\",\"embedding\":[1,2.5,-3,4,5,6,7]}\n"
            "{\"id\":7,\"key\":\"a,b\",\"embedding\":[0.1,0,0,0,0,0,0]}\n");
}

TEST(PrinterTest, LookupAsJsonIsTheMessageItself) {
  EXPECT_EQ(Lookup(Output::kJson),
            R"({"table":{"name":"words","version":"3","fingerprint":"0123456789abcdef0123456789abcdef"},)"
            R"("embeddings":{"dtype":"DTYPE_F32","shape":["2","7"],"data":"",)"
            R"("values":[1,2.5,-3,4,5,6,7,0.1,0,0,0,0,0,0]},"missingPositions":[]})"
            "\n");
}

TEST(PrinterTest, LookupOfATableWithoutKeysHasNoneInJsonLines) {
  std::ostringstream out;
  PrintLookup({kStamp, FloatTensor({1, 2}, {1, 2})}, {{5, ""}}, false, Output::kJsonl, out);
  EXPECT_EQ(out.str(), "{\"id\":5,\"embedding\":[1,2]}\n");
}

// "robot", a key that does not exist, row 7.
std::string LookupWithMissing(bool skipped, Output output) {
  const std::vector<RowName> names = {{8714, "robot"}, {-1, "robbot", true}, {7, "a"}};
  const std::vector<float> values = skipped ? std::vector<float>{1, 2, 3, 4} : std::vector<float>{1, 2, 0, 0, 3, 4};
  LookupResult result{kStamp, FloatTensor({skipped ? 2 : 3, 2}, values)};
  result.missing_positions = {1};
  std::ostringstream out;
  PrintLookup(result, names, skipped, output, out);
  return out.str();
}

TEST(PrinterTest, MissingRowsAreSaidToBeMissing) {
  EXPECT_EQ(LookupWithMissing(false, Output::kTable),
            "  ID  KEY     VECTOR\n"
            "8714  robot   1 2\n"
            "      robbot  missing: 0 0\n"
            "   7  a       3 4\n");
  EXPECT_EQ(LookupWithMissing(true, Output::kTable),
            "  ID  KEY     VECTOR\n"
            "8714  robot   1 2\n"
            "      robbot  missing\n"
            "   7  a       3 4\n");
  EXPECT_EQ(LookupWithMissing(false, Output::kCsv),
            "id,key,missing,x0,x1\n"
            "8714,robot,false,1,2\n"
            ",robbot,true,0,0\n"
            "7,a,false,3,4\n");
  EXPECT_EQ(LookupWithMissing(true, Output::kJsonl),
            "{\"id\":8714,\"key\":\"robot\",\"embedding\":[1,2]}\n"
            "{\"id\":null,\"key\":\"robbot\",\"missing\":true}\n"
            "{\"id\":7,\"key\":\"a\",\"embedding\":[3,4]}\n");
  EXPECT_THAT(LookupWithMissing(true, Output::kJson), ::testing::HasSubstr(R"("missingPositions":["1"])"));
}

TEST(PrinterTest, BagsAreNumbered) {
  LookupResult result{kStamp, FloatTensor({2, 2}, {1, 2, 3, 4})};
  result.missing_positions = {0, 5};
  std::ostringstream table, lines, csv;
  PrintBags(result, Output::kTable, table);
  PrintBags(result, Output::kJsonl, lines);
  PrintBags(result, Output::kCsv, csv);
  EXPECT_EQ(table.str(), "BAG  VECTOR\n  0  1 2\n  1  3 4\nmissing, counted from 0: 0, 5\n");
  EXPECT_EQ(lines.str(), "{\"bag\":0,\"embedding\":[1,2]}\n{\"bag\":1,\"embedding\":[3,4]}\n");
  EXPECT_EQ(csv.str(), "bag,x0,x1\n0,1,2\n1,3,4\n");
}

std::string Similarity(Output output) {
  std::ostringstream out;
  PrintSimilarity({kStamp, {1, 2}, {1.7f, -0.5f}, Metric::kDot, true}, {"robot"}, {"arm", "tool"}, output, out);
  return out.str();
}

TEST(PrinterTest, SimilarityNamesBothSidesAndTheDirection) {
  EXPECT_EQ(Similarity(Output::kTable),
            "LEFT   RIGHT  SCORE (dot, higher is closer)\n"
            "robot  arm    1.7\n"
            "robot  tool   -0.5\n");
  EXPECT_EQ(Similarity(Output::kCsv), "left,right,score\nrobot,arm,1.7\nrobot,tool,-0.5\n");
  EXPECT_EQ(Similarity(Output::kJsonl),
            "{\"left\":\"robot\",\"right\":\"arm\",\"score\":1.7}\n"
            "{\"left\":\"robot\",\"right\":\"tool\",\"score\":-0.5}\n");
  EXPECT_EQ(Similarity(Output::kJson),
            R"({"table":{"name":"words","version":"3","fingerprint":"0123456789abcdef0123456789abcdef"},)"
            R"("scores":{"dtype":"DTYPE_F32","shape":["1","2"],"data":"","values":[1.7,-0.5]},)"
            R"("metric":"METRIC_DOT","higherIsCloser":true,"missingLeft":[],"missingRight":[]})"
            "\n");
}

TEST(PrinterTest, PairwiseSimilarityWalksBothSidesTogether) {
  std::ostringstream out;
  PrintSimilarity({kStamp, {2}, {1, 2}, Metric::kEuclidean, false}, {"a", "c"}, {"b", "d"}, Output::kTable, out);
  EXPECT_EQ(out.str(),
            "LEFT  RIGHT  SCORE (euclidean, lower is closer)\n"
            "a     b      1\n"
            "c     d      2\n");
}

NearestNeighbourResult TwoQueries(bool with_vectors = false) {
  NearestNeighbourResult result;
  result.table = kStamp;
  result.metric = Metric::kCosine;
  result.higher_is_closer = true;
  result.results = {{{1663, 1928}, {0.76823825f, 0.750779f}, {"prince", "queen"}, {}}, {{5}, {1}, {"x\x1b"}, {}}};
  if (with_vectors) {
    result.results[0].vectors = FloatTensor({2, 2}, {1, 2, 3, 4});
    result.results[1].vectors = FloatTensor({1, 2}, {5, 6});
  }
  return result;
}

std::string NeighboursAs(Output output, bool with_vectors = false) {
  std::ostringstream out;
  PrintNeighbours(TwoQueries(with_vectors), {"king", "vector 1"}, output, out);
  return out.str();
}

TEST(PrinterTest, NeighboursForPeopleAreOneTableForEachQuery) {
  EXPECT_EQ(NeighboursAs(Output::kTable),
            "king (cosine, higher is closer)\n"
            "RANK    ID  KEY     SCORE\n"
            "   1  1663  prince  0.76823825\n"
            "   2  1928  queen   0.750779\n"
            "\n"
            "vector 1 (cosine, higher is closer)\n"
            "RANK  ID  KEY    SCORE\n"
            "   1   5  x\\x1b  1\n");
}

TEST(PrinterTest, NeighboursForMachines) {
  EXPECT_EQ(NeighboursAs(Output::kCsv, true),
            "query,rank,id,key,score,x0,x1\n"
            "king,1,1663,prince,0.76823825,1,2\n"
            "king,2,1928,queen,0.750779,3,4\n"
            "vector 1,1,5,x\x1b,1,5,6\n");
  EXPECT_EQ(NeighboursAs(Output::kJsonl, true),
            "{\"query\":\"king\",\"ids\":[1663,1928],\"scores\":[0.76823825,0.750779],\"keys\":[\"prince\",\"queen\"],"
            "\"vectors\":[[1,2],[3,4]]}\n"
            "{\"query\":\"vector 1\",\"ids\":[5],\"scores\":[1],\"keys\":[\"x\\u001b\"],\"vectors\":[[5,6]]}\n");
  EXPECT_THAT(NeighboursAs(Output::kJson),
              testing::HasSubstr(R"("results":[{"ids":["1663","1928"],"scores":[0.768238246,0.750779],)"
                                 R"("keys":["prince","queen"]})"));
}

TableInfo Words() {
  TableInfo info;
  info.name = "words";
  info.serving_version = 1;
  info.rows = 10000;
  info.dim = 100;
  info.parameters = 1000000;
  info.dtype = info.source_dtype = Dtype::kF16;
  info.bytes = 2000000;
  info.metric = Metric::kCosine;
  info.has_keys = true;
  info.fingerprint = "ff";
  info.format = "safetensors";
  info.loaded_at = std::chrono::system_clock::from_time_t(1'700'000'000);
  return info;
}

TEST(PrinterTest, TablesShowShapeTypeAndFingerprint) {
  std::ostringstream people;
  PrintTables({Words()}, Output::kTable, people);
  EXPECT_EQ(people.str(),
            "NAME   VERSION   ROWS  DIM  PARAMETERS  DTYPE    BYTES  METRIC  KEYS  FORMAT       LOADED AT             "
            "FINGERPRINT\n"
            "words        1  10000  100     1000000  F16    2000000  cosine  yes   safetensors  2023-11-14T22:13:20Z  "
            "ff\n");
  TableInfo with_metadata = Words();
  with_metadata.metadata = {{"format", "pt"}, {"license\n", "PDDL 1.0"}};
  std::ostringstream metadata, json;
  PrintTables({with_metadata}, Output::kTable, metadata);
  EXPECT_EQ(metadata.str(),
            people.str() + "words metadata format: pt\nwords metadata " + Printable("license\n") + ": PDDL 1.0\n");
  PrintTables({with_metadata}, Output::kJsonl, json);
  EXPECT_THAT(json.str(), testing::HasSubstr(R"("format":"pt")"));
  std::ostringstream csv;
  PrintTables({Words()}, Output::kCsv, csv);
  EXPECT_EQ(csv.str(),
            "name,version,rows,dim,parameters,dtype,bytes,metric,keys,format,loaded_at,fingerprint\n"
            "words,1,10000,100,1000000,F16,2000000,cosine,yes,safetensors,2023-11-14T22:13:20Z,ff\n");
  std::ostringstream lines;
  PrintTables({Words()}, Output::kJsonl, lines);
  EXPECT_THAT(lines.str(), testing::HasSubstr(R"("hasKeys":true)"));
  EXPECT_THAT(lines.str(), testing::HasSubstr(R"("loadedAt":"2023-11-14T22:13:20Z")"));
}

TEST(PrinterTest, InfoAndHealth) {
  ServerInfo info;
  info.version = "0.1.0";
  info.limits.max_ids = 65536;
  info.limits.max_deadline = std::chrono::milliseconds(30000);
  std::ostringstream people;
  PrintInfo(info, Output::kTable, people);
  EXPECT_THAT(people.str(), testing::HasSubstr("max_ids             65536\n"));
  EXPECT_THAT(people.str(), testing::HasSubstr("max_deadline        30s\n"));
  std::ostringstream health;
  PrintHealth("SERVING", Output::kTable, health);
  PrintHealth("SERVING", Output::kJson, health);
  EXPECT_EQ(health.str(), "SERVING\n{\"status\":\"SERVING\"}\n");
}

}  // namespace
}  // namespace embedding::client
