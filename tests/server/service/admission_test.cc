#include "server/service/admission.h"

#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/status_codec.h"

namespace embedding {
namespace {

TEST(AdmissionTest, BytesAreHeldUntilTheTicketGoes) {
  Admission admission({.max_in_flight_bytes = 100, .max_queued_searches = 1});
  absl::StatusOr<Admission::Ticket> first = admission.Admit(60, false);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(admission.Admit(40, false).ok());  // exactly the limit, given back at once
  EXPECT_EQ(admission.in_flight_bytes(), 60);
  const absl::Status status = admission.Admit(41, false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message(),
      "overloaded: an answer of 41 bytes beside 60 bytes in flight, limit 100 (--max-in-flight-bytes); retry after "
      "100 ms");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, "OVERLOADED");
  std::optional<std::string> pushback;
  for (const auto& [key, value] : details.metadata) {
    if (key == kRetryPushbackKey) pushback = value;
  }
  EXPECT_EQ(pushback, "100");
  Admission::Ticket moved = *std::move(first);
  EXPECT_EQ(admission.in_flight_bytes(), 60);
  moved = Admission::Ticket();
  EXPECT_EQ(admission.in_flight_bytes(), 0);
}

TEST(AdmissionTest, AnswerLargerThanTheLimitGoesAlone) {
  Admission admission({.max_in_flight_bytes = 100, .max_queued_searches = 1});
  const absl::StatusOr<Admission::Ticket> huge = admission.Admit(1000, false);
  EXPECT_TRUE(huge.ok());
  EXPECT_FALSE(admission.Admit(1, false).ok());
}

TEST(AdmissionTest, SearchesAreCountedApartFromBytes) {
  Admission admission({.max_in_flight_bytes = 100, .max_queued_searches = 2});
  std::optional<Admission::Ticket> a = *admission.Admit(0, true);
  const std::optional<Admission::Ticket> b = *admission.Admit(0, true);
  EXPECT_EQ(admission.queued_searches(), 2);
  EXPECT_FALSE(admission.Admit(0, true).ok());
  EXPECT_TRUE(admission.Admit(100, false).ok());
  a.reset();
  EXPECT_TRUE(admission.Admit(0, true).ok());
}

TEST(AdmissionTest, RefusedSearchKeepsNoPlace) {
  Admission admission({.max_in_flight_bytes = 100, .max_queued_searches = 5});
  const absl::StatusOr<Admission::Ticket> bytes = admission.Admit(90, false);
  EXPECT_FALSE(admission.Admit(20, true).ok());
  EXPECT_EQ(admission.queued_searches(), 0);
  EXPECT_EQ(admission.in_flight_bytes(), 90);
}

TEST(AdmissionTest, TicketsMayOutliveTheAdmission) {
  auto admission = std::make_unique<Admission>(AdmissionLimits{});
  Admission::Ticket ticket = *admission->Admit(10, true);
  admission.reset();
  ticket = Admission::Ticket();
}

TEST(AdmissionTest, ManyThreadsNeverPassTheLimit) {
  Admission admission({.max_in_flight_bytes = 1000, .max_queued_searches = 3});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const absl::StatusOr<Admission::Ticket> ticket = admission.Admit(300, i % 2 == 0);
        EXPECT_LE(admission.in_flight_bytes(), 1000);
        EXPECT_LE(admission.queued_searches(), 3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admission.in_flight_bytes(), 0);
  EXPECT_EQ(admission.queued_searches(), 0);
}

}  // namespace
}  // namespace embedding
