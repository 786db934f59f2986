// Ranks that find each other by an address, a thread each.
#include "runtime/comm/tcp_communicator.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/host_device.h"
#include "sim/base/error.h"
#include "tests/support/error_of.h"

namespace zenflow::runtime {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using zenflow::testing::error_of;

constexpr double kSeconds = 60;

/// A port that was free just now.
int free_port() {
  return Listener(0, "127.0.0.1").port();
}

MeetingPlace place_of(int rank, int ranks, int port) {
  return {.address = "127.0.0.1",
          .port = port,
          .job = "test",
          .rank = rank,
          .ranks = ranks,
          .limit_seconds = kSeconds};
}

void nobody_is_lost(int rank, const std::string& how) {
  ADD_FAILURE() << "rank " << rank << ' ' << how;
}

std::pair<ErrorKind, std::string> error_of_start(const MeetingPlace& place) {
  return error_of([&] { static_cast<void>(start_tcp(place, false, kSeconds, nobody_is_lost)); });
}

void on_ranks(int ranks, const std::function<void(Communicator&)>& work) {
  const int port = free_port();
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([=, &work] {
      const auto own = start_tcp(place_of(r, ranks, port), true, kSeconds, nobody_is_lost);
      work(*own);
    });
  }
}

/// A device and a stream of a rank's own.
struct OwnStream {
  Recorder recorder{false};
  HostDevice device{HostDeviceSettings{}, recorder};
  std::unique_ptr<Stream> stream = device.make_stream("compute");
};

class TcpCommunicatorTest : public ::testing::TestWithParam<int> {};

TEST_P(TcpCommunicatorTest, AddsAndSharesInOrder) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](Communicator& own) {
    EXPECT_EQ(own.size(), ranks);
    for (int round = 0; round < 20; ++round) {
      std::vector<double> values = {1e16, static_cast<double>(own.rank()), 1.0 * round};
      if (own.rank() > 0) values[0] = own.rank() == ranks - 1 ? -1e16 : 1.0;
      own.sum(values);
      double expected = 1e16;  // in rank order
      for (int r = 1; r < ranks - 1; ++r) expected += 1.0;
      EXPECT_EQ(values[0], expected - 1e16);
      EXPECT_EQ(values[1], ranks * (ranks - 1) / 2);
      EXPECT_EQ(values[2], ranks * round);
      for (int owner = 0; owner < ranks; ++owner) {
        std::vector<float> weights(3'000'000, static_cast<float>(own.rank() + 1));
        own.share(owner, weights);
        EXPECT_EQ(weights.front(), static_cast<float>(owner + 1));
        EXPECT_EQ(weights.back(), static_cast<float>(owner + 1));
        if (round > 0) break;
      }
    }
    const ClockOffset offset = own.clock_offset();
    // One clock; what is measured is uncertain by half a round trip.
    EXPECT_LE(std::abs(offset.nanoseconds), offset.uncertainty);
  });
}

TEST_P(TcpCommunicatorTest, ReducesAndBroadcastsInAStream) {
  const int ranks = GetParam();
  std::mutex mutex;
  RankTraffic all;
  constexpr std::size_t kCount = 1'500'000;  // of two messages
  on_ranks(ranks, [&](Communicator& own) {
    OwnStream mine;
    // All owners' in one call: a rank gives tensors and adds others up.
    std::vector<std::vector<float>> gradients;
    std::vector<std::vector<float>> weights;
    std::vector<OwnedTensor> given;
    std::vector<OwnedTensor> shared;
    for (int owner = 0; owner < ranks; ++owner) {
      gradients.emplace_back(kCount, static_cast<float>(own.rank() + 1));
      weights.emplace_back(kCount, static_cast<float>(own.rank()));
      given.push_back({owner, gradients.back().data(), kCount});
      shared.push_back({owner, weights.back().data(), kCount});
    }
    own.reduce(mine.device, *mine.stream, {}, ElementType::kFloat32, given);
    own.broadcast(mine.device, *mine.stream, {}, ElementType::kFloat32, shared);
    mine.stream->record().wait();
    const float sum = static_cast<float>(ranks * (ranks + 1) / 2);
    for (int owner = 0; owner < ranks; ++owner) {
      const float expected = own.rank() == owner ? sum : static_cast<float>(own.rank() + 1);
      const auto o = static_cast<std::size_t>(owner);
      EXPECT_THAT(gradients[o], Each(expected));
      EXPECT_THAT(weights[o], Each(static_cast<float>(owner)));
    }
    // bfloat16: 256 + 1 + 1 is 258 if it is rounded once, else 256.
    std::vector<std::uint16_t> bf16(3, own.rank() == 0 ? 0x4380 : 0x3F80);
    own.reduce(mine.device, *mine.stream, {}, ElementType::kBfloat16,
               std::array{OwnedTensor{0, bf16.data(), bf16.size()}});
    mine.stream->record().wait();
    if (own.rank() == 0 && ranks == 3) {
      EXPECT_EQ(bf16.front(), 0x4381);
    }
    const std::lock_guard lock(mutex);
    all += own.traffic();
  });
  const auto owners = static_cast<std::uint64_t>(ranks);
  EXPECT_EQ(all.weights, owners * (owners - 1) * kCount * sizeof(float));
  EXPECT_EQ(all.gradients, owners * (owners - 1) * kCount * sizeof(float) +
                               (owners - 1) * 3 * sizeof(std::uint16_t));
}

INSTANTIATE_TEST_SUITE_P(Counts, TcpCommunicatorTest, ::testing::Values(2, 3, 5));

TEST(RendezvousTest, SaysWhoIsMissing) {
  MeetingPlace place = place_of(0, 4, free_port());
  place.limit_seconds = 0.3;
  const auto error = error_of_start(place);
  EXPECT_EQ(error.first, ErrorKind::kRuntime);
  EXPECT_THAT(error.second, AllOf(HasSubstr("rank 0 of 4 has waited 0.3 s for rank 1, 2, 3"),
                                  HasSubstr(std::to_string(place.port))));
}

TEST(RendezvousTest, SaysThatRank0IsNotThere) {
  MeetingPlace place = place_of(1, 2, free_port());
  place.limit_seconds = 0.3;
  const auto error = error_of_start(place);
  EXPECT_THAT(error.second, AllOf(HasSubstr("has not reached rank 0 at 127.0.0.1 port"),
                                  HasSubstr("Connection refused")));
  place.address = "no.such.host.invalid";
  EXPECT_THAT(error_of_start(place).second, HasSubstr("rank 0 at no.such.host.invalid"));
}

TEST(RendezvousTest, APortThatIsTakenIsSaid) {
  Listener taken(0, "127.0.0.1");
  EXPECT_THAT(error_of_start(place_of(0, 2, taken.port())).second,
              AllOf(HasSubstr("cannot listen on port"), HasSubstr("Address already in use")));
}

/// Tries to come to a job of two ranks while rank 0 waits for rank 1, for so long that it is told
/// why it may not.
std::string answer_to(const std::function<void(MeetingPlace&)>& change, std::string_view why) {
  const int port = free_port();
  std::string said;
  std::jthread first([port] {
    const auto own = start_tcp(place_of(0, 2, port), false, kSeconds, nobody_is_lost);
  });
  for (double limit = 0.5; limit < 50 && said.find(why) == said.npos; limit *= 4) {
    MeetingPlace other = place_of(1, 2, port);
    other.limit_seconds = limit;
    change(other);
    said = error_of_start(other).second;
  }
  // The right one still finds its place.
  const auto own = start_tcp(place_of(1, 2, port), false, kSeconds, nobody_is_lost);
  return said;
}

TEST(RendezvousTest, OthersAreTurnedAway) {
  const auto expect = [](const char* why, const std::function<void(MeetingPlace&)>& change) {
    EXPECT_THAT(answer_to(change, why), HasSubstr(why));
  };
  expect("another job listens there", [](MeetingPlace& place) { place.job = "another"; });
  expect("it expects another number of ranks", [](MeetingPlace& place) { place.ranks = 3; });
  expect("that rank is there already", [](MeetingPlace& place) { place.rank = 7; });
}

TEST(RendezvousTest, WhoSpeaksAnotherProtocolOrNothingHoldsNobodyUp) {
  const int port = free_port();
  std::jthread first([port] {
    const auto own = start_tcp(place_of(0, 2, port), false, kSeconds, nobody_is_lost);
  });
  std::string why;
  Socket stranger;
  while (!stranger.is_open()) {
    stranger = connect_to("127.0.0.1", port, Deadline::clock::now() + std::chrono::seconds(1), why);
  }
  const std::string request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  EXPECT_TRUE(stranger.send(std::as_bytes(std::span(request))));
  Socket silent =
      connect_to("127.0.0.1", port, Deadline::clock::now() + std::chrono::seconds(1), why);
  const auto own = start_tcp(place_of(1, 2, port), false, kSeconds, nobody_is_lost);
  std::array<std::byte, 1> byte{};
  EXPECT_FALSE(stranger.receive(byte));  // hung up
}

// Rank 1 comes to rank 0, but nobody reaches it: the job ends instead of waiting for it.
TEST(RendezvousDeathTest, ARankThatNobodyReachesEndsTheJob) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const int port = free_port();
        const auto shout = [](int rank, const std::string& how) {
          std::fprintf(stderr, "rank %d %s\n", rank, how.c_str());
        };
        std::jthread first([=] {
          const auto own = start_tcp(place_of(0, 3, port), true, kSeconds, shout);
          std::this_thread::sleep_for(std::chrono::seconds(60));
        });
        std::jthread second([=] {
          const MeetingPlace place = place_of(1, 3, port);
          const auto closed = static_cast<std::uint16_t>(free_port());
          std::vector<Socket> lines;
          for (const Line line : {Line::kControl, Line::kBeat, Line::kBulk}) {
            lines.push_back(call(place, 0, place.address, port, line, closed));
          }
          std::this_thread::sleep_for(std::chrono::seconds(60));
        });
        MeetingPlace third = place_of(2, 3, port);
        third.limit_seconds = 10;
        const auto own = start_tcp(third, true, kSeconds, shout);
      },
      ::testing::ExitedWithCode(1), "rank 2 does not meet the others: .*has not reached rank 1");
}

}  // namespace
}  // namespace zenflow::runtime
