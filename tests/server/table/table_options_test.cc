#include "server/table/table_options.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TableOptionsTest, NameAndPathAloneLeaveEveryDefault) {
  const absl::StatusOr<TableOptions> options = ParseTableOptions("words=/data/a=b.safetensors");
  ASSERT_THAT(options, Succeeds());
  EXPECT_EQ(options->name, "words");
  EXPECT_EQ(options->path, "/data/a=b.safetensors");
  EXPECT_EQ(options->tensor, "");
  EXPECT_EQ(options->format, TableFormat::kAuto);
  EXPECT_EQ(options->dtype, std::nullopt);
  EXPECT_EQ(options->dim, 0);
  EXPECT_EQ(options->vocab, "");
  EXPECT_FALSE(options->keys.skip_invalid);
  EXPECT_FALSE(options->keys.first_keeps);
  EXPECT_EQ(options->metric, TableMetric::kCosine);
  EXPECT_FALSE(options->allow_non_finite);
}

TEST(TableOptionsTest, EveryOptionIsRead) {
  const absl::StatusOr<TableOptions> raw = ParseTableOptions(
      "T.1-x_=t.bin,format=raw,dtype=BF16,dim=384,vocab=v.txt,invalid-keys=skip,duplicate-keys=first,metric=dot,allow-"
      "non-finite=true");
  ASSERT_THAT(raw, Succeeds());
  EXPECT_EQ(raw->name, "T.1-x_");
  EXPECT_EQ(raw->format, TableFormat::kRaw);
  EXPECT_EQ(raw->dtype, Dtype::kBF16);
  EXPECT_EQ(raw->dim, 384);
  EXPECT_EQ(raw->vocab, "v.txt");
  EXPECT_TRUE(raw->keys.skip_invalid);
  EXPECT_TRUE(raw->keys.first_keeps);
  EXPECT_EQ(raw->metric, TableMetric::kDot);
  EXPECT_TRUE(raw->allow_non_finite);
  EXPECT_FALSE(raw->allow_dim_change);
  EXPECT_EQ(raw->given.size(), 8u);
  EXPECT_EQ(raw->given[3], std::make_pair(std::string("vocab"), std::string("v.txt")));
  EXPECT_TRUE(ParseTableOptions("t=t.npy,allow-dim-change=true")->allow_dim_change);
  EXPECT_EQ(ParseTableOptions("t=t.npy")->codes, CodesOption::kAuto);
  EXPECT_EQ(ParseTableOptions("t=t.npy,codes=on")->codes, CodesOption::kOn);
  EXPECT_EQ(ParseTableOptions("t=t.npy,codes=off")->codes, CodesOption::kOff);
  EXPECT_FALSE(ParseTableOptions("t=t.npy")->hnsw);
  const absl::StatusOr<TableOptions> indexed =
      ParseTableOptions("t=t.npy,hnsw-m=128,index=hnsw,hnsw-ef-construction=4096");
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  EXPECT_TRUE(indexed->hnsw);
  EXPECT_EQ(indexed->hnsw_m, 128);
  EXPECT_EQ(indexed->hnsw_ef_construction, 4096);

  const absl::StatusOr<TableOptions> named = ParseTableOptions("t=m.safetensors,tensor=a=b,metric=euclidean");
  ASSERT_THAT(named, Succeeds());
  EXPECT_EQ(named->tensor, "a=b");
  EXPECT_EQ(named->metric, TableMetric::kEuclidean);
}

TEST(TableOptionsTest, PartsGiveWhatTheirTextGives) {
  const absl::StatusOr<TableOptions> parts =
      MakeTableOptions("t", "a,b.npy", {{"vocab", "a,b.txt"}, {"metric", "dot"}});
  ASSERT_THAT(parts, Succeeds());
  EXPECT_EQ(parts->path, "a,b.npy");
  EXPECT_EQ(parts->vocab, "a,b.txt");
  EXPECT_EQ(parts->metric, TableMetric::kDot);
  EXPECT_THAT(MakeTableOptions("t", "x.npy", {{"metrik", "dot"}}), Fails(kInvalid, HasSubstr("did you mean metric?")));
  EXPECT_THAT(MakeTableOptions("t", "", {}), Fails(kInvalid, "table \"t\" has an empty path"));
}

struct RefusedCase {
  const char* text;
  const char* message;
};

class RefusedTableOptionsTest : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedTableOptionsTest, NamesThePartAndWhatIsAllowed) {
  EXPECT_THAT(ParseTableOptions(GetParam().text), Fails(kInvalid, HasSubstr(GetParam().message))) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedTableOptionsTest,
    ::testing::Values(
        RefusedCase{"", "\"\" is not NAME=PATH"}, RefusedCase{"words", "\"words\" is not NAME=PATH"},
        RefusedCase{"=x", "table name \"\""}, RefusedCase{"a b=x", "table name \"a b\""},
        RefusedCase{"a/b=x", "table name \"a/b\""}, RefusedCase{"t=", "has an empty path"},
        RefusedCase{"t=,dim=3", "has an empty path"}, RefusedCase{"t=x,", "option \"\" is not key=value"},
        RefusedCase{"t=x,raw", "option \"raw\" is not key=value"}, RefusedCase{"t=x,dim=", "dim= has no value"},
        RefusedCase{"t=x,metric=dot,metric=dot", "metric= is given twice"},
        RefusedCase{"t=x,format=hdf5",
                    "format=hdf5: allowed are safetensors, npy, fbin, f16bin, u8bin, i8bin, fvecs, bvecs, word2vec, "
                    "word2vec-text, glove, raw"},
        RefusedCase{"t=x,format=auto", "format=auto: allowed are"},
        RefusedCase{"t=x,dtype=f32", "dtype=f32: allowed are F32, F16, BF16, F64, I8, U8, F8_E4M3, F8_E5M2"},
        RefusedCase{"t=x,dim=0", "dim=0: allowed are integers from 1"}, RefusedCase{"t=x,dim=-3", "dim=-3"},
        RefusedCase{"t=x,dim=3x", "dim=3x"}, RefusedCase{"t=x,dim=+3", "dim=+3"}, RefusedCase{"t=x,dim=1e3", "dim=1e3"},
        RefusedCase{"t=x,dim= 3", "dim= 3"}, RefusedCase{"t=x,dim=99999999999999999999", "dim=99999999999999999999"},
        RefusedCase{"t=x,metric=l2", "metric=l2: allowed are cosine, dot, euclidean"},
        RefusedCase{"t=x,codes=yes", "codes=yes: allowed are auto, on, off"},
        RefusedCase{"t=x,vocab=v,invalid-keys=drop", "invalid-keys=drop: allowed are refuse, skip"},
        RefusedCase{"t=x,format=npy,invalid-keys=skip", "invalid-keys= needs vocab=, files of format=npy hold no keys"},
        RefusedCase{"t=x,format=npy,duplicate-keys=first", "duplicate-keys= needs vocab="},
        RefusedCase{"t=x,duplicate-keys=last", "duplicate-keys=last: allowed are refuse, first"},
        RefusedCase{"t=x,format=glove,vocab=v", "vocab= is not for format=glove, whose files hold their keys"},
        RefusedCase{"t=x,format=word2vec,vocab=v", "vocab= is not for format=word2vec,"},
        RefusedCase{"t=x,vocab=v,format=word2vec-text", "vocab= is not for format=word2vec-text,"},
        RefusedCase{"t=x,default-row=", "table option default-row= has no value"},
        RefusedCase{"t=x,allow-non-finite=1", "allow-non-finite=1: allowed are true, false"},
        RefusedCase{"t=x,allow-non-finite=True", "allowed are true, false"},
        RefusedCase{"t=x,tensr=a",
                    "unknown table option \"tensr\", did you mean tensor? Options are tensor, format, dtype, "
                    "dim, vocab, invalid-keys, duplicate-keys, metric, codes, index, hnsw-m"},
        RefusedCase{"t=x,index=ivf", "index=ivf: allowed are hnsw"},
        RefusedCase{"t=x,hnsw-m=16", "hnsw-m= needs index=hnsw"},
        RefusedCase{"t=x,hnsw-ef-construction=9", "hnsw-ef-construction= needs index=hnsw"},
        RefusedCase{"t=x,index=hnsw,hnsw-m=1", "hnsw-m=1: allowed are integers from 2 to 128"},
        RefusedCase{"t=x,index=hnsw,hnsw-m=129", "hnsw-m=129: allowed are integers from 2 to 128"},
        RefusedCase{"t=x,index=hnsw,hnsw-ef-construction=0", "allowed are integers from 1 to 4096"},
        RefusedCase{"t=x,index=hnsw,hnsw-ef-construction=4097", "allowed are integers from 1 to 4096"},
        RefusedCase{"t=x,a\nb=1", "unknown table option \"a\\nb\""},
        RefusedCase{"t=x,format=safetensors,dtype=F32", "dtype= is for format=raw, not safetensors"},
        RefusedCase{"t=x,dim=3,format=npy", "dim= is for format=raw, not npy"},
        RefusedCase{"t=x,tensor=a,format=fbin", "tensor= is for format=safetensors, not fbin"},
        RefusedCase{"t=x,tensor=a,format=raw,dtype=F32,dim=1", "tensor= is for format=safetensors, not raw"},
        RefusedCase{"t=x,format=raw,dim=3", "format=raw needs dtype="},
        RefusedCase{"t=x,format=raw,dtype=F32", "format=raw needs dim="}));

TEST(TableOptionsTest, NoNeighbourIsOfferedForAWordFarFromAllOptions) {
  EXPECT_THAT(ParseTableOptions("t=x,quantization=1"), Fails(kInvalid, Not(HasSubstr("did you mean"))));
}

TEST(TableOptionsTest, NamesHaveUpTo64Characters) {
  EXPECT_TRUE(IsTableName(std::string(64, 'a')));
  EXPECT_FALSE(IsTableName(std::string(65, 'a')));
  EXPECT_FALSE(IsTableName("nai\xCC\x88ve"));
  EXPECT_FALSE(IsTableName(absl::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace embedding
